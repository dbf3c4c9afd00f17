package intrakernel_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

const protonTrace = "../../testdata/proton/two_kernels.chrome_trace"

// A trace of Proton is known by its processes, and each slice has its kernel, region, block, warp and multiprocessor.
func TestProton(t *testing.T) {
	text, err := os.ReadFile(protonTrace)
	if err != nil {
		t.Fatal(err)
	}
	h := &intrakernel.Header{Path: "t.json", Options: intrakernel.DefaultOptions()}
	if _, err := intrakernel.ReadTrace(strings.NewReader(string(text)), h, false); !errors.Is(err, intrakernel.ErrProton) {
		t.Fatalf("read as a trace of write_trace: %v", err)
	}
	p, err := intrakernel.ReadProton(strings.NewReader(string(text)), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if p.Elements != 22 || len(p.Visits) != 21 || p.Kernel() != "" {
		t.Errorf("%d elements, %d slices, kernel %q", p.Elements, len(p.Visits), p.Kernel())
	}
	wantNames := []intrakernel.RegionName{
		{Region: 0, Kernel: "matmul kernel", Name: "load"}, {Region: 1, Kernel: "matmul kernel", Name: "compute"},
		{Region: 2, Kernel: "add_kernel", Name: "load"}, {Region: 3, Kernel: "add_kernel", Name: "scope_1"},
	}
	if !reflect.DeepEqual(p.Names, wantNames) {
		t.Errorf("names %+v", p.Names)
	}
	for _, want := range []intrakernel.Visit{
		{TS: 0, Dur: 500, Block: 0, Region: 0, Warp: 0, SM: 3},
		{TS: 200, Dur: 900, Block: 0, Region: 1, Warp: 0, SM: 3},
		{TS: 40, Dur: 501, Block: 70000, Region: 0, Warp: 4, SM: 131},
		{TS: 7000, Dur: 0, Block: 0, Region: 2, Warp: 63, SM: 3},
		{TS: 7131, Dur: 400, Block: 0, Region: 3, Warp: 0, SM: 3},
	} {
		found := 0
		for _, v := range p.Visits {
			if v == want {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%+v is there %d times", want, found)
		}
	}
	// However it is cut, its parts have every slice with its names, and each element once.
	for _, limit := range []int{1 << 20, intrakernel.MaxHeadBytes + 2300} {
		records, visits := uint64(0), []intrakernel.Visit{}
		err := p.Cut(intrakernel.PartHead{}, limit, func(head *intrakernel.PartHead, n uint64, body []byte) error {
			var part intrakernel.Part
			if err := part.Decode(body); err != nil {
				return err
			}
			if part.Clock != intrakernel.ClockCycles || part.Scale != 1 || part.Survived != 21 {
				t.Errorf("head %+v", part.PartHead)
			}
			for _, v := range part.Visits {
				if part.Region(v.Region) != wantNames[v.Region] {
					t.Errorf("region %d is %+v", v.Region, part.Region(v.Region))
				}
			}
			records, visits = records+n, append(visits, part.Visits...)
			return nil
		})
		if err != nil || records != p.Elements || !reflect.DeepEqual(visits, p.Visits) {
			t.Errorf("%v: %d records, visits %+v", err, records, visits)
		}
	}
}

// Proton divides cycles by 1000 in 32 bits and prints what comes of it in 64: up to 2^23 cycles are exact.
func TestProtonTimesAreFloats(t *testing.T) {
	var events []string
	var want []uint64
	for n := uint64(1); n <= 1<<23; n += 1 + n/7 {
		us := strconv.FormatFloat(float64(float32(n)/1000), 'g', -1, 64)
		events = append(events, `{"cat":"k","dur":`+us+`,"name":"r","ph":"X","pid":"k Core0 CTA0","tid":"warp 0 (line 0)","ts":0.0}`)
		want = append(want, n)
	}
	p, err := intrakernel.ReadProton(strings.NewReader(`{"traceEvents":[`+strings.Join(events, ",")+`]}`), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range p.Visits { // they end in that order
		if v.Dur != want[i] {
			t.Errorf("%d cycles, Proton wrote %d", v.Dur, want[i])
		}
	}
	if len(p.Visits) != len(want) || len(want) < 80 {
		t.Errorf("%d slices of %d", len(p.Visits), len(want))
	}
}

// What cannot be a slice of Proton is refused with its place and what to do.
func TestProtonRefused(t *testing.T) {
	const good = `{"cat":"k","name":"a","ph":"X","pid":"k Core1 CTA2","tid":"warp 3 (line 0)","ts":1.5,"dur":0.25}`
	for _, c := range []struct{ from, to, want string }{
		{``, ``, ""},
		{`"k Core1 CTA2"`, `"k Core1 CTA2 [measure in clock cycle (assume 1GHz)]"`, ""},
		{`"k Core1 CTA2"`, `"a Core9 CTA9 b Core1 CTA2"`, ""},
		{`"ts":1.5`, `"ts":-1.5`, ""},
		{`"k Core1 CTA2"`, `"k Core1"`, "are no slice of Proton"},
		{`"k Core1 CTA2"`, `"k Core70000 CTA2"`, "are no slice of Proton"},
		{`"k Core1 CTA2"`, `"k Core1 CTA4294967296"`, "are no slice of Proton"},
		{`"k Core1 CTA2"`, `7`, "are no slice of Proton"},
		{`"warp 3 (line 0)"`, `"warp 3"`, "are no slice of Proton"},
		{`"warp 3 (line 0)"`, `"warp 70000 (line 0)"`, "are no slice of Proton"},
		{`"ph":"X"`, `"ph":"B"`, "are no slice of Proton"},
		{`"cat":"k"`, `"cat":7`, "no text"},
		{`"name":"a"`, `"name":{}`, "no text"},
		{`"dur":0.25`, `"dur":-0.25`, "no duration from 0 on"},
		{`"dur":0.25`, `"dur":1e300`, "no duration from 0 on"},
		{`"ts":1.5`, `"ts":null`, "no time"},
		{`"ts":1.5`, `"ts":NaN`, "no time"},
	} {
		text := fmt.Sprintf(`{"traceEvents":[%s,%s]}`, good, strings.Replace(good, c.from, c.to, 1))
		p, err := intrakernel.ReadProton(strings.NewReader(text), 10)
		if c.want == "" && (err != nil || len(p.Visits) != 2) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
	text := fmt.Sprintf(`[%s,%s]`, good, good)
	if _, err := intrakernel.ReadProton(strings.NewReader(text), 1); !errors.Is(err, intrakernel.ErrTooMany) {
		t.Errorf("two slices where one may be kept: %v", err)
	}
	if _, err := intrakernel.ReadProton(strings.NewReader(text[:len(text)-20]), 9); err == nil {
		t.Error("a torn trace was taken")
	}
}

// FuzzProton: no bytes break the reader, and what it takes is cut into parts that can be read.
func FuzzProton(f *testing.F) {
	f.Add(`[{"cat":"k","name":"a","ph":"X","pid":"k Core1 CTA2","tid":"warp 3 (line 0)","ts":1.5,"dur":0.25}]`) // a short one is mutated fast
	f.Fuzz(func(t *testing.T, text string) {
		p, err := intrakernel.ReadProton(strings.NewReader(text), 1000)
		if err != nil {
			return
		}
		n := 0
		err = p.Cut(intrakernel.PartHead{}, intrakernel.MaxHeadBytes+4000, func(_ *intrakernel.PartHead, _ uint64, body []byte) error {
			var part intrakernel.Part
			n += len(part.Visits)
			return part.Decode(body)
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A part of the first version, which an older build left in INGEST, is read.
func TestPartVersion1(t *testing.T) {
	body := []byte("\x01\x3d" + `{"kernel":"k","clock":"globaltimer","scale":1,"index":0,"parts":1` + "}")
	body[1] = byte(len(body) - 2)
	body = append(body, 1, 3, 4, 'l', 'o', 'a', 'd', 2) // one name, two events
	body = append(body, 12, 7, 6, 9, 0x83, 0x01)        // ends at 12, took 7, region 3, block 9, warp 3 on multiprocessor 2
	body = append(body, 5, 0, 7, 9, 3)                  // a mark 5 later
	var p intrakernel.Part
	if err := p.Decode(body); err != nil {
		t.Fatal(err)
	}
	want := []intrakernel.Visit{{TS: 5, Dur: 7, Block: 9, Region: 3, Warp: 3, SM: 2}, {TS: 17, Block: 9, Region: 3, Warp: 3, Instant: true}}
	if !reflect.DeepEqual(p.Visits, want) || p.Region(3) != (intrakernel.RegionName{Region: 3, Kernel: "k", Name: "load"}) {
		t.Errorf("%+v", p)
	}
}

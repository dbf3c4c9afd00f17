package kineto_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/kineto"
)

// vectors are the traces of testdata and, where WARPLINE_TRACE_VECTORS names a folder, those in it.
func vectors(t testing.TB) (paths []string) {
	t.Helper()
	for _, dir := range []string{"../../testdata/traces/real", os.Getenv("WARPLINE_TRACE_VECTORS")} {
		found, err := filepath.Glob(filepath.Join(dir, "*.json.gz"))
		if err != nil || len(found) == 0 && dir != "" {
			t.Fatalf("%s: %d traces, %v", dir, len(found), err)
		}
		if dir != "" {
			paths = append(paths, found...)
		}
	}
	return paths
}

func unzip(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err == nil {
		b, err = io.ReadAll(z)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cutting is what came of a trace.
type cutting struct {
	meta    *kineto.Meta
	parts   int
	events  []string // a line each
	besides uint64
	refused []string
	told    uint64
	size    int64
}

func cut(t testing.TB, trace []byte, limit int) *cutting {
	t.Helper()
	meta, err := kineto.Survey(bytes.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	out := &cutting{meta: meta}
	var p kineto.Part
	c := kineto.Cutter{Head: kineto.Head{Rank: meta.Rank, Devices: meta.Devices, Complete: meta.Complete}, Meta: meta, Limit: limit,
		Send: func(head *kineto.Head, elements uint64, size int64, body []byte) error {
			if err := p.Decode(body); err != nil {
				t.Fatal(err)
			}
			if p.Elements() != elements || p.Index != out.parts {
				t.Fatalf("part %d tells %d elements, sent as part %d with %d", p.Index, p.Elements(), out.parts, elements)
			}
			out.parts++
			out.besides += p.Besides
			out.told += elements
			out.size += size
			for i := range p.Events {
				e := &p.Events[i]
				out.events = append(out.events, fmt.Sprintf("%s %s %d+%d %q %q pid %s tid %s on %q dev %d stream %d corr %d ext %d %s", e.Phase, e.Kind,
					e.Start, e.Duration, p.Texts[e.Name], p.Texts[e.Category], p.Texts[e.PID], p.Texts[e.TID], p.Texts[e.Track], e.Device, e.Stream,
					e.Correlation, e.External, e.Args))
			}
			return nil
		},
		Refuse: func(r *kineto.Refusal) error {
			out.refused = append(out.refused, fmt.Sprintf("%d %s: %s", r.Offset, r.Reason, r.Detail))
			out.size += r.Size
			return nil
		}}
	if err := c.Cut(bytes.NewReader(trace)); err != nil {
		t.Fatal(err)
	}
	return out
}

// oracle reads a trace with encoding/json and math/big.
type oracle struct {
	Base   json.Number `json:"baseTimeNanoseconds"`
	Events []struct {
		Phase, Cat, Name string
		Ph               string
		TS, Dur          json.Number
		PID, TID         any
		ID               any
		Args             json.RawMessage
	} `json:"traceEvents"`
}

func ns(t testing.TB, us json.Number, base json.Number) int64 {
	if us == "" {
		return 0
	}
	r, ok := new(big.Rat).SetString(string(us))
	if !ok {
		t.Fatalf("time %q", us)
	}
	r.Mul(r, big.NewRat(1000, 1))
	if base != "" {
		b, _ := new(big.Rat).SetString(string(base))
		r.Add(r, b)
	}
	if !r.IsInt() {
		t.Fatalf("time %q is no whole number of ns", us)
	}
	return r.Num().Int64()
}

// Of every vector, each element is told once, with its name, category, row, time, length and args, however the trace is cut.
func TestVectorsAreCutWhole(t *testing.T) {
	for _, path := range vectors(t) {
		trace := unzip(t, path)
		var want oracle
		d := json.NewDecoder(bytes.NewReader(trace))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Logf("%s: no JSON for encoding/json: %v", filepath.Base(path), err)
			continue
		}
		whole := cut(t, trace, 1<<20)
		if len(whole.refused) > 0 || whole.told != uint64(len(want.Events)) || !whole.meta.Complete {
			t.Errorf("%s: %d elements, %d are told; refused %v", filepath.Base(path), len(want.Events), whole.told, whole.refused)
		}
		var lines []string
		for _, e := range want.Events {
			if e.Ph == "M" {
				continue
			}
			args := new(bytes.Buffer)
			if len(e.Args) > 2 && strings.HasPrefix("Xi", e.Ph) || e.Ph == "i" {
				json.Compact(args, e.Args)
			}
			if args.String() == "{}" {
				args.Reset()
			}
			length := ""
			if e.Ph == "X" || e.Ph == "i" {
				length = fmt.Sprint("+", ns(t, e.Dur, ""))
			}
			lines = append(lines, fmt.Sprintf("%s %d%s %q %q pid %v tid %v %s", e.Ph, ns(t, e.TS, want.Base), length, e.Name, e.Cat, e.PID, e.TID,
				args))
		}
		if len(lines) != len(whole.events) {
			t.Errorf("%s: %d events, want %d", filepath.Base(path), len(whole.events), len(lines))
			continue
		}
		for i, got := range whole.events {
			f := strings.SplitN(got, " ", 3)
			if got = strip(f[0], f[2]); got != lines[i] {
				t.Errorf("%s, event %d:\n got %s\nwant %s", filepath.Base(path), i, got, lines[i])
				break
			}
		}
		small := cut(t, trace, 1<<18)
		if small.told != whole.told || strings.Join(small.events, "\n") != strings.Join(whole.events, "\n") || len(trace) > 1<<20 &&
			small.parts <= whole.parts {
			t.Errorf("%s: cut small it has %d parts and other events", filepath.Base(path), small.parts)
		}
	}
}

// strip leaves of a line what the oracle knows.
func strip(phase, line string) string {
	at, rest, _ := strings.Cut(line, " ")
	if phase == "s" || phase == "t" || phase == "f" {
		at, _, _ = strings.Cut(at, "+")
	}
	head, tail, _ := strings.Cut(rest, " on \"")
	_, tail, _ = strings.Cut(tail, " ext ")
	_, args, _ := strings.Cut(tail, " ")
	return phase + " " + at + " " + head + " " + args
}

func TestEvents(t *testing.T) {
	for _, c := range []struct{ name, trace, want string }{
		{"a kernel", `{"ph":"X","cat":"kernel","name":"k","ts":1.0015,"dur":2,"pid":0,"tid":7,"args":{ "correlation" : 9 , "External id":3}}`,
			`X kernel 1002+2000 "k" "kernel" pid 0 tid 7 on "" dev 0 stream 7 corr 9 ext 3 {"correlation":9,"External id":3}`},
		{"python in pid 0", `{"ph":"X","cat":"python_function","name":"k","ts":"5","dur":"2","pid":0,"tid":0,"args":{}}`,
			`X python 5000+2000 "k" "python_function" pid 0 tid 0 on "" dev -1 stream -1 corr 0 ext 0 `},
		{"begin and end", `{"ph":"B","name":"a","ts":1,"pid":1,"tid":1,"args":{"x":1}},{"ph":"B","name":"b","ts":2,"pid":1,"tid":"1"},
			{"ph":"E","ts":3,"pid":1,"tid":1},{"ph":"E","ts":4,"pid":1,"tid":1,"args":{"y":2}}`,
			`BE  2000+1000 "b" "" pid 1 tid 1 on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`BE  1000+3000 "a" "" pid 1 tid 1 on "" dev -1 stream -1 corr 0 ext 0 {"x":1,"y":2}`},
		{"begins left", `{"ph":"b","cat":"c","id":1,"name":"a","ts":1},{"ph":"B","name":"b","ts":2}`,
			`b  1000+0 "a" "c" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`B  2000+0 "b" "" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 `},
		{"async by id", `{"ph":"b","cat":"c","id":1,"name":"a","ts":1},{"ph":"b","cat":"c","id":"x","name":"b","ts":2},
			{"ph":"e","cat":"c","id":1,"ts":9}`,
			`be  1000+8000 "a" "c" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`b  2000+0 "b" "c" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 `},
		{"async by id2", `{"ph":"b","cat":"c","id2":{"local":1},"pid":1,"name":"a","ts":1},{"ph":"b","cat":"c","id2":{"local":1},"pid":2,` +
			`"name":"b","ts":2},{"ph":"b","cat":"c","id2":{"global":"1"},"pid":1,"name":"g","ts":3},{"ph":"e","cat":"c","id2":{"local":1},"pid":1,` +
			`"ts":9},{"ph":"e","cat":"c","id2":{"global" : "1"},"pid":2,"ts":8}`,
			`be  1000+8000 "a" "c" pid 1 tid  on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`be  3000+5000 "g" "c" pid 1 tid  on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`b  2000+0 "b" "c" pid 2 tid  on "" dev -1 stream -1 corr 0 ext 0 `},
		{"an arrow on its slice", `{"ph":"X","name":"k","ts":1,"dur":3,"pid":0,"tid":"7"},
			{"ph":"s","id":4,"name":"f","cat":"g","ts":1,"pid":0,"tid":7}`,
			`X  1000+3000 "k" "" pid 0 tid 7 on "" dev -1 stream -1 corr 0 ext 0 ` + "\n" +
				`s  1000+3000 "f" "g" pid 0 tid 7 on "k" dev -1 stream -1 corr 4 ext 0 `},
		{"metadata behind", `{"ph":"X","name":"k","ts":1,"dur":3,"pid":0,"tid":"7"},
			{"ph":"M","name":"thread_name","pid":0,"tid":7,"args":{"name":"stream 7 "}}`,
			`X  1000+3000 "k" "" pid 0 tid 7 on "stream 7" dev -1 stream -1 corr 0 ext 0 `},
		{"refused", `{"ph":"Q","ts":1},{"ph":"X","ts":1e300},{"ph":"X"},{"ph":"X","ts":1,"dur":-1},{"ph":"X","ts":1,"pid":{}},{"ph":"E","ts":1},3,
			{"ph":"i","ts":7}`,
			`i  7000+0 "" "" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 
1 unknown_phase: ph "Q" is no phase of an event
19 bad_time: ts 1e300 is no time in microseconds between 1900 and 2262
41 bad_time: ts (none) is no time in microseconds between 1900 and 2262
52 bad_duration: dur -1 is no length in microseconds
79 bad_name: {} is no name, pid, tid or id: those are texts or numbers
106 no_begin: nothing began that ends here
124 bad_event: no object, and an event is one`},
		{"ends before it begins", `{"ph":"B","ts":5,"name":"a"},{"ph":"E","ts":4}`,
			`B  5000+0 "a" "" pid  tid  on "" dev -1 stream -1 corr 0 ext 0 
30 bad_duration: it ends before it begins, at byte 1`},
	} {
		for _, object := range []bool{false, true} {
			trace := "[" + c.trace + "]"
			if object {
				trace = `{"traceEvents":[` + c.trace + `],"baseTimeNanoseconds":0}`
			}
			got := cut(t, []byte(trace), 1<<20)
			lines := append(got.events, got.refused...)
			if s := strings.Join(lines, "\n"); s != c.want && !object {
				t.Errorf("%s:\n got %s\nwant %s", c.name, s, c.want)
			}
			if got.told+uint64(len(got.refused)) != got.meta.Elements {
				t.Errorf("%s: %d told and %d refused of %d", c.name, got.told, len(got.refused), got.meta.Elements)
			}
		}
	}
}

func TestMicros(t *testing.T) {
	for _, c := range []struct {
		text string
		ns   int64
		ok   bool
	}{
		{"0", 0, true}, {"1", 1000, true}, {"1712345678901234.567", 1712345678901234567, true}, {"-1.5", -1500, true}, {"1e3", 1000000, true},
		{"1.5E-3", 2, true}, {"1.4e-3", 1, true}, {"0.0004", 0, true}, {"0.0005", 1, true}, {"1e-99999999999", 0, true},
		{"9223372036854775.807", 1<<63 - 1, true},
		{"9223372036854775.808", 0, false}, {"1e300", 0, false}, {"1e99999999999999", 0, false}, {"0e99999999999999", 0, true}, {"NaN", 0, false},
		{"", 0, false}, {`"12.5"`, 12500, true}, {`"x"`, 0, false}, {"{}", 0, false}, {"123456789.123456", 123456789123, true},
		{"123456789.123999999", 123456789124, true}, {"99999999999999999999999", 0, false}, {"0.00000000000000000000000001", 0, true},
	} {
		if ns, ok := kineto.Micros([]byte(c.text)); ok != c.ok || ok && ns != c.ns {
			t.Errorf("%q is %d, %t; want %d, %t", c.text, ns, ok, c.ns, c.ok)
		}
	}
}

func FuzzCut(f *testing.F) {
	f.Add([]byte(`{"baseTimeNanoseconds":17,"traceEvents":[{"ph":"X","ts":1,"dur":2,"args":{"a":[1]}},{"ph":"B","ts":1},{"ph":"E","ts":2}]}`))
	f.Add([]byte(`[{"ph":"b","id":1,"ts":1},{"ph":"e","id":1,"ts":0},{"ph":"s","ts":1},3`))
	f.Fuzz(func(t *testing.T, b []byte) {
		got := cut(t, b, 1<<18)
		if got.told+uint64(len(got.refused)) != got.meta.Elements {
			t.Fatalf("%d told and %d refused of %d", got.told, len(got.refused), got.meta.Elements)
		}
	})
}

func FuzzPart(f *testing.F) {
	trace := []byte(`[{"ph":"X","ts":1,"dur":2,"name":"a","args":{"correlation":1,"stream":2,"device":1}},{"ph":"s","id":1,"ts":1}]`)
	meta, _ := kineto.Survey(bytes.NewReader(trace))
	c := kineto.Cutter{Meta: meta, Limit: 1 << 20, Refuse: func(*kineto.Refusal) error { return nil },
		Send: func(_ *kineto.Head, _ uint64, _ int64, body []byte) error {
			f.Add(bytes.Clone(body))
			return nil
		}}
	c.Cut(bytes.NewReader(trace))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p kineto.Part
		if p.Decode(b) != nil {
			return
		}
		for i := range p.Events {
			e := &p.Events[i]
			for _, at := range []uint32{e.Name, e.Category, e.PID, e.TID, e.Track} {
				if int(at) >= len(p.Texts) {
					t.Fatalf("text %d of %d", at, len(p.Texts))
				}
			}
			if e.Start > e.Start+e.Duration || e.Device < -1 {
				t.Fatalf("%+v", e)
			}
		}
	})
}

func BenchmarkCut(b *testing.B) {
	trace := unzip(b, vectors(b)[len(vectors(b))-1])
	meta, err := kineto.Survey(bytes.NewReader(trace))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(trace)))
	b.ReportAllocs()
	for b.Loop() {
		c := kineto.Cutter{Meta: meta, Limit: 1 << 20, Refuse: func(*kineto.Refusal) error { return nil },
			Send: func(*kineto.Head, uint64, int64, []byte) error { return nil }}
		if err := c.Cut(bytes.NewReader(trace)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(meta.Elements)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}

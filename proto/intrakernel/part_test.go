package intrakernel_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// cut returns the parts of a timeline, decoded.
func cut(t testing.TB, line *intrakernel.Timeline, limit int) (parts []intrakernel.Part) {
	t.Helper()
	err := line.Cut(intrakernel.PartHead{Launch: intrakernel.Launch{Kernel: "k"}, Clock: "globaltimer", Recorded: 9}, limit,
		func(head *intrakernel.PartHead, records uint64, body []byte) error {
			if len(body) > limit {
				t.Fatalf("a part of %d bytes, over %d", len(body), limit)
			}
			var p intrakernel.Part
			if err := p.Decode(body); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(p.PartHead, *head) || p.Records() != records || p.Index != len(parts) {
				t.Fatalf("%+v, sent as %+v with %d records", p, head, records)
			}
			parts = append(parts, p)
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// visits are the events of a timeline.
func visits(line *intrakernel.Timeline) (all []intrakernel.Visit) {
	for _, e := range line.Events {
		all = append(all, intrakernel.Visit{TS: e.TS, Dur: e.Dur, Block: uint32(e.Block), Region: e.Region, Warp: e.Warp(), SM: e.SM(),
			Instant: e.Instant})
	}
	return all
}

// However a timeline is cut, its parts have its events in order, the names of their regions, and every record once.
func TestPartsAddUp(t *testing.T) {
	for _, name := range cases(t) {
		_, line := load(t, name)
		for _, limit := range []int{1 << 20, intrakernel.MaxHeadBytes + 2300} {
			var events []intrakernel.Visit
			records := uint64(0)
			parts := cut(t, line, limit)
			for _, p := range parts {
				events = append(events, p.Visits...)
				records += p.Records()
				if p.Parts != len(parts) {
					t.Errorf("%s: %d parts, part %d says %d", name, len(parts), p.Index, p.Parts)
				}
				for _, v := range p.Visits {
					if p.Region(v.Region).Name == "" && !strings.HasPrefix(name, "names_") {
						t.Errorf("%s: region %d has no name", name, v.Region)
					}
				}
			}
			if len(events) != len(line.Events) || len(events) > 0 && !reflect.DeepEqual(events, visits(line)) {
				t.Errorf("%s at %d bytes: %d events, %d before", name, limit, len(events), len(line.Events))
			}
			if len(line.Events) > 0 && records != uint64(line.Survivors) {
				t.Errorf("%s: %d records, %d survived", name, records, line.Survivors)
			}
		}
	}
}

// Of a trace each element counts once: slices and marks, begins and ends, names of processes and threads.
func TestElementsOfTraces(t *testing.T) {
	const (
		slice = `{"name":"a","ph":"%s","ts":%d,"dur":2,"pid":3,"tid":65,"cname":"good","args":{"sm":3,"block":1,"warp":1}}`
		names = `{"name":"process_name","ph":"M","pid":3,"tid":0,"args":{"name":"sm 3"}}`
	)
	for _, c := range []struct {
		name, events            string
		elements, perSlice, all uint64
	}{
		{"slices and a mark", fmt.Sprintf(names+","+slice+","+slice, "X", 1, "i", 2), 3, 1, 2},
		{"halves", fmt.Sprintf(names+","+slice+","+slice+","+slice, "B", 1, "E", 2, "B", 3), 4, 2, 1},
	} {
		h := &intrakernel.Header{Path: "t.json", Options: intrakernel.DefaultOptions()}
		line, err := intrakernel.ReadTrace(strings.NewReader(`{"traceEvents":[`+c.events+`]}`), h, false)
		if err != nil {
			t.Fatal(err)
		}
		p := cut(t, line, 1<<20)[0]
		if p.Records() != c.elements || p.SliceRecords != c.perSlice || uint64(len(p.Visits)) != c.all {
			t.Errorf("%s: %d records, %d a slice, %d events: %+v", c.name, p.Records(), p.SliceRecords, len(p.Visits), p)
		}
	}
}

// FuzzPart: no bytes break the decoder, and what it takes is encoded to the same part.
func FuzzPart(f *testing.F) {
	p := intrakernel.Part{PartHead: intrakernel.PartHead{Parts: 1, Scale: 1},
		Names:  []intrakernel.RegionName{{Region: 3, Kernel: "k", Name: "load"}},
		Visits: []intrakernel.Visit{{TS: 5, Dur: 7, Region: 3, Block: 1 << 31, Warp: 63, SM: 65535}, {TS: 12, Region: 3, Instant: true}}}
	seed, err := intrakernel.AppendPart(nil, &p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var one, again intrakernel.Part
		if one.Decode(b) != nil {
			return
		}
		encoded, err := intrakernel.AppendPart(nil, &one)
		if err != nil {
			return // a head that is as long as it may be, and longer once it is escaped
		}
		if err := again.Decode(encoded); err != nil {
			t.Fatal(err)
		}
		twice, err := intrakernel.AppendPart(nil, &again)
		if err != nil || !bytes.Equal(encoded, twice) {
			t.Fatalf("%v: %+v became %+v", err, one, again)
		}
	})
}

// Random events, times beyond 2^63 among them, come back as they were.
func TestPartRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var p intrakernel.Part
	for range 200 {
		want := intrakernel.Part{PartHead: intrakernel.PartHead{Parts: 1, Scale: r.Float64()}}
		end := uint64(0)
		for range r.IntN(50) {
			end += r.Uint64() >> (8 + r.IntN(56))
			v := intrakernel.Visit{Dur: min(end, r.Uint64()>>r.IntN(64)), Region: uint16(r.Uint32()), Block: r.Uint32(),
				Warp: uint16(r.Uint32()), SM: uint16(r.Uint32())}
			v.TS = end - v.Dur
			want.Visits = append(want.Visits, v)
		}
		b, err := intrakernel.AppendPart(nil, &want)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Decode(b); err != nil || p.PartHead != want.PartHead || len(p.Visits) != len(want.Visits) {
			t.Fatalf("%v: %+v became %+v", err, want, p)
		}
		for i := range want.Visits {
			if p.Visits[i] != want.Visits[i] {
				t.Fatalf("%+v became %+v", want.Visits[i], p.Visits[i])
			}
		}
		if p.Decode(b[:len(b)-1]) == nil && len(want.Visits) > 0 {
			t.Fatal("a part without its last byte was taken")
		}
	}
}

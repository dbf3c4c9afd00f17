package intrakernel_test

import (
	"bytes"
	"cmp"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

// smallParts is a limit at which captures have many parts.
const smallParts = intrakernel.MaxHeadBytes + 2300

// cutRings returns what the parts of a capture that is read ring by ring say of the whole, and all their visits.
func cutRings(t testing.TB, events, counters []byte, h *intrakernel.Header, limit int) (head intrakernel.PartHead, all []intrakernel.Visit,
	err error) {
	t.Helper()
	rings, err := intrakernel.SurveyRings(bytes.NewReader(events), bytes.NewReader(counters), h, "k", limit)
	if err != nil {
		return head, nil, err
	}
	records, n := uint64(0), 0
	err = rings.Cut(bytes.NewReader(events), bytes.NewReader(counters),
		intrakernel.PartHead{Launch: intrakernel.Launch{Kernel: "k"}, Clock: "globaltimer"},
		func(h *intrakernel.PartHead, of uint64, body []byte) error {
			var p intrakernel.Part
			if err := p.Decode(body); err != nil || len(body) > limit {
				t.Fatalf("%d bytes of %d: %v", len(body), limit, err)
			}
			if !reflect.DeepEqual(p.PartHead, *h) || p.Records() != of || p.Index != n {
				t.Fatalf("%+v, sent as %+v with %d records", p.PartHead, h, of)
			}
			for _, v := range p.Visits {
				if p.Region(v.Region).Kernel != "k" {
					t.Fatalf("region %d has no name", v.Region)
				}
			}
			all, head = append(all, p.Visits...), *h
			records += of
			n++
			return nil
		})
	if err == nil && (n != head.Parts || records != rings.Survivors) {
		t.Fatalf("%d parts with %d records; they say %d, and %d survived", n, records, head.Parts, rings.Survivors)
	}
	return head, all, err
}

// sameRings fails where a capture is not the same ring by ring as it is as a whole. It reports whether it can be read so.
func sameRings(t testing.TB, events, counters []byte, h *intrakernel.Header) bool {
	t.Helper()
	c, err := intrakernel.Collect(bytes.NewReader(events), bytes.NewReader(counters), h)
	var want intrakernel.PartHead
	var wanted []intrakernel.Visit
	if err == nil {
		var line *intrakernel.Timeline
		recorded, lost := c.Recorded, c.Recorded-c.Survived
		if line, err = c.Timeline(h); err == nil {
			parts := cut(t, line, smallParts)
			want, wanted = parts[0].PartHead, visits(line)
			want.Recorded, want.Lost = recorded, lost
		}
	}
	head, got, no := cutRings(t, events, counters, h, smallParts)
	if errors.Is(no, intrakernel.ErrMixed) {
		return false
	}
	if (err == nil) != (no == nil) {
		t.Fatalf("ring by ring: %v, as a whole: %v", no, err)
	}
	if err != nil {
		return true
	}
	last := uint64(0)
	for _, v := range wanted {
		last = max(last, v.TS+v.Dur)
	}
	if head.Span < last {
		t.Fatalf("the last record after %d ns, a visit ends after %d", head.Span, last)
	}
	head.Span, head.Index, head.Parts, want.Index, want.Parts = 0, 0, 0, 0, 0
	if !reflect.DeepEqual(head, want) {
		t.Fatalf("ring by ring: %+v\nas a whole:   %+v", head, want)
	}
	kind := func(v intrakernel.Visit) int { return map[bool]int{true: 1}[v.Instant] }
	order := func(a, b intrakernel.Visit) int {
		return cmp.Or(cmp.Compare(kind(a), kind(b)), cmp.Compare(a.TS, b.TS), cmp.Compare(a.Dur, b.Dur),
			cmp.Compare(a.Block, b.Block), cmp.Compare(a.Warp, b.Warp), cmp.Compare(a.Region, b.Region), cmp.Compare(a.SM, b.SM))
	}
	slices.SortFunc(got, order)
	slices.SortFunc(wanted, order)
	if len(got) != len(wanted) || len(got) > 0 && !reflect.DeepEqual(got, wanted) {
		t.Fatalf("%d visits ring by ring, %d as a whole, or others", len(got), len(wanted))
	}
	return true
}

// Ring by ring, every capture whose warps write to their own rings is what it is as a whole.
func TestRingsOfVectors(t *testing.T) {
	regular := 0
	for _, name := range cases(t) {
		h, err := intrakernel.ParseHeader(readFile(t, filepath.Join(vectors, name, "input.json")))
		if err != nil {
			t.Fatal(err)
		}
		h.Options.CompleteEvents = true
		dir := filepath.Join(vectors, name)
		if sameRings(t, readFile(t, filepath.Join(dir, "events.bin")), readFile(t, filepath.Join(dir, "counters.bin")), h) {
			regular++
		}
	}
	if regular < 25 {
		t.Errorf("only %d vectors can be read ring by ring", regular)
	}
}

// The same for captures with rings that went round, times out of order, warps that changed their SM, marks, and halves without partner,
// under both groupings and any filter.
func TestRingsOfAnything(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		session := intrakernel.Session{Cap: 1 << rng.IntN(8), Blocks: 1 + uint32(rng.IntN(12)), Warps: 1 + uint32(rng.IntN(9))}
		h := &intrakernel.Header{Session: session, Path: "t.json", Options: intrakernel.DefaultOptions(), Names: []string{"a", "b"}}
		h.Options.GroupBySM = seed%2 == 0
		if seed%3 == 0 {
			h.Filter = []uint32{0, 3, 4}
		}
		var events, counters []byte
		for slot := range int(h.Session.Blocks * h.Session.Warps) {
			at := uint64(1<<60 + rng.IntN(1000))
			for range h.Session.Cap {
				at += uint64(rng.IntN(3) * 32)
				events = intrakernel.AppendRecord(events, intrakernel.Record{TS: at - uint64(rng.IntN(8)/7*rng.IntN(90)),
					Region: uint16(rng.IntN(4)), Type: intrakernel.Type(rng.IntN(4)), Block: uint16(slot / int(h.Session.Warps)),
					Place: uint16(slot%int(h.Session.Warps) | rng.IntN(2)<<6)})
			}
			counters = append(counters, byte(rng.IntN(256)), 0, 0, 0)
		}
		if !sameRings(t, events, counters, h) {
			t.Fatalf("seed %d: cannot be read ring by ring", seed)
		}
	}
}

// Rings with records of other warps, and more blocks or warps than a record can tell, are not read so.
func TestRingsThatAreMixed(t *testing.T) {
	one := intrakernel.Record{TS: 5, Block: 1, Place: 1}
	for _, test := range []struct {
		name    string
		session intrakernel.Session
		record  intrakernel.Record
		mixed   bool
	}{
		{"its own", intrakernel.Session{Cap: 1, Blocks: 2, Warps: 2}, one, false},
		{"of another block", intrakernel.Session{Cap: 1, Blocks: 2, Warps: 2}, intrakernel.Record{TS: 5, Place: 1}, true},
		{"of another warp", intrakernel.Session{Cap: 1, Blocks: 2, Warps: 2}, intrakernel.Record{TS: 5, Block: 1}, true},
		{"block 65536", intrakernel.Session{Cap: 1, Blocks: 1<<16 + 1, Warps: 1}, intrakernel.Record{TS: 5}, true},
		{"warp 64", intrakernel.Session{Cap: 1, Blocks: 1, Warps: 65}, intrakernel.Record{TS: 5}, true},
	} {
		slots := int(test.session.Slots())
		events, counters := make([]byte, (slots-1)*intrakernel.RecordSize), make([]byte, slots*4)
		events, counters[slots*4-4] = intrakernel.AppendRecord(events, test.record), 1
		h := &intrakernel.Header{Session: test.session, Path: "t.json", Options: intrakernel.DefaultOptions()}
		if _, _, err := cutRings(t, events, counters, h, smallParts); errors.Is(err, intrakernel.ErrMixed) != test.mixed {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}

// BenchmarkRings reads a launch ring by ring, twice, and cuts it into parts.
func BenchmarkRings(b *testing.B) {
	h, events, counters := gemm(1024, 8, 42)
	h.Options.CompleteEvents = true
	records := 0.0
	b.ReportAllocs()
	for b.Loop() {
		rings, err := intrakernel.SurveyRings(bytes.NewReader(events), bytes.NewReader(counters), h, "k", 1<<20)
		if err != nil {
			b.Fatal(err)
		}
		err = rings.Cut(bytes.NewReader(events), bytes.NewReader(counters), intrakernel.PartHead{},
			func(*intrakernel.PartHead, uint64, []byte) error { return nil })
		if err != nil {
			b.Fatal(err)
		}
		records += float64(rings.Survivors)
	}
	b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
}

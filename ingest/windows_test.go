package ingest

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

func sampleRecord(n int) *record {
	rng := rand.New(rand.NewPCG(5, 5))
	r := &record{}
	for i := range n {
		r.windows = append(r.windows, window{
			id: DigestOf(fmt.Sprint(i)), body: DigestOf(fmt.Sprint("b", i)), state: windowState(1 + rng.IntN(3)), whole: rng.IntN(2) == 0,
			sequence: rng.Uint64(), generation: rng.Uint64N(3), accepted: rng.Uint64(), rejected: rng.Uint64N(100), last: rng.Uint64(),
			at:     rng.Int64(),
			limits: CutLimits{MaxBody: int64(i % 2), MaxRaw: 1 << 40, MaxLine: 7, MaxRatio: 0.5},
		})
	}
	return r
}

func TestRecordRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		want := sampleRecord(n)
		got, err := parseRecord(appendRecord(nil, want))
		if err != nil {
			t.Fatal(err)
		}
		if len(got.windows) != n || n > 0 && !reflect.DeepEqual(got.windows, want.windows) {
			t.Errorf("%d windows: have %+v", n, got)
		}
	}
	if n := len(appendRecord(nil, sampleRecord(keptWindows))); n > 128<<10 {
		t.Errorf("a full record has %d bytes", n)
	}
}

// A record that version 1 wrote: it has a number behind the version that nobody reads, and no sequences in INGEST.
func TestRecordOfVersion1(t *testing.T) {
	w := sampleRecord(1).windows[0]
	w.last, w.at = 0, 0
	old := binary.AppendUvarint([]byte{1}, 1<<40)
	old = binary.AppendUvarint(old, 1)
	for _, n := range []uint64{uint64(w.limits.MaxBody), uint64(w.limits.MaxRaw), uint64(w.limits.MaxLine),
		math.Float64bits(w.limits.MaxRatio)} {
		old = binary.AppendUvarint(old, n)
	}
	old = append(append(binary.AppendUvarint(old, 1), w.id[:]...), w.body[:]...)
	flags := byte(w.state)
	if w.whole {
		flags |= 1 << 7
	}
	old = append(old, flags)
	for _, n := range []uint64{w.sequence, w.generation, w.accepted, w.rejected, 0} {
		old = binary.AppendUvarint(old, n)
	}
	want := &record{windows: []window{w}}
	if got, err := parseRecord(old); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}

func TestRecordForgetsTheOldest(t *testing.T) {
	r := &record{}
	for i := range keptWindows + 10 {
		r.add(window{id: DigestOf(fmt.Sprint(i)), sequence: uint64(i + 1), state: windowDone})
	}
	if len(r.windows) != keptWindows || r.find(DigestOf("9")) != nil || r.find(DigestOf("10")) == nil {
		t.Errorf("%d windows", len(r.windows))
	}
}

// Any bytes: no panic, no allocation out of proportion, and what is read can be written again.
func FuzzParseRecord(f *testing.F) {
	f.Add(appendRecord(nil, sampleRecord(0)))
	f.Add(appendRecord(nil, sampleRecord(3)))
	nan := sampleRecord(3)
	nan.windows[1].limits.MaxRatio = math.NaN()
	f.Add(appendRecord(nil, nan))
	f.Add([]byte{1, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := parseRecord(data)
		if err != nil {
			return
		}
		again, err := parseRecord(appendRecord(nil, r))
		if err != nil || fmt.Sprint(again) != fmt.Sprint(r) {
			t.Fatalf("have %v, %v, want %v", again, err, r)
		}
	})
}

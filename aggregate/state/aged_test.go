package state_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warpline/warpline/aggregate/state"
)

// What came less than Keep minutes before the newest is known, whatever the order of stamps, also to who reads the state or the changes;
// what is much older is not kept.
func TestAgedKnowsTheTime(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		const keep = 20
		a, change := &state.Aged{Keep: keep}, &state.Aged{}
		at := map[uint64]int64{}
		now, newest := int64(1e18), int64(0)
		hand := func(to *state.Aged, full bool) {
			var w state.Writer
			a.Append(&w, full)
			if have := a.Size(full); len(w.Body) > 2*have+64 {
				t.Fatalf("%d bytes are written, %d were announced", len(w.Body), have)
			}
			from := state.Reader{Rest: w.Body, Layout: state.LayoutNow}
			if to.Read(&from); from.Err != nil || len(from.Rest) > 0 {
				t.Fatal(from.Err, len(from.Rest))
			}
		}
		many := r.Uint64N(3000) + 5
		for range 6000 {
			now += r.Int64N(4e9)
			h, stamp := r.Uint64N(many*4), now-r.Int64N(60e9)
			was, had := at[h]
			isNew := a.Add(h, stamp)
			if had && was/60e9 >= newest/60e9-keep+1 && isNew {
				t.Fatalf("seed %d: %d came %d s before the newest and is forgotten", seed, h, (newest-was)/1e9)
			}
			if isNew {
				at[h] = stamp
				newest = max(newest, stamp)
			} else if newest-was > (keep+3)*60e9 {
				t.Fatalf("seed %d: %d came %d s before the newest and is known", seed, h, (newest-was)/1e9)
			}
			switch r.IntN(200) {
			case 0:
				a.Rest()
			case 1:
				b := &state.Aged{}
				hand(b, true)
				a, change = b, &state.Aged{}
				hand(change, true)
			case 2:
				hand(change, false)
				a.Published()
				for h := range at {
					if a.Has(h) != change.Has(h) {
						t.Fatalf("seed %d: who reads changes does not know the same of %d", seed, h)
					}
				}
			}
		}
	}
}

// A damaged state may name any minute and any time to keep. The newest hash stays known, and what is read can be written and read again.
func TestAgedOfDamagedState(t *testing.T) {
	times := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, math.MaxInt64 - 1, math.MaxInt64}
	for _, keep := range times {
		for _, first := range times {
			for _, second := range times {
				var w state.Writer
				w.I64(keep)
				w.N(2)
				for i, minute := range []int64{first, second} {
					w.I64(minute)
					w.N(1)
					w.U64Fixed(uint64(i))
				}
				var a state.Aged
				from := state.Reader{Rest: w.Body, Layout: state.LayoutNow}
				a.Read(&from)
				if from.Err != nil || !a.Has(1) {
					t.Fatalf("keep %d, minutes %d and %d: %v, the newest is known: %v", keep, first, second, from.Err, a.Has(1))
				}
				w = state.Writer{}
				a.Append(&w, true)
				var again state.Aged
				from = state.Reader{Rest: w.Body, Layout: state.LayoutNow}
				again.Read(&from)
				if from.Err != nil || again.Has(0) != a.Has(0) || !again.Has(1) {
					t.Fatalf("keep %d, minutes %d and %d: read again: %v", keep, first, second, from.Err)
				}
			}
		}
	}
}

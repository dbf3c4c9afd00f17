package state_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/state"
)

// Whatever comes in whatever order, the newest hashes are known and no others, also to who reads the state. Half of a hash is as good as
// all of it here.
func TestRecentKnowsTheNewest(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		recent := &state.Recent{Limit: 1 + r.IntN(60)}
		limit := recent.Limit
		var oracle []xxh3.Uint128
		some := 1 + r.IntN(150)
		hash := func() xxh3.Uint128 { return xxh3.Hash128([]byte{byte(r.IntN(some))}) }
		for step := range 400 {
			switch h := hash(); {
			case r.IntN(50) == 0:
				recent.Shorten()
			case r.IntN(50) == 0:
				var w state.Writer
				recent.Append(&w, true)
				recent = &state.Recent{Limit: limit}
				recent.Read(&state.Reader{Rest: w.Body, Layout: state.LayoutNow})
			case r.IntN(3) == 0:
				if have, want := recent.Has(h), slices.Contains(oracle, h); have != want {
					t.Fatalf("seed %d, step %d: has %v, want %v", seed, step, have, want)
				}
			default:
				isNew := !slices.Contains(oracle, h)
				if have := recent.Add(h); have != isNew {
					t.Fatalf("seed %d, step %d: new %v, want %v", seed, step, have, isNew)
				}
				if isNew {
					oracle = append(oracle, h)
					oracle = oracle[max(0, len(oracle)-limit):]
				}
			}
		}
	}
}

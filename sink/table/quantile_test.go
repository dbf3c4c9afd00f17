package table_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
)

// SQL computes the percentiles that Go computes, for every bucket and for histograms of many shapes.
func TestQuantileSQLEqualsGo(t *testing.T) {
	s := newStore(t, true)
	ks := table.KernelStats
	r := rand.New(rand.NewPCG(5, 6))
	var hs []hist.Dense
	var lows, highs []uint64
	add := func(h hist.Dense, low, high uint64) {
		hs, lows, highs = append(hs, h), append(lows, low), append(highs, high)
	}
	for i := hist.Zero; i <= hist.Last; i++ {
		var h hist.Dense
		h.AddBucket(i, 1+uint64(i&7))
		if low, high := hist.Bounds(i); low <= high {
			add(h, low, high)
		}
		add(h, 0, math.MaxUint64)
	}
	for range 2000 {
		var h hist.Dense
		low, high := uint64(math.MaxUint64), uint64(0)
		for range 1 + r.IntN(1<<r.IntN(9)) {
			v := r.Uint64() >> r.UintN(64)
			h.AddN(v, 1+r.Uint64N(1<<r.UintN(30)))
			low, high = min(low, v), max(high, v)
		}
		add(h, low, high)
	}
	qs := []float64{0, 0.001, 0.25, 0.5, 0.9, 0.99, 1}
	s.Seed(ks, len(hs), func(b *table.Batch, i int) {
		session(ks.Head, b)
		ks.KernelID.Append(b, uint32(i))
		ks.Calls.Append(b, hs[i].Count())
		ks.MinNS.Append(b, lows[i])
		ks.MaxNS.Append(b, highs[i])
		ks.DurationHist.Append(b, &hs[i])
	})
	var want, exprs []string
	for i := range hs {
		var line []string
		for _, q := range qs {
			line = append(line, fmt.Sprint(hs[i].Quantile(q, lows[i], highs[i])))
		}
		want = append(want, strings.Join(line, "\t"))
	}
	for _, q := range qs {
		exprs = append(exprs, hist.QuantileSQL("duration_hist", "calls", "min_ns", "max_ns", q))
	}
	got := strings.Split(s.Query("SELECT "+strings.Join(exprs, ", ")+" FROM {db}.kernel_stats_data ORDER BY kernel_id"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	wrong := 0
	for i := range got {
		if got[i] != want[i] {
			if wrong++; wrong < 5 {
				k, c := hs[i].AppendTo(nil, nil)
				t.Errorf("histogram %v %v in [%d, %d]\nSQL %s\nGo  %s", k, c, lows[i], highs[i], got[i], want[i])
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d rows differ", wrong, len(got))
	}
}

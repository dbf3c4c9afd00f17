package hist_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/hist"
)

func TestIndexBounds(t *testing.T) {
	prev := uint64(0)
	for i := int16(0); i <= hist.Last; i++ {
		low, high := hist.Bounds(i)
		if low > high {
			continue // no integer in it
		}
		if low != prev+1 {
			t.Fatalf("bucket %d starts at %d, the one before ended at %d", i, low, prev)
		}
		prev = high
		for _, v := range []uint64{low, low + (high-low)/2, high} {
			if got := hist.Index(v); got != i {
				t.Fatalf("Index(%d) = %d, want %d (%d to %d)", v, got, i, low, high)
			}
		}
		if m := hist.Mid(i); math.Abs(m-float64(low))/float64(low) > hist.Alpha+1e-11 ||
			math.Abs(m-float64(high))/float64(high) > hist.Alpha+1e-11 {
			t.Fatalf("Mid(%d) = %v is further than %v from [%d, %d]", i, m, hist.Alpha, low, high)
		}
	}
	if prev != math.MaxUint64 {
		t.Fatalf("the buckets end at %d", prev)
	}
	if hist.Index(0) != hist.Zero || hist.Mid(hist.Zero) != 0 {
		t.Fatal("zero has no bucket of its own")
	}
	if hist.Alpha > 0.01 {
		t.Fatalf("Alpha = %v, more than 1 %%", hist.Alpha)
	}
}

// The buckets of these values are what stored histograms mean: a change here makes old rows and new ones disagree.
func TestIndexGolden(t *testing.T) {
	for v, want := range map[uint64]int16{
		0: -1, 1: 0, 2: 36, 3: 58, 10: 122, 100: 244, 1000: 367, 12345: 500, 1_000_000: 734, 1_000_000_000: 1101,
		3_600_000_000_000: 1536, math.MaxInt64: 2320, math.MaxUint64: 2356,
	} {
		if got := hist.Index(v); got != want {
			t.Errorf("Index(%d) = %d, want %d", v, got, want)
		}
	}
}

func TestSmallIntegersAreExact(t *testing.T) {
	for v := uint64(0); v <= 53; v++ {
		var d hist.Dense
		d.AddN(v, 3)
		if got := d.Quantile(0.5, 0, math.MaxUint64); got != v {
			t.Errorf("the median of three times %d is %d", v, got)
		}
	}
}

var shapes = map[string]func(r *rand.Rand) uint64{
	"uniform":     func(r *rand.Rand) uint64 { return 1000 + r.Uint64N(10_000_000) },
	"log-normal":  func(r *rand.Rand) uint64 { return uint64(50_000 * math.Exp(r.NormFloat64())) },
	"exponential": func(r *rand.Rand) uint64 { return 850 + uint64(r.ExpFloat64()*1e6) },
	"heavy tail":  func(r *rand.Rand) uint64 { return uint64(2000 * math.Pow(1-r.Float64(), -1.5)) },
	"two peaks":   func(r *rand.Rand) uint64 { return []uint64{2_000, 2_000_000}[r.IntN(2)] + r.Uint64N(900) },
	"constant":    func(*rand.Rand) uint64 { return 123_457 },
	"any bits":    func(r *rand.Rand) uint64 { return (r.Uint64() | 1<<63) >> r.UintN(54) },
}

func TestQuantileErrorAtMostOnePercent(t *testing.T) {
	for name, next := range shapes {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			var d hist.Dense
			values := make([]uint64, 1_000_000)
			for i := range values {
				values[i] = next(r)
				d.Add(values[i])
			}
			slices.Sort(values)
			low, high := values[0], values[len(values)-1]
			for _, q := range []float64{0, 0.0001, 0.01, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1} {
				want := values[hist.Rank(q, uint64(len(values)))-1]
				got := d.Quantile(q, low, high)
				if err := math.Abs(float64(got)-float64(want)) / float64(want); err > 0.01 {
					t.Errorf("q%v = %d, exactly %d: %.3f %% off", q, got, want, 100*err)
				}
			}
		})
	}
}

func TestRank(t *testing.T) {
	for _, c := range []struct {
		q    float64
		n    uint64
		want uint64
	}{
		{0.5, 0, 0}, {0.5, 1, 1}, {0.5, 2, 1}, {0.5, 3, 2}, {0.9, 10, 9}, {0.99, 100, 99}, {0.99, 101, 100},
		{0, 5, 1}, {1, 5, 5}, {0.55, 100, 55}, {1, math.MaxUint64, math.MaxUint64}, {-1, 3, 1}, {2, 3, 3},
	} {
		if got := hist.Rank(c.q, c.n); got != c.want {
			t.Errorf("Rank(%v, %d) = %d, want %d", c.q, c.n, got, c.want)
		}
	}
}

// Any split into parts, merged in any order, is the same histogram.
func TestMergeAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		n := 1 + r.IntN(1<<r.IntN(12))
		next := []func(*rand.Rand) uint64{shapes["log-normal"], shapes["any bits"], func(r *rand.Rand) uint64 { return r.Uint64N(4) }}[round%3]
		var whole hist.Dense
		parts := make([]hist.Dense, 1+r.IntN(8))
		for range n {
			v, times := next(r), uint64(1)
			if r.IntN(20) == 0 {
				times = r.Uint64N(1 << 34)
			}
			whole.AddN(v, times)
			parts[r.IntN(len(parts))].AddN(v, times)
		}
		var sum hist.Dense
		sum.AddN(77, 5) // what was there before Reset must not show
		sum.Add(1 << 40)
		sum.Reset()
		for _, p := range r.Perm(len(parts)) {
			sum.Merge(&parts[p])
		}
		wk, wc := whole.AppendTo(nil, nil)
		gk, gc := sum.AppendTo(nil, nil)
		if !slices.Equal(wk, gk) || !slices.Equal(wc, gc) {
			t.Fatalf("round %d: merged\n%v %v\nwant\n%v %v", round, gk, gc, wk, wc)
		}
		if !slices.IsSorted(gk) || whole.Count() != sum.Count() {
			t.Fatalf("round %d: keys %v, counts %d and %d", round, gk, whole.Count(), sum.Count())
		}
		var eachK []int16
		var eachC []uint64
		whole.Each(func(i int16, n uint64) { eachK, eachC = append(eachK, i), append(eachC, n) })
		if !slices.Equal(eachK, wk) || !slices.Equal(eachC, wc) {
			t.Fatalf("round %d: Each and AppendTo disagree", round)
		}
	}
}

func FuzzDense(f *testing.F) {
	f.Add([]byte{1, 2, 3, 0, 0, 9})
	f.Add([]byte{0xff, 0xff, 0x10, 0x80})
	f.Fuzz(func(t *testing.T, ops []byte) {
		var d hist.Dense
		want := map[int16]uint64{}
		for len(ops) >= 2 {
			v := uint64(ops[0]) << (ops[1] & 63)
			n := uint64(ops[1]>>6)<<30 + 1
			ops = ops[2:]
			d.AddN(v, n)
			want[hist.Index(v)] += n
		}
		seen := 0
		d.Each(func(i int16, n uint64) {
			if seen++; want[i] != n {
				t.Fatalf("bucket %d counts %d, want %d", i, n, want[i])
			}
		})
		if seen != len(want) {
			t.Fatalf("%d buckets, want %d", seen, len(want))
		}
	})
}

func BenchmarkIndex(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 4096)
	for i := range values {
		values[i] = shapes["log-normal"](r)
	}
	b.ResetTimer()
	var sum int
	for i := range b.N {
		sum += int(hist.Index(values[i&4095]))
	}
	if sum == 0 {
		b.Fatal("no index")
	}
}

func BenchmarkAdd(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]uint64, 4096)
	for i := range values {
		values[i] = shapes["log-normal"](r)
	}
	d := make([]hist.Dense, 500)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		d[i%500].Add(values[i&4095])
	}
}

// A Dense is reused for groups whose values lie elsewhere and spread wider: what it was before must not show.
func TestDenseReused(t *testing.T) {
	var d hist.Dense
	for _, step := range []struct{ from, spread int }{{900, 13}, {100, 60}, {2000, 30}, {5, 200}, {1500, 14}} {
		d.Reset()
		for i := range step.spread {
			d.AddBucket(int16(step.from+i), uint64(i+1))
		}
		next := step.from
		d.Each(func(i int16, n uint64) {
			if int(i) != next || n != uint64(next-step.from+1) {
				t.Errorf("from %d: bucket %d counts %d, want bucket %d counting %d", step.from, i, n, next, next-step.from+1)
			}
			next++
		})
		if next != step.from+step.spread {
			t.Errorf("from %d: %d buckets, want %d", step.from, next-step.from, step.spread)
		}
	}
}

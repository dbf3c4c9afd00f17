// Package hist is Warpline's histogram: log-spaced buckets over unsigned integers that add exactly in any order, and the
// percentiles read from them, in Go and in SQL by the same integer rules.
//
// Bucket i holds the integers v with Gamma^i <= v < Gamma^(i+1); zero has bucket Zero of its own. A bucket is told by its
// midpoint, which is at most [Alpha] from every value in it; a percentile is that midpoint rounded to an integer and
// clamped to the exact minimum and maximum. Gamma is a little finer than 1 % asks for, so that the half unit the rounding
// may add still fits under 1 % for every value from 850 (nanoseconds, where durations are counted) upwards.
package hist

import (
	"math"
	"math/big"
	"math/bits"
)

const (
	// Gamma is the ratio between the bounds of one bucket. Stored histograms depend on it: it is never changed.
	Gamma = 1.019
	// Alpha is the largest relative distance between a value and the midpoint of its bucket.
	Alpha = (Gamma - 1) / (Gamma + 1)
	// Zero is the bucket of the value 0.
	Zero int16 = -1
	// Last is the highest bucket, that of the largest uint64.
	Last int16 = 2356
)

const (
	gammaNum, gammaDen = 1019, 1000 // Gamma as an exact fraction
	cellBits           = 6          // 1/64 is less than Gamma-1, so a cell meets at most one bucket bound
)

var (
	// bounds[i] is the smallest integer of bucket i or above; bounds[Last+1] is not reached by any value.
	bounds [int(Last) + 2]uint64
	// cells has the bucket of the smallest value of each cell: 64 equal steps to a power of two.
	cells [64 << cellBits]int16
	// fine[i] is the midpoint of bucket i, coarse[j] is Gamma^(midSteps*j): their product is every midpoint. Go and SQL both
	// multiply these very numbers, because no two libraries agree on the last digit of a power.
	fine, coarse [midSteps]float64
)

// midSteps squared is more than the number of buckets.
const midSteps = 49

// The bounds are computed with 256 bits rather than math.Pow, whose last digit may differ between platforms: two workers
// must put a value into the same bucket.
func init() {
	const prec = 256
	g := new(big.Float).SetPrec(prec).Quo(big.NewFloat(gammaNum).SetPrec(prec), big.NewFloat(gammaDen).SetPrec(prec))
	p := big.NewFloat(1).SetPrec(prec)
	for i := range bounds {
		n, acc := p.Uint64()
		if acc == big.Below { // cut down: the next integer is the first one inside
			n++
		}
		bounds[i] = n
		p.Mul(p, g)
	}
	bounds[len(bounds)-1] = math.MaxUint64 // Index never looks at it for values of the last bucket
	if q := new(big.Float).Quo(p, g); bounds[Last] == math.MaxUint64 || q.Cmp(new(big.Float).SetUint64(math.MaxUint64)) <= 0 {
		panic("BUG: hist: Last does not fit Gamma")
	}

	p.SetInt64(2).Mul(p, g).Quo(p, new(big.Float).SetPrec(prec).Add(g, big.NewFloat(1))) // 2*Gamma/(Gamma+1)
	for i := range fine {
		fine[i], _ = p.Float64()
		p.Mul(p, g)
	}
	step := big.NewFloat(1).SetPrec(prec)
	for range midSteps {
		step.Mul(step, g)
	}
	p.SetInt64(1)
	for j := range coarse {
		coarse[j], _ = p.Float64()
		p.Mul(p, step)
	}

	i := 0
	for c := range cells {
		low := lowOf(c)
		if low == 0 {
			continue // a cell between two integers, which no value meets
		}
		for i < int(Last) && bounds[i+1] <= low {
			i++
		}
		cells[c] = int16(i)
	}
}

// lowOf returns the smallest value of a cell, 0 when the cell lies between two integers.
func lowOf(cell int) uint64 {
	exp, m := cell>>cellBits, uint64(cell&(1<<cellBits-1))|1<<cellBits
	if exp >= cellBits {
		return m << (exp - cellBits)
	}
	if shift := cellBits - exp; m&(1<<shift-1) == 0 {
		return m >> shift
	}
	return 0
}

// Index returns the bucket of v: Zero for 0, else 0 to Last.
func Index(v uint64) int16 {
	if v == 0 {
		return Zero
	}
	lz := bits.LeadingZeros64(v)
	m := v << uint(lz&63) >> (63 - cellBits) & (1<<cellBits - 1)
	i := cells[uint64(63-lz)<<cellBits|m]
	if i < Last && v >= bounds[i+1] {
		i++
	}
	return i
}

// Mid returns the midpoint of bucket i, 0 for Zero.
func Mid(i int16) float64 {
	if i < 0 {
		return 0
	}
	return fine[i%midSteps] * coarse[i/midSteps]
}

// Bounds returns the smallest value of bucket i and the largest. Low buckets hold no integer at all: then low > high.
func Bounds(i int16) (low, high uint64) {
	switch {
	case i < 0:
		return 0, 0
	case i >= Last:
		return bounds[Last], math.MaxUint64
	}
	return bounds[i], bounds[i+1] - 1
}

package hist

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
)

// quantileSteps is the precision of a quantile: ranks are computed in integers, so that Go and SQL agree on them.
const quantileSteps = 10_000

// Rank returns the nearest rank of quantile q among n values: ceil(q*n), at least 1 and at most n, with q taken to four
// decimal places. It is 0 when n is 0.
func Rank(q float64, n uint64) uint64 {
	hi, lo := bits.Mul64(n, quantileStep(q))
	lo, carry := bits.Add64(lo, quantileSteps-1, 0)
	rank, _ := bits.Div64(hi+carry, lo, quantileSteps)
	return min(max(rank, 1), n)
}

func quantileStep(q float64) uint64 {
	return uint64(math.Round(min(max(q, 0), 1) * quantileSteps))
}

// Quantile returns quantile q of what d counts: the midpoint of the bucket that has the nearest rank, rounded, and clamped
// to [low, high], the exact extremes, which d does not know. It is 0 when d is empty.
func (d *Dense) Quantile(q float64, low, high uint64) uint64 {
	rank := Rank(q, d.Count())
	if rank == 0 {
		return 0
	}
	var seen uint64
	bucket := Last
	found := false
	d.Each(func(i int16, n uint64) {
		if seen += n; !found && seen >= rank {
			bucket, found = i, true
		}
	})
	return clamp(Mid(bucket), low, high)
}

// clamp rounds half to even, as ClickHouse's round does for Float64, after keeping mid within [low, high].
func clamp(mid float64, low, high uint64) uint64 {
	switch {
	case mid <= float64(low):
		return low
	case mid >= float64(high):
		return high
	}
	return min(max(uint64(math.RoundToEven(mid)), low), high)
}

// QuantileSQL returns a ClickHouse expression of type UInt64 that computes quantile q of a histogram exactly as Quantile
// does. The arguments are SQL expressions: a Map(Int16, UInt64) whose keys may be in any order, the number of values in
// it and their extremes (UInt64). It is 0 where calls is 0.
func QuantileSQL(hist, calls, low, high string, q float64) string {
	// sumMap leaves its keys in order, but a map that was never merged is as its writer made it.
	sorted := "mapSort(" + hist + ")"
	rank := fmt.Sprintf("greatest(intDiv(toUInt128(%s) * %d + %d, %d), 1)", calls, quantileStep(q), quantileSteps-1, quantileSteps)
	bucket := fmt.Sprintf("mapKeys(%[1]s)[arrayFirstIndex(c -> c >= %[2]s, arrayCumSum(mapValues(%[1]s)))]", sorted, rank)
	mid := fmt.Sprintf("if(%[1]s < 0, 0., %[2]s[%[1]s %% %[4]d + 1] * %[3]s[intDiv(%[1]s, %[4]d) + 1])", bucket, floatsSQL(fine[:]),
		floatsSQL(coarse[:]), midSteps)
	return fmt.Sprintf("multiIf(%[1]s = 0, toUInt64(0), %[2]s <= %[3]s, %[3]s, %[2]s >= %[4]s, %[4]s, "+
		"least(greatest(toUInt64(round(%[2]s)), %[3]s), %[4]s))", calls, mid, low, high)
}

// floatsSQL returns an array whose literals are read back as exactly these numbers.
func floatsSQL(values []float64) string {
	out := []byte{'['}
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendFloat(out, v, 'e', -1, 64)
	}
	return string(append(out, ']'))
}

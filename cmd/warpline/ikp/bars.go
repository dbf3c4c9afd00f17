package ikp

import (
	"math"

	"gonum.org/v1/plot/plotter"
)

// maxBars is how many bars of a histogram are drawn; of more, neighbours are added up.
const maxBars = 1024

// bars is a histogram as it is drawn: prob[i] between edges i and i+1.
type bars struct {
	edges, prob []float64
	merged      int // how many bins are in one bar
}

// narrow reports whether a range is a single value as far as an axis can tell.
func narrow(low, high float64) bool { return high-low <= 1e-9*max(math.Abs(low), math.Abs(high)) }

// barsOf are the bars of a region's histogram.
func barsOf(r *region) bars {
	h := &r.Hist
	if narrow(h.Min, h.Max) { // all in one bin; a bar needs a width
		half := math.Abs(h.Min) * 0.01
		if half == 0 {
			half = 0.5
		}
		return bars{edges: []float64{h.Min - half, h.Min + half}, prob: []float64{sum(h.Prob)}, merged: h.Bins}
	}
	b := bars{merged: (h.Bins + maxBars - 1) / maxBars}
	width := (h.Max - h.Min) / float64(h.Bins)
	for i := 0; i < h.Bins; i += b.merged {
		b.edges = append(b.edges, h.Min+width*float64(i))
		b.prob = append(b.prob, sum(h.Prob[i:min(i+b.merged, h.Bins)]))
	}
	b.edges = append(b.edges, h.Max)
	return b
}

func sum(xs []float64) (all float64) {
	for _, x := range xs {
		all += x
	}
	return all
}

// rebin spreads a region's histogram over bins of equal width between low and high, so that regions with other bins can be compared.
func rebin(r *region, low, high float64, bins int) bars {
	out := bars{edges: make([]float64, bins+1), prob: make([]float64, bins), merged: 1}
	width := (high - low) / float64(bins)
	for i := range out.edges {
		out.edges[i] = low + width*float64(i)
	}
	at := func(x float64) int { return min(max(int((x-low)/width), 0), bins-1) }
	h := &r.Hist
	if narrow(h.Min, h.Max) {
		out.prob[at(h.Min)] = sum(h.Prob)
		return out
	}
	own := (h.Max - h.Min) / float64(h.Bins)
	for i, p := range h.Prob {
		if p == 0 {
			continue
		}
		left, right := h.Min+own*float64(i), h.Min+own*float64(i+1)
		for k := at(left); k <= at(right); k++ {
			inside := min(right, out.edges[k+1]) - max(left, out.edges[k])
			out.prob[k] += p * min(max(inside/own, 0), 1)
		}
	}
	return out
}

// outline is the line around the bars, from the axis back to it.
func (b bars) outline() plotter.XYs {
	line := plotter.XYs{{X: b.edges[0]}}
	for i, p := range b.prob {
		line = append(line, plotter.XY{X: b.edges[i], Y: p}, plotter.XY{X: b.edges[i+1], Y: p})
	}
	return append(line, plotter.XY{X: b.edges[len(b.edges)-1]})
}

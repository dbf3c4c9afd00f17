package ikp

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// blockRegion is a region in one block.
type blockRegion struct {
	block uint64
	*region
}

const (
	// blockBins is how many bins blocks are drawn with over each other: each has bins of its own, which cannot be compared.
	blockBins = 64
	// fewBlocks have a colour each; of more, the colour says how late a block is.
	fewBlocks = 10
)

// drawBlocks draws one region's blocks over each other.
func drawBlocks(all []blockRegion, unit string, logx bool) *picture {
	how := blocksOf(len(all))
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b blockRegion) int { return cmp.Compare(a.Mean, b.Mean) })
	if len(order) > mostLines { // from the earliest to the latest
		how = fmt.Sprintf("%d of %s", mostLines, how)
		for i := range mostLines {
			order[i] = order[i*(len(order)-1)/(mostLines-1)]
		}
		order = order[:mostLines]
	}
	regions := make([]*region, len(order))
	for i := range order {
		regions[i] = order[i].region
	}
	low, high := span(regions)
	first := all[0]
	p := newPlot(fmt.Sprintf("region %d: %s, %s over each other", first.ID, shown(first.Name, 50), how), unit, low, high, logx)
	p.Y.Label.Text = fmt.Sprintf("share of the block's slices in each of %d bins", blockBins)
	ramp := warm(101).Colors()
	named := map[int]bool{}
	for i := range order {
		named[i] = len(order) <= fewBlocks || i < 3 || i >= len(order)-3 || i == len(order)/2
	}
	highest := 0.0
	lines := make([]*plotter.Line, len(order))
	for i, r := range order {
		b := rebin(r.region, low, high, blockBins)
		if logx {
			b = rebinLog(r.region, low, high, blockBins)
		}
		highest = max(highest, top(b))
		lines[i] = add(p, b, i, false)
		if len(order) > fewBlocks {
			at := ramp[i*100/max(1, len(order)-1)].(color.NRGBA)
			at = darker(at)
			at.A = 0xb0
			lines[i].Color, lines[i].Dashes, lines[i].Width = at, nil, vg.Points(0.7)
			if named[i] {
				at.A = 0xff
				lines[i].Color, lines[i].Width = at, vg.Points(1.4)
			}
		}
	}
	p.Y.Max = highest * 1.05
	p.Legend.Add("mean, longest first")
	for i := len(order) - 1; i >= 0; i-- {
		switch {
		case named[i]:
			p.Legend.Add(fmt.Sprintf("block %d: %s", order[i].block, number(order[i].Mean)), lines[i])
		case named[i+1]:
			p.Legend.Add("…")
		}
	}
	return &picture{width: 8.5 * vg.Inch, height: 4.2 * vg.Inch, draw: beside(p)}
}

// darker keeps the pale middle of the ramp visible on white.
func darker(c color.NRGBA) color.NRGBA {
	return color.NRGBA{uint8(float64(c.R) * 0.8), uint8(float64(c.G) * 0.8), uint8(float64(c.B) * 0.8), c.A}
}

// rebinLog is rebin with bins that are equally wide on a logarithmic axis.
func rebinLog(r *region, low, high float64, bins int) bars {
	const fine = 64 // parts of a bin's width that a bar is cut at
	flat := barsOf(r)
	out := bars{edges: make([]float64, bins+1), prob: make([]float64, bins), merged: 1}
	step := math.Log(high/low) / float64(bins)
	for i := range out.edges {
		out.edges[i] = low * math.Exp(step*float64(i))
	}
	for i, p := range flat.prob {
		for k := range fine {
			x := flat.edges[i] + (flat.edges[i+1]-flat.edges[i])*(float64(k)+0.5)/fine
			out.prob[min(max(int(math.Log(x/low)/step), 0), bins-1)] += p / fine
		}
	}
	return out
}

func blocksOf(n int) string {
	if n == 1 {
		return "1 block"
	}
	return number(float64(n)) + " blocks"
}

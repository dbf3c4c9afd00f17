package ikp

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dustin/go-humanize/english"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// drawRegion draws one region's histogram; of says whose it is.
func drawRegion(r *region, of, unit string, logx bool) *picture {
	b := barsOf(r)
	low, high := span([]*region{r})
	title := fmt.Sprintf("region %d: %s%s: %s, mean %s %s", r.ID, shown(r.Name, 36), of, sliceCount(r.Count), number(r.Mean), unit)
	p := newPlot(title, unit, low, high, logx)
	p.Y.Label.Text = perBin(b, r)
	add(p, b, 0, true)
	if !(logx && r.Mean <= 0) {
		mean, _ := plotter.NewLine(plotter.XYs{{X: r.Mean}, {X: r.Mean, Y: top(b)}})
		mean.Color, mean.Dashes, mean.Width = hues[1], dashes[1], vg.Points(1)
		p.Add(mean)
		p.Legend.Add("mean", mean)
	}
	p.Y.Max = top(b) * 1.05
	return &picture{width: 7.5 * vg.Inch, height: 3.8 * vg.Inch, draw: beside(p)}
}

// drawRegions draws all regions over each other.
func drawRegions(regions []*region, of, unit string, logx bool) *picture {
	title := "durations of all regions" + of
	if len(regions) > mostLines {
		title = fmt.Sprintf("durations of %d of %s regions%s, those with most slices", mostLines, number(float64(len(regions))), of)
		regions = slices.Clone(regions)
		slices.SortStableFunc(regions, func(a, b *region) int { return cmp.Compare(b.Count, a.Count) })
		regions = regions[:mostLines]
	}
	low, high := span(regions)
	p := newPlot(title, unit, low, high, logx)
	highest := 0.0
	for i, r := range regions {
		b := barsOf(r)
		highest = max(highest, top(b))
		line := add(p, b, i, false)
		if len(regions) <= maxLegend || i < maxLegend-1 {
			p.Legend.Add(fmt.Sprintf("%d: %s", r.ID, shown(r.Name, 28)), line)
		} else if i == maxLegend-1 {
			p.Legend.Add(fmt.Sprintf("and %d more", len(regions)-i))
		}
	}
	p.Y.Label.Text = "share of slices in a bin of its region"
	p.Y.Max = highest * 1.05
	return &picture{width: 8.5 * vg.Inch, height: 4.2 * vg.Inch, draw: beside(p)}
}

// mostLines is how many lines one drawing has: more are one blot, and a large file.
const mostLines = 200

// maxLegend is how many lines a legend has room for.
const maxLegend = 20

// add draws the outline of bars.
func add(p *plot.Plot, b bars, i int, fill bool) *plotter.Line {
	line, err := plotter.NewLine(b.outline())
	if err != nil {
		panic("BUG: outline: " + err.Error()) // check leaves finite numbers
	}
	line.Color, line.Width, line.Dashes = hues[i%len(hues)], vg.Points(1.2), dashes[i/len(hues)%len(dashes)]
	if fill {
		pale := hues[i%len(hues)]
		pale.A = 0x90
		line.FillColor = pale
		line.Width = vg.Points(0.6)
	}
	p.Add(line)
	return line
}

// span is from the lowest to the highest duration, with the bars of single values.
func span(regions []*region) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	for _, r := range regions {
		b := barsOf(r)
		low, high = min(low, b.edges[0]), max(high, b.edges[len(b.edges)-1])
	}
	return low, high
}

func top(b bars) float64 {
	highest := 1e-6
	for _, p := range b.prob {
		highest = max(highest, p)
	}
	return highest
}

// perBin says what a bar stands for.
func perBin(b bars, r *region) string {
	if len(b.prob) == 1 {
		return "share of slices"
	}
	return fmt.Sprintf("share of slices in each of %s", english.Plural(len(b.prob), "bin", ""))
}

// sliceCount is a number of slices, as people write it.
func sliceCount(n uint64) string {
	if n == 1 {
		return "1 slice"
	}
	return strings.TrimSuffix(number(float64(n)), ".0") + " slices"
}

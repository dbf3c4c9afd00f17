package ikp

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// means are those of each block in each region: a grid of parts of the region's mean.
type means struct {
	blocks  []uint64
	regions []*region // with the mean over the blocks that are here
	mean    [][]float64
	count   [][]uint64
	note    string
}

// Dims, X, Y and Z make means a plotter.GridXYZ: columns are blocks, rows regions from the bottom up.
func (m *means) Dims() (c, r int)   { return len(m.blocks), len(m.regions) }
func (m *means) X(c int) float64    { return float64(c) }
func (m *means) Y(r int) float64    { return float64(r) }
func (m *means) row(r int) int      { return len(m.regions) - 1 - r }
func (m *means) Z(c, r int) float64 { return m.off(c, m.row(r)) }

// off is how much a block's mean is off the region's, in parts of it; NaN where the block has none.
func (m *means) off(block, row int) float64 {
	if m.count[row][block] == 0 {
		return math.NaN()
	}
	all := m.regions[row].Mean
	if all == 0 {
		return 0
	}
	return (m.mean[row][block] - all) / math.Abs(all)
}

// newMeans has a row for each region and a column for each block.
func newMeans(regions []*region, blocks []uint64) *means {
	m := &means{blocks: blocks}
	for _, r := range regions {
		m.regions = append(m.regions, &region{ID: r.ID, Name: r.Name})
		m.mean = append(m.mean, make([]float64, len(blocks)))
		m.count = append(m.count, make([]uint64, len(blocks)))
	}
	return m
}

// add adds durations to a cell.
func (m *means) add(row, block int, count uint64, mean float64) {
	r := m.regions[row]
	merge := func(n *uint64, all *float64) {
		*n += count
		*all += (mean - *all) * (float64(count) / float64(*n))
	}
	if count > 0 {
		merge(&m.count[row][block], &m.mean[row][block])
		merge(&r.Count, &r.Mean)
	}
}

// cellsNamed is how many columns have room for numbers.
const cellsNamed = 24

// drawMeans draws the heat map.
func drawMeans(m *means, unit string) *picture {
	p := plot.New()
	style(p)
	m.keep(mostRows)
	m.crowd(mostColumns)
	p.Title.Text = "mean duration of each block beside that of its region" + m.note
	p.X.Label.Text = "block"
	far := 0.01
	for row := range m.regions {
		for block := range m.blocks {
			if off := math.Abs(m.off(block, row)); !math.IsNaN(off) {
				far = max(far, off)
			}
		}
	}
	shades := warm(255)
	heat := plotter.NewHeatMap(m, shades)
	heat.Min, heat.Max, heat.NaN = -far, far, color.NRGBA{0xcc, 0xcc, 0xcc, 0xff}
	p.Add(heat)
	if len(m.blocks) <= cellsNamed {
		p.Add(m.labels(far))
	}
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.5, float64(len(m.blocks))-0.5, -0.5, float64(len(m.regions))-0.5
	p.X.Tick.Marker = plot.ConstantTicks(m.blockTicks())
	var rows []plot.Tick
	for r := range m.regions {
		of := m.regions[m.row(r)]
		rows = append(rows, plot.Tick{Value: float64(r),
			Label: fmt.Sprintf("%d: %s\n%s %s", of.ID, shown(of.Name, 24), number(of.Mean), unit)})
	}
	p.Y.Tick.Marker = plot.ConstantTicks(rows)
	p.Y.Tick.Length, p.X.Tick.Length = vg.Points(3), vg.Points(3)
	width := min(max(vg.Length(len(m.blocks))*0.55*vg.Inch+3*vg.Inch, 6*vg.Inch), 13*vg.Inch)
	height := min(vg.Length(len(m.regions))*0.45*vg.Inch+1.4*vg.Inch, 90*vg.Inch)
	return &picture{width: width, height: max(height, 2.4*vg.Inch), draw: withScale(p, far, shades)}
}

// mostRows is how many regions have room in one drawing.
const mostRows = 100

// keep leaves the n regions whose blocks differ most, in their order.
func (m *means) keep(n int) {
	if len(m.regions) <= n {
		return
	}
	m.note += fmt.Sprintf(": %d of %s regions, those that differ most", n, number(float64(len(m.regions))))
	far := make([]float64, len(m.regions))
	for row := range m.regions {
		for block := range m.blocks {
			if off := math.Abs(m.off(block, row)); off > far[row] { // not NaN
				far[row] = off
			}
		}
	}
	rows := make([]int, len(far))
	for i := range rows {
		rows[i] = i
	}
	slices.SortStableFunc(rows, func(a, b int) int { return cmp.Compare(far[b], far[a]) })
	rows = rows[:n]
	slices.Sort(rows)
	kept := means{blocks: m.blocks, note: m.note}
	for _, row := range rows {
		kept.regions = append(kept.regions, m.regions[row])
		kept.mean, kept.count = append(kept.mean, m.mean[row]), append(kept.count, m.count[row])
	}
	*m = kept
}

// mostColumns is how many columns of blocks one drawing has.
const mostColumns = 1024

// crowd puts neighbouring blocks into one column where there are more than n, and shows the one that is farthest off: a mean would hide it.
func (m *means) crowd(n int) {
	k := (len(m.blocks) + n - 1) / n
	if k < 2 {
		return
	}
	m.note += fmt.Sprintf("\na column has the one of %d blocks that is farthest off", k)
	var blocks []uint64
	for i := 0; i < len(m.blocks); i += k {
		blocks = append(blocks, m.blocks[i])
	}
	for row := range m.regions {
		mean, count := make([]float64, len(blocks)), make([]uint64, len(blocks))
		for c := range blocks {
			far := -1.0
			for b := c * k; b < min(c*k+k, len(m.blocks)); b++ {
				if off := math.Abs(m.off(b, row)); off > far { // not NaN
					far, mean[c], count[c] = off, m.mean[row][b], m.count[row][b]
				}
			}
		}
		m.mean[row], m.count[row] = mean, count
	}
	m.blocks = blocks
}

// blockTicks names the columns, as many as have room.
func (m *means) blockTicks() (all []plot.Tick) {
	every := 1
	for _, next := range []int{2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000} {
		if len(m.blocks)/every <= 40 {
			break
		}
		every = next
	}
	for i := 0; i < len(m.blocks); i += every {
		all = append(all, plot.Tick{Value: float64(i), Label: fmt.Sprint(m.blocks[i])})
	}
	return all
}

// labels writes each mean into its cell.
func (m *means) labels(far float64) plot.Plotter {
	var at plotter.XYLabels
	var dark []bool
	for row := range m.regions {
		for block := range m.blocks {
			if m.count[row][block] == 0 {
				continue
			}
			at.XYs = append(at.XYs, plotter.XY{X: float64(block), Y: float64(m.row(row))})
			at.Labels = append(at.Labels, number(m.mean[row][block]))
			dark = append(dark, math.Abs(m.off(block, row)) > far*0.6)
		}
	}
	labels, err := plotter.NewLabels(at)
	if err != nil {
		panic("BUG: labels: " + err.Error()) // check leaves finite numbers
	}
	for i := range labels.TextStyle {
		s := &labels.TextStyle[i]
		s.Font.Variant, s.Font.Size, s.XAlign, s.YAlign, s.Color = "Sans", vg.Points(8), draw.XCenter, draw.YCenter, ink
		if dark[i] {
			s.Color = color.White
		}
	}
	return labels
}

// withScale draws p, and to its right what the colours say.
func withScale(p *plot.Plot, far float64, shades warm) func(draw.Canvas) {
	return func(c draw.Canvas) {
		white(c)
		c = draw.Crop(c, 6, -6, 6, -6)
		const room = 1.3 * vg.Inch
		p.Draw(draw.Crop(c, 0, -room, 0, 0))
		key := plot.New()
		style(key)
		key.HideX()
		key.Title.Text = " "
		key.Y.Tick.Marker = plot.ConstantTicks([]plot.Tick{
			{Value: -far, Label: percent(-far)}, {Value: -far / 2, Label: percent(-far / 2)}, {Value: 0, Label: "mean"},
			{Value: far / 2, Label: percent(far / 2)}, {Value: far, Label: percent(far)},
		})
		ramp := plotter.NewHeatMap(scale{far, len(shades.Colors())}, shades)
		ramp.Rasterized = true
		key.Add(ramp)
		key.X.Min, key.X.Max, key.Y.Min, key.Y.Max = -0.5, 1.5, -far, far
		high := min(c.Size().Y, 4*vg.Inch)
		key.Draw(draw.Crop(c, c.Size().X-room+vg.Points(12), -vg.Points(6), c.Size().Y-high+vg.Points(24), 0))
	}
}

func percent(x float64) string { return fmt.Sprintf("%+.3g %%", x*100) }

// scale is the grid of the colours' key.
type scale struct {
	far  float64
	rows int
}

func (s scale) Dims() (c, r int)   { return 2, s.rows }
func (s scale) X(c int) float64    { return float64(c) }
func (s scale) Y(r int) float64    { return s.far * (2*float64(r)/float64(s.rows-1) - 1) }
func (s scale) Z(_, r int) float64 { return s.Y(r) }

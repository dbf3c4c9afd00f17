package ikp

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"math"
	"strconv"

	"github.com/dustin/go-humanize"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/palette"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// picture is one drawing.
type picture struct {
	width, height vg.Length
	// draw draws on all of the canvas.
	draw func(draw.Canvas)
}

const dotsPerInch = 160

// write writes the picture as svg or png. The same picture always gives the same bytes.
func (p *picture) write(w io.Writer, format string) error {
	if format == "svg" {
		c := vgsvg.New(p.width, p.height)
		p.draw(draw.New(c))
		var b bytes.Buffer
		if _, err := c.WriteTo(&b); err != nil {
			return err
		}
		// Where that font is not there, one like it.
		_, err := w.Write(bytes.ReplaceAll(b.Bytes(), []byte("font-family:Liberation Sans;"),
			[]byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;")))
		return err
	}
	c := vgimg.NewWith(vgimg.UseWH(p.width, p.height), vgimg.UseDPI(dotsPerInch))
	p.draw(draw.New(c))
	_, err := vgimg.PngCanvas{Canvas: c}.WriteTo(w)
	return err
}

var (
	ink  = color.NRGBA{0x22, 0x22, 0x22, 0xff}
	grid = color.NRGBA{0xdd, 0xdd, 0xdd, 0xff}
	// hues are told apart by people who do not see red and green, and in print (Okabe and Ito's).
	hues = []color.NRGBA{
		{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
		{0x56, 0xb4, 0xe9, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x55, 0x55, 0x55, 0xff},
	}
	dashes = [][]vg.Length{nil, {vg.Points(5), vg.Points(2)}, {vg.Points(1.5), vg.Points(1.5)}}
)

// newPlot is a plot in the common style, whose x axis is durations.
func newPlot(title, unit string, low, high float64, logx bool) *plot.Plot {
	p := plot.New()
	p.Title.Text = title
	style(p)
	p.X.Label.Text = "duration (" + unit + ")"
	p.Y.Label.Text = "share of slices in a bin"
	p.Y.Min = 0
	pad := (high - low) * 0.02
	if narrow(low, high) {
		pad = max(math.Abs(low)*0.1, 1e-3)
	}
	if logx {
		p.X.Scale = plot.LogScale{}
		p.X.Min, p.X.Max = low/1.05, high*1.05
		p.X.Tick.Marker = plot.TickerFunc(logTicks)
	} else {
		p.X.Min, p.X.Max = low-pad, high+pad
		p.X.Tick.Marker = plot.TickerFunc(ticks)
	}
	p.Y.Tick.Marker = plot.TickerFunc(shares)
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = grid, grid
	p.Add(lines)
	return p
}

func style(p *plot.Plot) {
	for _, font := range []*vg.Length{&p.X.Tick.Label.Font.Size, &p.Y.Tick.Label.Font.Size, &p.Legend.TextStyle.Font.Size} {
		*font = vg.Points(9)
	}
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Color, a.Label.TextStyle.Color, a.Tick.Label.Color, a.Tick.LineStyle.Color = ink, ink, ink, ink
		a.Tick.Label.Font.Variant, a.Label.TextStyle.Font.Variant = "Sans", "Sans"
		a.Label.TextStyle.Font.Size = vg.Points(10)
		a.Label.Padding = vg.Points(4)
		a.Padding = 0
	}
	p.Title.TextStyle.Font.Variant, p.Legend.TextStyle.Font.Variant = "Sans", "Sans"
	p.Title.TextStyle.Font.Size, p.Title.TextStyle.Color = vg.Points(11), ink
	p.Title.Padding = vg.Points(6)
	p.Legend.ThumbnailWidth, p.Legend.Padding, p.Legend.Left, p.Legend.Top = vg.Points(16), vg.Points(2), true, true
}

// ticks are at round numbers, about six of them.
func ticks(low, high float64) []plot.Tick {
	return roundTicks(low, high, func(x, step float64) string {
		digits := -int(math.Floor(math.Log10(step)))
		if top := max(math.Abs(low), math.Abs(high)); digits > 6 || top >= 1e12 {
			return strconv.FormatFloat(x, 'g', 10, 64)
		}
		return humanize.CommafWithDigits(x, max(digits, 0))
	})
}

// roundTicks are at multiples of 1, 2 or 5 of a power of ten.
func roundTicks(low, high float64, label func(x, step float64) string) (all []plot.Tick) {
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / 6))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*m) <= 7 {
			step *= m
			break
		}
	}
	first := math.Ceil(low / step)
	for n := 0.0; n < 10 && (first+n)*step <= high; n++ {
		x := (first+n)*step + 0 // no -0
		all = append(all, plot.Tick{Value: x, Label: label(x, step)})
	}
	return all
}

// logTicks are at 1, 2 and 5 of each decade, or at whole decades where there are many; on a short axis as on a linear one.
func logTicks(low, high float64) []plot.Tick {
	decades := math.Log10(high / low)
	if decades < 0.7 {
		return ticks(low, high)
	}
	every, within := max(1, int(decades/8)), []float64{1, 2, 5}
	if decades > 4 {
		within = within[:1]
	}
	var all []plot.Tick
	for d := int(math.Floor(math.Log10(low))); d <= int(math.Ceil(math.Log10(high))); d += every {
		for _, m := range within {
			if x := m * math.Pow10(d); x >= low && x <= high {
				all = append(all, plot.Tick{Value: x, Label: number(x)})
			}
		}
	}
	return all
}

// shares writes parts of 1 as per cent.
func shares(low, high float64) []plot.Tick {
	return roundTicks(low, high, func(x, _ float64) string { return fmt.Sprintf("%.4g %%", x*100) })
}

// beside draws p with its legend to the right of it, where it hides nothing.
func beside(p *plot.Plot) func(draw.Canvas) {
	return func(c draw.Canvas) {
		legend := p.Legend
		p.Legend = plot.NewLegend()
		white(c)
		const margin = 6
		c = draw.Crop(c, margin, -margin, margin, -margin)
		room := legend.Rectangle(c).Size().X + vg.Points(10)
		p.Draw(draw.Crop(c, 0, -room, 0, 0))
		legend.Draw(draw.Crop(c, c.Size().X-room+vg.Points(10), 0, 0, -vg.Points(22)))
		p.Legend = legend
	}
}

// alone draws p, which has no legend.
func alone(p *plot.Plot) func(draw.Canvas) {
	return func(c draw.Canvas) {
		white(c)
		const margin = 6
		p.Draw(draw.Crop(c, margin, -margin, margin, -margin))
	}
}

// white covers the canvas: a viewer with a dark background shows what is transparent as it.
func white(c draw.Canvas) {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
}

// warm goes from blue for less over white to red for more.
type warm int

func (n warm) Colors() []color.Color {
	all := make([]color.Color, n)
	mix := func(a, b color.NRGBA, f float64) color.Color {
		at := func(x, y uint8) uint8 { return uint8(math.Round(float64(x) + (float64(y)-float64(x))*f)) }
		return color.NRGBA{at(a.R, b.R), at(a.G, b.G), at(a.B, b.B), 0xff}
	}
	cold, middle, hot := color.NRGBA{0x21, 0x66, 0xac, 0xff}, color.NRGBA{0xf7, 0xf7, 0xf7, 0xff}, color.NRGBA{0xb2, 0x18, 0x2b, 0xff}
	for i := range all {
		if f := 2*float64(i)/float64(n-1) - 1; f < 0 {
			all[i] = mix(middle, cold, -f)
		} else {
			all[i] = mix(middle, hot, f)
		}
	}
	return all
}

var _ palette.Palette = warm(3)

package report

import (
	"math"
	"strings"

	"github.com/rivo/uniseg"
)

var eighths = []rune(" ▏▎▍▌▋▊▉█")

// bar draws part of whole as a bar of at most width cells, exact to an eighth; a part above 0 shows at least a sliver.
func bar(part, whole uint64, width int) string {
	if whole == 0 || part == 0 {
		return ""
	}
	n := int(math.Round(8 * float64(width) * math.Min(1, float64(part)/float64(whole))))
	n = max(n, 1)
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string(eighths[n%8])
	}
	return s
}

var levels = []rune("▁▂▃▄▅▆▇█")

// spark draws values between low and high, one cell each.
func spark(values []float64, low, high float64) string {
	var b strings.Builder
	for _, v := range values {
		at := 0
		if high > low {
			at = int(math.Round((v - low) / (high - low) * float64(len(levels)-1)))
		}
		b.WriteRune(levels[min(max(at, 0), len(levels)-1)])
	}
	return b.String()
}

// style writes with or without colour.
type style struct{ colour bool }

// SGR codes of the terminal.
const (
	bold   = "1;36"
	faint  = "2"
	green  = "32"
	yellow = "33"
)

func (s style) paint(code, t string) string {
	if !s.colour || t == "" {
		return t
	}
	return "\x1b[" + code + "m" + t + "\x1b[0m"
}

func (s style) title(t string) string { return s.paint(bold, t) }
func (s style) dim(t string) string   { return s.paint(faint, t) }
func (s style) bar(t string) string   { return s.paint(green, t) }
func (s style) good(t string) string  { return s.paint(green, t) }
func (s style) bad(t string) string   { return s.paint(yellow, t) }

// cells is how many cells of a terminal t takes.
func cells(t string) int { return uniseg.StringWidth(Printable(t)) }

// cut shortens t to width cells by leaving out its middle: kernel names differ at both ends.
func cut(t string, width int) string {
	t = Printable(t)
	if cells(t) <= width {
		return t
	}
	switch {
	case width < 1:
		return ""
	case width == 1:
		return "…"
	}
	head := max((width-1)*2/3, 1)
	return take(t, head) + "…" + takeEnd(t, width-1-head)
}

// take is the longest beginning of t that fits width cells.
func take(t string, width int) string {
	n, g := 0, uniseg.NewGraphemes(t)
	for g.Next() {
		width -= g.Width()
		if width < 0 {
			break
		}
		_, n = g.Positions()
	}
	return t[:n]
}

// takeEnd is the longest end of t that fits width cells.
func takeEnd(t string, width int) string {
	have, g := cells(t), uniseg.NewGraphemes(t)
	for have > width && g.Next() {
		have -= g.Width()
		_, to := g.Positions()
		if have <= width {
			return t[to:]
		}
	}
	return t
}

// Printable returns text that a client sent in a form that is safe for a terminal: what would control the terminal or reverse the line
// becomes a dot.
func Printable(t string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
			return '·'
		}
		return r
	}, t)
}

package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// column is a column of a grid. Exactly one column of a grid should stretch: it takes the width that the others leave.
type column struct {
	head    string
	right   bool
	stretch bool
	drop    int                 // on a narrow terminal, columns with the largest drop go first; 0 stays
	paint   func(string) string // nil leaves cells as they are
}

// grid writes aligned columns, two spaces apart, indented by two.
type grid struct {
	columns []column
	rows    [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// leastStretch is how narrow the stretching column gets before columns are left out, and leastEver when no more columns can be left out.
const leastStretch, leastEver = 14, 4

// write fits the grid into width cells.
func (g *grid) write(w io.Writer, width int, st style) {
	widths, stretch, used := g.measure()
	for used-max(widths[stretch]-leastStretch, 0) > width && g.dropOne() {
		widths, stretch, used = g.measure()
	}
	if used > width {
		widths[stretch] = max(widths[stretch]-(used-width), min(widths[stretch], leastEver))
	}
	for i := range g.columns {
		column := make([]string, len(g.rows))
		for k, r := range g.rows {
			column[k] = r[i]
		}
		for k, text := range distinct(column, widths[i]) {
			g.rows[k][i] = text
		}
	}
	g.line(w, widths, func(i int) string { return g.columns[i].head }, func(i int, s string) string { return st.dim(s) })
	for _, r := range g.rows {
		g.line(w, widths, func(i int) string { return r[i] }, func(i int, s string) string {
			if p := g.columns[i].paint; p != nil {
				return p(s)
			}
			return s
		})
	}
}

// measure returns the width of each column, which one stretches, and how wide all are together.
func (g *grid) measure() (widths []int, stretch, used int) {
	widths = make([]int, len(g.columns))
	for i, c := range g.columns {
		widths[i] = cells(c.head)
		for _, r := range g.rows {
			widths[i] = max(widths[i], cells(r[i]))
		}
		if c.stretch {
			stretch = i
		}
		used += widths[i] + 2
	}
	return widths, stretch, used
}

// dropOne leaves out the column that matters least and reports whether there was one to leave out.
func (g *grid) dropOne() bool {
	at := -1
	for i, c := range g.columns {
		if c.drop > 0 && (at < 0 || c.drop > g.columns[at].drop) {
			at = i
		}
	}
	if at < 0 {
		return false
	}
	g.columns = slices.Delete(g.columns, at, at+1)
	for i, r := range g.rows {
		g.rows[i] = slices.Delete(r, at, at+1)
	}
	return true
}

func (g *grid) line(w io.Writer, widths []int, cell func(int) string, paint func(int, string) string) {
	var b strings.Builder
	b.WriteString("  ")
	for i, c := range g.columns {
		s := cut(cell(i), widths[i])
		pad := strings.Repeat(" ", max(0, widths[i]-cells(s)))
		switch {
		case c.right:
			b.WriteString(pad + paint(i, s))
		case i == len(g.columns)-1:
			b.WriteString(paint(i, s))
		default:
			b.WriteString(paint(i, s) + pad)
		}
		if i < len(g.columns)-1 {
			b.WriteString("  ")
		}
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

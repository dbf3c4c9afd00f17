package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// reasonsShown is how many stall reasons are shown for a function.
const reasonsShown = 3

func (p *printer) samples(r *Report) {
	if r.Samples == 0 {
		return
	}
	p.section("Hot spots", fmt.Sprintf("%s: where warps were, and why they did not go on", plural(r.Samples, "PC sample")))
	g := &grid{columns: []column{{head: "function", stretch: true}, {head: "samples", right: true, drop: 3}, {head: "share", right: true},
		{head: "", paint: p.st.bar, drop: 2}, {head: "mostly", drop: 1}}}
	for _, h := range r.Hot {
		why := ""
		for i, x := range h.Reasons {
			if i == reasonsShown {
				break
			}
			if i > 0 {
				why += ", "
			}
			why += stallName(x.Name) + " " + percent(x.Samples, h.Samples)
		}
		g.add(kernelName(cmp.Or(h.Demangled, h.Function)), count(h.Samples), percent(h.Samples, r.Samples),
			bar(h.Samples, r.Samples, p.barWidth()), why)
	}
	g.write(p.w, p.Width, p.st)
	p.section("Why they waited", "")
	for _, s := range r.Stalls {
		fmt.Fprintf(p.w, "  %-28s %8s  %s\n", stallName(s.Reason), percent(s.Samples, r.Samples),
			p.st.bar(bar(s.Samples, r.Samples, p.barWidth())))
		if s.Meaning != "" {
			p.note(s.Meaning)
		}
		if s.Remedy != "" {
			p.note("→ " + s.Remedy)
		}
	}
	if r.Unresolved > 0 {
		p.note("Besides, " + plural(r.Unresolved, "sample") + " for reasons whose names never came.")
	}
	if len(r.Lines) > 0 {
		p.section("Hottest lines", "")
		g := &grid{columns: []column{{head: "line", stretch: true}, {head: "samples", right: true},
			{head: "share", right: true}, {head: "", paint: p.st.bar}}}
		known := slices.ContainsFunc(r.Lines, func(l Line) bool { return l.Source != "" })
		if known {
			g.columns = append(g.columns, column{head: "source", drop: 1})
		}
		for _, l := range r.Lines {
			row := []string{fmt.Sprintf("%s:%d", l.File, l.Line), count(l.Samples), percent(l.Samples, r.Samples),
				bar(l.Samples, r.Samples, p.barWidth())}
			if known {
				row = append(row, cut(strings.TrimSpace(l.Source), max(p.Width/2, 20)))
			}
			g.add(row...)
		}
		g.write(p.w, p.Width, p.st)
	}
	p.spots(r)
	p.cubins(r)
}

// cubins says of samples of cubins how many have a line, and where to read on.
func (p *printer) cubins(r *Report) {
	if !r.Cubins {
		return
	}
	var lost uint64
	var why []string
	for _, u := range r.Unsymbolized {
		lost += u.Samples
		why = append(why, u.Status+" "+percent(u.Samples, r.Samples))
	}
	p.section("PC sampling", "")
	if lost == 0 {
		p.paragraph("Each sample of a cubin has its source line.")
	} else {
		p.paragraph(percent(lost, r.Samples) + " of the samples have no source line: " + strings.Join(why, ", ") + ".")
	}
	p.paragraph("Kernels, lines and reasons, and what rose since another build or time: \"warpline report stalls\".")
}

// note prints dim text below what it explains.
func (p *printer) note(t string) { p.wrapped("      ", t, p.st.dim) }

package report

import (
	"fmt"
	"math"
	"slices"
)

// steps draws a strip of each trace and GPU: a tall cell is a long step.
func (p *tracePrinter) steps() {
	if len(p.r.Steps) == 0 {
		return
	}
	p.section("Steps", "their lengths in order, from the shortest to the longest: a tall cell is a long step")
	g := p.of(column{head: "GPU", right: true, drop: 4}, column{head: "steps", right: true, drop: 2}, column{head: "", stretch: true},
		column{head: "mean", right: true}, column{head: "longest", right: true}, column{head: "is step", right: true, drop: 1},
		column{head: "busy", right: true, drop: 3})
	for list := p.r.Steps; len(list) > 0; {
		n := 1
		for n < len(list) && list[n].Session == list[0].Session && list[n].Device == list[0].Device {
			n++
		}
		var took []float64
		var sum, busy uint64
		longest := list[0]
		for _, s := range list[:n] {
			took, sum, busy = append(took, float64(s.DurationNS)), sum+s.DurationNS, busy+s.BusyNS
			if s.DurationNS > longest.DurationNS {
				longest = s
			}
		}
		device, share := fmt.Sprint(list[0].Device), percent(busy, sum)
		if list[0].Device < 0 {
			device, share = "–", "–"
		}
		cellsOf := fold(took, max(p.Width/3, 8))
		g.add(p.whose(list[0].Session), device, count(uint64(n)), spark(cellsOf, slices.Min(cellsOf), slices.Max(cellsOf)),
			duration(sum/uint64(n)), duration(longest.DurationNS), fmt.Sprint(longest.Step), share)
		list = list[n:]
	}
	p.draw(g)
	if len(p.r.Steps) == maxSteps {
		p.paragraph(fmt.Sprintf("These are the first %s: the view trace_steps has all.", count(maxSteps)))
	}
}

func (p *tracePrinter) queues() {
	if len(p.r.Queues) == 0 {
		return
	}
	p.section("Queues", "how much work waited in a stream; from 1,024 on launches wait too")
	g := p.of(column{head: "GPU", right: true, drop: 2}, column{head: "stream", right: true, stretch: true},
		column{head: "longest", right: true}, column{head: "mean over time", right: true, drop: 3},
		column{head: "full for", right: true, drop: 1})
	for _, q := range p.r.Queues {
		full := "–"
		if q.FullNS > 0 {
			full = duration(q.FullNS)
		}
		g.add(p.whose(q.Session), fmt.Sprint(q.Device), fmt.Sprint(q.Stream), count(q.Longest), digits(q.Mean), full)
	}
	p.draw(g)
}

func (p *tracePrinter) collectives() {
	if len(p.r.Collectives) == 0 {
		if len(p.r.Traces) > 1 && p.r.Query.Job != "" {
			p.section("Collectives", "")
			p.paragraph("No collective operation has kernels in several of these ranks.")
		}
		return
	}
	p.section("Collectives", "skew: from the first rank's start to the last one's; transfer: from there on")
	g := &grid{columns: []column{{head: "name", stretch: true}, {head: "group", drop: 3}, {head: "count", right: true},
		{head: "ranks", right: true, drop: 2}, {head: "mean skew", right: true}, {head: "longest", right: true, drop: 1},
		{head: "transfer", right: true, drop: 4}, {head: "late most", right: true}}}
	for _, c := range p.r.Collectives {
		late := "–"
		if c.LateCount > 0 {
			late = fmt.Sprintf("rank %d, %s", c.LateRank, percent(c.LateCount, c.Count))
		}
		g.add(Demangled(c.Name), cut(c.ProcessGroup, p.Width/5), count(c.Count), count(c.Ranks), duration(uint64(math.Round(c.MeanSkewNS))),
			duration(c.LongestSkewNS), duration(c.TransferNS), late)
	}
	g.write(p.w, p.Width, p.st)
	for _, l := range p.r.Late[:min(len(p.r.Late), 1)] {
		p.paragraph(fmt.Sprintf("Rank %d is last most often: in %s, for which others waited %s.", l.Rank, plural(l.Count, "operation"),
			duration(l.SkewNS)))
	}
}

// changes says what changed by name, the largest change first.
func (p *tracePrinter) changes() {
	if p.r.Query.Against == "" {
		return
	}
	note := "now and in the base"
	if len(p.r.Base) > 1 || len(p.r.Traces) > 1 {
		note = fmt.Sprintf("sums of %s now, of %d in the base", plural(uint64(len(p.r.Traces)), "trace"), len(p.r.Base))
	}
	p.section("What changed", note+", from rollups")
	if len(p.r.Changed) == 0 {
		p.paragraph("Nothing: all names have the same calls and times.")
		return
	}
	g := &grid{columns: []column{{head: "name", stretch: true}, {head: "category", drop: 2}, {head: "change", right: true}, {head: ""},
		{head: "calls", right: true, drop: 1}, {head: "total", right: true}, {head: "mean", right: true, drop: 3},
		{head: "p50", right: true, drop: 4}, {head: "p99", right: true, drop: 5}}}
	for _, c := range p.r.Changed {
		sign, ns := "+", uint64(c.ChangeNS)
		if c.ChangeNS < 0 {
			sign, ns = "−", -ns
		}
		name, category, change, when := Demangled(c.Name), cut(c.Category, p.Width/8), sign+duration(ns), "now"
		if c.State != "" {
			when = c.State
		}
		if c.State != "gone" {
			g.add(name, category, change, when, count(c.Calls), duration(c.TotalNS), duration(uint64(math.Round(c.MeanNS))),
				duration(c.P50NS), duration(c.P99NS))
			name, category, change, when = "", "", "", "before"
		}
		if c.State != "new" {
			g.add(name, category, change, when, count(c.BaseCalls), duration(c.BaseTotalNS), duration(uint64(math.Round(c.BaseMeanNS))),
				duration(c.BaseP50NS), duration(c.BaseP99NS))
		}
	}
	g.write(p.w, p.Width, p.st)
}

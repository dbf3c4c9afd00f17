package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Print writes the report as text.
func (r *Trace) Print(w io.Writer, st Style) error {
	if st.Width == 0 {
		st.Width = 100
	}
	p := &tracePrinter{printer{&errWriter{w: w}, style{st.Colour}, st}, r, nil}
	if len(r.Traces) == 0 {
		p.section("No traces", "")
		p.paragraph("Send one of PyTorch's profiler with \"warpline send FILE\", or to /api/v1/traces: docs/send.md has the lines.")
		return p.w.err
	}
	p.traces()
	if r.Query.Session == "" && r.Query.Job == "" {
		p.paragraph("\"warpline report trace --session ID\" says where the time of one went, --job NAME compares the ranks of a job, and " +
			"--against ID says what changed.")
		return p.w.err
	}
	if r.Expired {
		p.paragraph("The slices have expired. What follows is from rollups, which know names alone; \"warpline tenant\" sets how long slices " +
			"are kept.")
	} else {
		p.breakdown()
		p.waits()
	}
	p.names("Top kernels", r.Kernels, r.KernelNS)
	if !r.Expired {
		p.ops()
		p.launches()
		p.steps()
		p.queues()
		p.collectives()
	}
	p.names("On the host", r.Names, 0)
	p.changes()
	if len(r.Skipped) > 0 {
		p.section("Left out", "")
		p.paragraph(fmt.Sprintf("%s, at least of one trace: more than the memory or time that one question may take. Give the "+
			"service more --clickhouse-memory.", strings.Join(r.Skipped, ", ")))
	}
	return p.w.err
}

type tracePrinter struct {
	printer
	r     *Trace
	shown map[string]string // what is printed of a trace, by session
}

// whose is the rank of a trace, or its id where it has none.
func (p *tracePrinter) whose(session string) string {
	if p.shown == nil {
		var ids []string
		p.shown = map[string]string{}
		for _, s := range p.r.Traces {
			ids = append(ids, s.Session)
		}
		short := shortIDs(ids)
		for _, s := range p.r.Traces {
			if p.shown[s.Session] = short[s.Session]; s.Rank >= 0 && p.r.Query.Job != "" {
				p.shown[s.Session] = fmt.Sprintf("rank %d", s.Rank)
			}
		}
	}
	return p.shown[session]
}

// of begins a grid whose rows belong to traces: of one trace nobody needs to see which.
func (p *tracePrinter) of(columns ...column) *grid {
	return &grid{columns: append([]column{{head: "trace"}}, columns...)}
}

func (p *tracePrinter) draw(g *grid) {
	if len(p.r.Traces) == 1 && g.columns[0].head == "trace" {
		g.columns = g.columns[1:]
		for i := range g.rows {
			g.rows[i] = g.rows[i][1:]
		}
	}
	g.write(p.w, p.Width, p.st)
}

func (p *tracePrinter) traces() {
	r, shown := p.r, ""
	if n := uint64(len(r.Traces)); n < r.All && (r.Query.Session != "" || r.Query.Job != "") {
		shown = fmt.Sprintf("the first %d of %s, by rank", n, count(r.All))
	} else if n < r.All {
		shown = fmt.Sprintf("the latest %d of %s", n, count(r.All))
	}
	p.section("Traces", shown)
	g := &grid{columns: []column{{head: "session", stretch: true}, {head: "job", drop: 2}, {head: "rank", right: true, drop: 1},
		{head: "host", drop: 4}, {head: "state", paint: p.state}, {head: "begins (UTC)", drop: 3}}}
	whole := r.Query.Session != "" || r.Query.Job != ""
	if whole {
		g.columns = append(g.columns, column{head: "slices", right: true})
	}
	for _, s := range r.Traces {
		rank, begins := "–", "–"
		if s.Rank >= 0 {
			rank = fmt.Sprint(s.Rank)
			if s.WorldSize > 0 {
				rank += fmt.Sprintf(" of %d", s.WorldSize)
			}
		}
		if s.StartedAt.Unix() > 0 {
			begins = s.StartedAt.UTC().Format("2006-01-02 15:04:05")
		}
		row := []string{s.Session, cut(s.Job, p.Width/4), rank, cut(s.Host, p.Width/5), s.State, begins}
		if whole {
			row = append(row, count(s.Slices))
		}
		g.add(row...)
	}
	g.write(p.w, p.Width, p.st)
	if len(r.Traces) == 1 && whole && r.Query.Job == "" && r.Traces[0].WorldSize > 1 && r.Traces[0].Job != "" {
		p.paragraph(fmt.Sprintf("--job %s compares it with the other ranks.", cut(r.Traces[0].Job, p.Width/2)))
	}
}

// breakdown draws each GPU's time: what is hidden behind computation is not drawn.
func (p *tracePrinter) breakdown() {
	if len(p.r.Breakdown) == 0 {
		p.section("Where the time went", "")
		p.paragraph("No work of GPUs is in this trace: profile with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA].")
		return
	}
	p.section("Where the time went", "█ computation, ▓ communication that it does not hide, ▒ copies alone, ░ idle")
	g := p.of(column{head: "GPU", right: true}, column{head: "span", right: true}, column{head: "busy", right: true},
		column{head: "idle", right: true, drop: 3}, column{head: "compute", right: true, drop: 1},
		column{head: "comm.", right: true, drop: 2}, column{head: "memory", right: true, drop: 4},
		column{head: "overlap", right: true, drop: 5}, column{head: "", stretch: true})
	bars, widest := p.of(column{head: "GPU", right: true}, column{head: "", stretch: true}), 0
	for _, b := range p.r.Breakdown {
		widest = max(widest, cells(p.whose(b.Session)), len("trace"))
	}
	for _, b := range p.r.Breakdown {
		g.add(p.whose(b.Session), fmt.Sprint(b.Device), duration(b.SpanNS), percent(b.BusyNS, b.SpanNS), duration(b.IdleNS),
			duration(b.ComputeNS), duration(b.CommunicationNS), duration(b.MemoryNS), duration(b.OverlapNS), "")
		bars.add(p.whose(b.Session), fmt.Sprint(b.Device), b.bar(max(p.Width-widest-11, 8)))
	}
	p.draw(g)
	p.draw(bars)
}

// bar is width cells in parts of the span; a part above 0 may round to no cell.
func (b TraceBreakdown) bar(width int) string {
	if b.SpanNS == 0 {
		return ""
	}
	exposed := b.CommunicationNS - min(b.OverlapNS, b.CommunicationNS)
	var s strings.Builder
	drawn, upTo := 0, uint64(0)
	for _, part := range []struct {
		cell string
		ns   uint64
	}{{"█", b.ComputeNS}, {"▓", exposed}, {"▒", b.BusyNS - min(b.ComputeNS+exposed, b.BusyNS)}, {"░", b.IdleNS}} {
		upTo += part.ns
		n := min(int(math.Round(float64(width)*float64(upTo)/float64(b.SpanNS))), width) - drawn
		s.WriteString(strings.Repeat(part.cell, max(n, 0)))
		drawn += max(n, 0)
	}
	return s.String()
}

func (p *tracePrinter) waits() {
	if len(p.r.Waits) == 0 {
		return
	}
	p.section("What GPUs waited for", "host: the next work was launched late; kernel: a gap under 30 µs; the longest")
	g := p.of(column{head: "GPU", right: true, drop: 3}, column{head: "stream", right: true}, column{head: "host", right: true},
		column{head: "kernel", right: true, drop: 2}, column{head: "other", right: true, drop: 1}, column{head: "mostly", stretch: true})
	for _, w := range p.r.Waits {
		all := w.HostNS + w.KernelNS + w.OtherNS
		why, most := "host", w.HostNS
		if w.KernelNS > most {
			why, most = "kernel", w.KernelNS
		}
		if w.OtherNS > most {
			why, most = "other", w.OtherNS
		}
		g.add(p.whose(w.Session), fmt.Sprint(w.Device), fmt.Sprint(w.Stream), duration(w.HostNS), duration(w.KernelNS), duration(w.OtherNS),
			fmt.Sprintf("%s %s", why, percent(most, all)))
	}
	p.draw(g)
}

func (p *tracePrinter) names(title string, list []TraceName, whole uint64) {
	if len(list) == 0 {
		return
	}
	note := "all calls of a name; they may lie in each other"
	if whole > 0 {
		note = duration(whole) + " on GPUs in all"
	}
	p.section(title, note)
	g := &grid{columns: []column{{head: "name", stretch: true}, {head: "category", drop: 1}, {head: "calls", right: true},
		{head: "total", right: true}, {head: "share", right: true, drop: 2}, {head: "p50", right: true, drop: 3},
		{head: "p90", right: true, drop: 5}, {head: "p99", right: true, drop: 4}, {head: "max", right: true, drop: 6}}}
	for _, x := range list {
		g.add(Demangled(x.Name), cut(x.Category, p.Width/5), count(x.Calls), duration(x.TotalNS), percent(x.TotalNS, whole), duration(x.P50NS),
			duration(x.P90NS), duration(x.P99NS), duration(x.MaxNS))
	}
	if whole == 0 {
		g.columns = slices.Delete(g.columns, 4, 5)
		for i := range g.rows {
			g.rows[i] = slices.Delete(g.rows[i], 4, 5)
		}
	}
	g.write(p.w, p.Width, p.st)
}

func (p *tracePrinter) ops() {
	if len(p.r.Ops) == 0 {
		return
	}
	p.section("Top ops", "by the time of what was launched in them, and in no op within")
	g := &grid{columns: []column{{head: "op", stretch: true}, {head: "calls", right: true}, {head: "kernels", right: true, drop: 1},
		{head: "copies", right: true, drop: 2}, {head: "on GPUs", right: true}, {head: "a call", right: true, drop: 3}}}
	for _, o := range p.r.Ops {
		g.add(o.Op, count(o.Calls), count(o.Kernels), count(o.Copies), duration(o.GPUNS), duration(o.GPUNS/max(o.Calls, 1)))
	}
	g.write(p.w, p.Width, p.st)
}

func (p *tracePrinter) launches() {
	l := p.r.Launched
	if l.Work == 0 {
		return
	}
	p.section("Launches", fmt.Sprintf("of %s kernels, copies and memsets; the call of %s is known", count(l.Work),
		percent(l.Launched, l.Work)))
	p.launchList("began later than 100 µs after their call", l.Slow, p.r.Slow, "delay", func(x TraceLaunch) uint64 { return x.DelayNS })
	p.launchList("began before their call", l.Inverted, p.r.Inverted, "early by", func(x TraceLaunch) uint64 { return x.EarlyNS })
	if l.Slow == 0 && l.Inverted == 0 {
		p.paragraph("None began later than 100 µs after its call, and none before it.")
	}
	if l.Astray > 0 {
		p.paragraph(fmt.Sprintf("%s by more than a second: their times cannot be right, and they are in no breakdown.", count(l.Astray)))
	}
	if l.Ambiguous > 0 {
		p.paragraph(fmt.Sprintf("%s not told apart: several calls have their correlation, as in traces of several processes that were merged. "+
			"Send each process's own.", count(l.Ambiguous)))
	}
}

func (p *tracePrinter) launchList(what string, all uint64, list []TraceLaunch, head string, ns func(TraceLaunch) uint64) {
	if len(list) == 0 {
		return
	}
	p.paragraph(count(all) + " " + what + ":")
	g := p.of(column{head: "kernel", stretch: true}, column{head: "call", drop: 1}, column{head: head, right: true},
		column{head: "call took", right: true, drop: 3}, column{head: "ran", right: true, drop: 2},
		column{head: "correlation", right: true, drop: 4})
	for _, x := range list {
		g.add(p.whose(x.Session), Demangled(x.Kernel), cut(x.Call, p.Width/4), duration(ns(x)), duration(x.CPUNS), duration(x.GPUNS),
			fmt.Sprint(x.Correlation))
	}
	p.draw(g)
}

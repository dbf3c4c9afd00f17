package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// seriesShown, ranksShown and findingsShown bound what is printed; the rest is in Memory.
const seriesShown, ranksShown, findingsShown = 16, 32, 24

// Print writes the report as text.
func (m *Memory) Print(w io.Writer, s Style) error {
	if s.Width == 0 {
		s.Width = 100
	}
	p := &printer{&errWriter{w: w}, style{s.Colour}, s}
	if len(m.Series) == 0 {
		p.noMemory(m)
		return p.w.err
	}
	p.memoryTimeline(m)
	p.memoryChanges(m)
	p.memoryRanks(m)
	p.memoryPhases(m)
	p.memoryIssues(m)
	p.memoryFindings(m)
	return p.w.err
}

func (p *printer) noMemory(m *Memory) {
	q := m.Query
	if q.Session+q.Tenant+q.Job != "" || !q.Ranks.All() {
		p.section("Nothing matches", "")
		p.paragraph("No memory telemetry is like what was asked for; \"warpline report memory\" alone shows what there is.")
		return
	}
	p.section("No memory telemetry yet", "")
	p.paragraph("Send a tracker's export, an OOM bundle or a track file with \"warpline send FILE\", or post events to /api/v1/telemetry.")
}

// place names a series in as few words as distinguish it from the others.
func (m *Memory) place(s *MemorySeries) (lines [3]string) {
	lines[0] = fmt.Sprintf("rank %d  %s", s.Rank, deviceName(s.Device))
	lines[1] = s.Host
	if s.Job != "" {
		lines[2] = "job " + s.Job
	} else {
		lines[2] = "session " + firstOfUUID(s.Session) // the grid cuts it if it is too long
	}
	return lines
}

func deviceName(id int64) string {
	if id < 0 {
		return "CPU"
	}
	return "GPU " + strconv.FormatInt(id, 10)
}

func (p *printer) memoryTimeline(m *Memory) {
	first, last := m.Series[0].Started, m.Series[0].Ended
	for _, s := range m.Series {
		if s.Started.Before(first) {
			first = s.Started
		}
		if s.Ended.After(last) {
			last = s.Ended
		}
	}
	p.section("Memory over time", fmt.Sprintf("%s to %s UTC; peaks of equal slices, drawn against the device's total",
		first.UTC().Format("Jan 02 15:04:05"), last.UTC().Format("Jan 02 15:04:05")))
	g := &grid{columns: []column{
		{head: "where", stretch: true}, {head: "bytes"}, {head: "over time", paint: p.st.bar}, {head: "now", right: true, drop: 2},
		{head: "peak", right: true},
		{head: "of total", right: true, drop: 1}, {head: "", paint: p.st.bar, drop: 3},
	}}
	width := min(max(p.Width*3/10, 10), memoryPoints)
	unknown, measured, minutes := false, false, false
	for i := range m.Series[:min(len(m.Series), seriesShown)] {
		s := &m.Series[i]
		scale := s.Total
		if scale <= 0 {
			scale = max(s.Allocated.Peak, s.Reserved.Peak, s.Used.Peak)
			unknown = true
		}
		used := "in use"
		if s.Measured {
			used, measured = "in use ¹", true
		}
		minutes = minutes || s.ByMinute
		where := m.place(s)
		for j, c := range []MemoryCurve{s.Allocated, s.Reserved, s.Used} {
			share := "–"
			if s.Total > 0 {
				share = percent(uint64(max(c.Peak, 0)), uint64(s.Total))
			}
			g.add(where[j], []string{"allocated", "reserved", used}[j], spark(peaks(c.Values, width), 0, float64(scale)), signedSize(c.Last),
				signedSize(c.Peak), share, bar(uint64(max(c.Peak, 0)), uint64(max(scale, 0)), p.barWidth()))
		}
	}
	g.write(p.w, p.Width, p.st)
	if measured {
		p.paragraph("¹ as GPU Flight measured the device: the tracker only repeats what the allocator reserved")
	}
	if unknown {
		p.paragraph("Where the device's total is not known, lines are drawn against their own peak.")
	}
	if minutes {
		p.paragraph("The samples are no longer kept: these are peaks of minutes.")
	}
	if more := m.More + uint64(max(len(m.Series)-seriesShown, 0)); more > 0 {
		p.paragraph(fmt.Sprintf("and %s more; --rank, --job and --session pick some", plural(more, "line")))
	}
}

// peaks makes at most n of the values by taking the largest of neighbours.
func peaks(values []int64, n int) []float64 {
	n = max(min(n, len(values)), 1)
	out := make([]float64, n)
	for i, v := range values {
		at := i * n / len(values)
		out[at] = max(out[at], float64(v))
	}
	return out
}

func signedSize(n int64) string {
	if n < 0 {
		return "-" + bytesize(uint64(-(n+1))+1)
	}
	return bytesize(uint64(n))
}

func (p *printer) memoryChanges(m *Memory) {
	g := &grid{columns: []column{
		{head: "where", stretch: true}, {head: "allocations", right: true}, {head: "bytes", right: true, drop: 2},
		{head: "per second", right: true}, {head: "frees", right: true, drop: 3},
		{head: "bytes", right: true, drop: 4}, {head: "per second", right: true, drop: 1},
	}}
	for i := range m.Series[:min(len(m.Series), seriesShown)] {
		s := &m.Series[i]
		if s.Allocs.Count+s.Deallocs.Count == 0 {
			continue
		}
		perSecond := func(f Flow) string { return bytesize(uint64(f.BytesPerSecond)) + "/s" }
		g.add(m.place(s)[0]+"  "+m.place(s)[1], count(s.Allocs.Count), signedSize(s.Allocs.Bytes), perSecond(s.Allocs), count(s.Deallocs.Count),
			signedSize(s.Deallocs.Bytes), perSecond(s.Deallocs))
	}
	if len(g.rows) > 0 {
		p.section("Changes", "each once, as the trackers count them")
		g.write(p.w, p.Width, p.st)
	}
}

func (p *printer) memoryRanks(m *Memory) {
	runs := map[string]int{}
	for _, r := range m.Ranks {
		runs[r.Run]++
	}
	g := &grid{columns: []column{
		{head: "run", stretch: true}, {head: "rank", right: true}, {head: "samples", right: true, drop: 4},
		{head: "allocated", right: true, drop: 2}, {head: "reserved", right: true, drop: 3},
		{head: "gap", right: true}, {head: "largest", right: true, drop: 1}, {head: "first odd", paint: p.st.bad, drop: 5},
	}}
	names := make([]string, len(m.Ranks))
	for i, r := range m.Ranks {
		names[i] = r.Run
	}
	short, present, left := shortIDs(names), 0, 0
	for _, r := range m.Ranks {
		if runs[r.Run] < 2 || r.Missing {
			continue
		}
		if present++; present > ranksShown {
			left++
			continue
		}
		odd := "–"
		if r.Anomalies > 0 {
			odd = r.FirstOdd
		}
		g.add(short[r.Run], strconv.FormatInt(r.Rank, 10), count(r.Samples), known(change, r.AllocatedDelta), known(change, r.ReservedDelta),
			known(signedSize, r.Gap), known(signedSize, r.MaxGap), odd)
	}
	if len(g.rows) == 0 {
		return
	}
	p.section("Ranks", "change from first to last, and what the device holds beyond what is reserved")
	g.write(p.w, p.Width, p.st)
	if left > 0 {
		p.paragraph(fmt.Sprintf("and %s more; --rank picks some", plural(uint64(left), "rank")))
	}
}

func change(n int64) string {
	if n > 0 {
		return "+" + signedSize(n)
	}
	return signedSize(n)
}

func (p *printer) memoryFindings(m *Memory) {
	if len(m.Findings) == 0 {
		p.section("Findings", "none")
		return
	}
	p.section("Findings", plural(uint64(len(m.Findings)), "finding")+", worst first")
	indent := strings.Repeat(" ", 12)
	if p.Width < 60 {
		indent = "    "
	}
	for _, f := range m.Findings[:min(len(m.Findings), findingsShown)] {
		mark := map[string]func(string) string{"critical": p.st.bad, "warning": p.st.bad}[f.Severity]
		if mark == nil {
			mark = p.st.dim
		}
		head := fmt.Sprintf("%-8s  ", f.Severity)
		fmt.Fprintf(p.w, "  %s%s\n", mark(head), fitting(p.Width-2-len(head), f.words()...))
		p.wrapped(indent, f.Text, p.st.dim)
	}
	if more := len(m.Findings) - findingsShown; more > 0 {
		p.paragraph(fmt.Sprintf("and %d more; --json has them all", more))
	}
}

// words says what a finding is about, the most important first.
func (f *MemoryFinding) words() []string {
	w := []string{f.Kind}
	if f.Rank >= 0 {
		w = append(w, fmt.Sprintf("rank %d %s", f.Rank, deviceName(f.Device)))
		if f.Times > 1 {
			w = append(w, count(f.Times)+" times")
		}
	}
	if f.Session != "" && f.Run == f.Session {
		w = append(w, "session "+short(f.Session))
	} else {
		w = append(w, "job "+short(f.Run))
	}
	if f.At.Unix() > 0 {
		w = append(w, f.At.UTC().Format("Jan 02 15:04:05"))
	}
	return w
}

// fitting joins as many words as width has room for, at least the first.
func fitting(width int, words ...string) string {
	s := cut(words[0], max(width, 1))
	for _, w := range words[1:] {
		if cells(s)+2+cells(w) > width {
			break
		}
		s += "  " + Printable(w)
	}
	return s
}

// known prints what is known, and a dash for what is not.
func known(print func(int64) string, v *int64) string {
	if v == nil {
		return "–"
	}
	return print(*v)
}

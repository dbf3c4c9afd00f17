package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// Figure is one row of the table of figures. Floor and Goal are 0 if it has none.
type Figure struct {
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"` // rows/s, B, s, ms, x
	Floor    float64 `json:"floor,omitempty"`
	Goal     float64 `json:"goal,omitempty"`
	LessGood bool    `json:"less_is_better,omitempty"`
}

// Verdict says what the figure reached: "goal", "floor", "below", or "" if it has neither.
func (f Figure) Verdict() string {
	reached := func(limit float64) bool { return f.Value >= limit != f.LessGood || f.Value == limit }
	switch {
	case f.Floor == 0:
		return ""
	case reached(f.Goal):
		return "goal"
	case reached(f.Floor):
		return "floor"
	}
	return "below"
}

const mb, kb = 1e6, 1e3

// shortSession is the kernels of a session below which sessions cost more than their rows.
const shortSession = 2000

// figures returns the rows that this run has measured. Floors and goals are for two shared cores with everything on them.
func (r *Result) figures() []Figure {
	f := []Figure{}
	add := func(name string, value float64, unit string, floor, goal float64, less bool) {
		f = append(f, Figure{name, value, unit, floor, goal, less})
	}
	short := r.Sessions > 0 && r.Counts.Kernels/int64(r.Sessions) < shortSession
	switch {
	case r.Workload == Columnar && short:
		add("columnar kernel rows in short sessions, end to end", r.KernelsPerSecond, "rows/s", 4e6/14.0, 4e6/6.0, false)
		if l := r.Load; l != nil && r.Counts.Windows > 0 {
			add("CPU for each window", 1e3*(l.RolesCPU+l.EngineCPU).Seconds()/float64(r.Counts.Windows), "ms", 0.8, 0.3, true)
		}
	case r.Workload == Columnar:
		add("columnar kernel rows, end to end", r.KernelsPerSecond, "rows/s", 1.65e6, 2e6, false)
	case r.Workload == Full && short:
		add("kernels of today's client in short sessions, end to end", r.KernelsPerSecond, "rows/s", 0, 0, false)
	case r.Workload == Full:
		add("kernels of today's client (row + detail), end to end", r.KernelsPerSecond, "rows/s", 750e3, 1e6, false)
	case r.Workload == Mixed:
		add("kernels of today's client with all else, end to end", r.KernelsPerSecond, "rows/s", 0, 0, false)
		add("events (rows and single lines), end to end", r.EventsPerSecond, "rows/s", 0, 0, false)
	}
	if l := r.Latency; l != nil {
		add(fmt.Sprintf("accepted to visible in SQL, p50 at %s rows/s", rate(l.Rate)), l.Visible50.Seconds(), "s", 0, 0, true)
		floor, goal := 0.0, 0.0
		if l.Rate <= 0.55*r.KernelsPerSecond {
			floor, goal = 3, 1
		}
		add(fmt.Sprintf("accepted to visible in SQL, p99 at %s rows/s", rate(l.Rate)), l.Visible99.Seconds(), "s", floor, goal, true)
	}
	if s := r.Rest; s != nil {
		if r.Workload == Hour {
			add("the reference hour at rest, all tables", float64(s.Total), "B", 1.1*mb, 0.8*mb, true)
			if s.Coarse >= 0 {
				add("the same without raw rows, minutes merged to hours", float64(s.Coarse), "B", 80*kb, 60*kb, true)
			}
		} else if s.KernelRows > 0 {
			add("bytes at rest per kernel row (kernels_data)", float64(s.KernelBytes)/float64(s.KernelRows), "B", 6.6, 5.5, true)
		}
	}
	if r.IdleBytes > 0 {
		add("memory of up, idle (engine included)", float64(r.IdleBytes), "B", 350*mb, 300*mb, true)
	}
	if r.Load != nil && r.Workload != Hour {
		add("memory of up, peak at full load (engine included)", float64(r.Load.PeakBytes), "B", 1300*mb, 1000*mb, true)
	}
	if r.Ready > 0 {
		add("up ready, library cached, empty folder", r.Ready.Seconds(), "s", 3, 1, true)
	}
	return f
}

// Print writes the table of figures and what belongs to it.
func (r *Result) Print(w io.Writer) error {
	var b strings.Builder
	c := r.Counts
	memory := "memory not known"
	if r.Machine.MemoryBytes > 0 {
		memory = humanize.IBytes(uint64(r.Machine.MemoryBytes)) + " memory"
	}
	durability := ""
	if r.Durability != "" {
		durability = ", durability " + r.Durability
	}
	fmt.Fprintf(&b, "warpline bench: %s%s, seed %d, on %s/%s, %d cores, %s\n", r.Workload, durability,
		r.Seed, r.Machine.OS, r.Machine.Arch, r.Machine.Cores, memory)
	fmt.Fprintf(&b, "sent      %s kernels, %s events in %d sessions: %s raw, %s gzip, %d windows\n",
		humanize.Comma(c.Kernels), humanize.Comma(c.Events), r.Sessions,
		size(float64(c.RawBytes)), size(float64(c.GzBytes)), c.Windows)
	fmt.Fprintf(&b, "took      %s until acknowledged, %s until SQL counted all of it (%s/s raw, %d retries)\n", seconds(r.Posted),
		seconds(r.Visible), size(r.RawPerSecond), r.Retries)
	if l := r.Load; l != nil {
		fmt.Fprintf(&b, "cpu       roles %s, engine %s (%.2f cores of %d); bench itself not counted\n", seconds(l.RolesCPU), seconds(l.EngineCPU),
			(l.RolesCPU+l.EngineCPU).Seconds()/r.Visible.Seconds(), r.Machine.Cores)
		fmt.Fprintf(&b, "memory    %s", l.memory())
		if r.IdleBytes > 0 {
			fmt.Fprintf(&b, "; idle: %s, %s of it", size(float64(r.IdleBytes)), size(float64(r.IdleFiles)))
		}
		b.WriteByte('\n')
	} else {
		fmt.Fprintf(&b, "memory    n/a: measured for the bench's own service on Linux\n")
	}
	if l := r.Latency; l != nil {
		fmt.Fprintf(&b, "latency   at %s rows/s (asked %s), %d windows: answer to visible p50 %s p99 %s max %s; post to visible p50 %s p99 "+
			"%s\n", rate(l.Reached), rate(l.Rate), l.Windows,
			seconds(l.Visible50), seconds(l.Visible99), seconds(l.VisibleMax), seconds(l.Whole50), seconds(l.Whole99))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tMEASURED\tFLOOR\tGOAL\tVERDICT")
	for _, f := range r.Figures {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.show(f.Value), f.show(f.Floor), f.show(f.Goal), f.Verdict())
	}
	t.Flush()
	if r.Rest != nil && r.Workload == Hour {
		r.Rest.print(&b)
	}
	for _, s := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s", s)
	}
	if len(r.Wrong) > 0 {
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// print lists tables, and the columns that weigh most in each.
func (s *Rest) print(b *strings.Builder) {
	for _, l := range []struct {
		title string
		list  []TableSize
	}{{"AT REST", s.Tables}, {"AT REST WITHOUT RAW ROWS, HOURS", s.CoarseTables}} {
		if len(l.list) == 0 {
			continue
		}
		b.WriteByte('\n')
		t := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
		fmt.Fprintf(t, "%s\tROWS\tBYTES\tCOLUMNS, each in a file of its own\n", l.title)
		for _, x := range l.list {
			fmt.Fprintf(t, "%s\t%d\t%d\t", x.Name, x.Rows, x.Bytes)
			for i, c := range x.Columns {
				if i == 8 {
					fmt.Fprintf(t, "and %d more", len(x.Columns)-i)
					break
				}
				fmt.Fprintf(t, "%s %d  ", c.Name, c.Bytes)
			}
			fmt.Fprintln(t)
		}
		t.Flush()
	}
}

func (f Figure) show(v float64) string {
	switch {
	case v == 0:
		return "-"
	case f.Unit == "B":
		return size(v)
	case f.Unit == "x":
		return fmt.Sprintf("%.2fx", v)
	case f.Unit == "ms":
		return fmt.Sprintf("%.2f ms", v)
	case f.Unit == "s":
		return fmt.Sprintf("%.2f s", v)
	}
	return rate(v) + "/s"
}

// size is bytes in decimal units with enough digits to compare with a floor.
func size(v float64) string {
	switch {
	case v < 1e3:
		return fmt.Sprintf("%.2f B", v)
	case v < mb:
		return fmt.Sprintf("%.0f kB", v/kb)
	case v < 1e9:
		return fmt.Sprintf("%.2f MB", v/mb)
	}
	return fmt.Sprintf("%.2f GB", v/1e9)
}

func rate(v float64) string {
	if v >= 1e6 {
		return fmt.Sprintf("%.2f M", v/1e6)
	}
	return fmt.Sprintf("%.0f k", v/1e3)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.2f s", d.Seconds()) }

package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Print writes the table of figures and what belongs to it.
func (r *PCResult) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "warpline bench: pc, seed %d, on %s/%s, %d cores\n", r.Seed, r.Machine.OS, r.Machine.Arch, r.Machine.Cores)
	fmt.Fprintf(&b, "sent      %s pairs of %d agents in %s batches of %d: %s, %.1f B a pair\n", humanize.Comma(r.Pairs), r.Nodes,
		humanize.Comma(int64(r.Batches)), r.BatchRows, size(float64(r.Bytes)), float64(r.Bytes)/float64(max(1, r.Pairs)))
	fmt.Fprintf(&b, "took      %s until acknowledged, %s until SQL counted all of it (%d resends)\n", seconds(r.Posted), seconds(r.Visible),
		r.Tries-int64(r.Batches))
	if l := r.Load; l != nil {
		fmt.Fprintf(&b, "cpu       roles %s, engine %s (%.2f cores of %d); bench itself not counted\n", seconds(l.RolesCPU), seconds(l.EngineCPU),
			(l.RolesCPU+l.EngineCPU).Seconds()/r.Visible.Seconds(), r.Machine.Cores)
		fmt.Fprintf(&b, "memory    %s\n", l.memory())
	}
	if r.Seen > 0 {
		fmt.Fprintf(&b, "latency   of %d batches: answer to visible p50 %s p99 %s max %s\n", r.Seen, seconds(r.Visible50), seconds(r.Visible99),
			seconds(r.VisibleMx))
	}
	if r.Buckets > 0 {
		fmt.Fprintf(&b, "at rest   %s buckets (%.2f pairs each)", humanize.Comma(r.Buckets), float64(r.Pairs)/float64(r.Buckets))
		for i, t := range r.Tables {
			if i < 4 {
				fmt.Fprintf(&b, ", %s %s", t.Name, size(float64(t.Bytes)))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tMEASURED\tFLOOR\tGOAL\tVERDICT")
	for _, f := range r.Figures() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.show(f.Value), f.show(f.Floor), f.show(f.Goal), f.Verdict())
	}
	t.Flush()
	for _, s := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

package bench

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// answerFloor is how long a trace of 1 GiB may take until its answer, in s: GPU Flight's client waits so long.
const answerFloor = 60

// Figures are the rows of the table. Floors and goals are for two shared cores with everything on them.
func (r *TraceResult) Figures() []Figure {
	last := slices.Max(r.Answers).Seconds()
	f := []Figure{
		{"events, sent until SQL counts them", float64(r.Counts.Events) / r.Visible.Seconds(), "rows/s", 150e3, 400e3, false},
		{"until the last trace is answered", last, "s", 0, 0, true},
		{"the same, for each GiB of JSON", last / float64(r.RawBytes) * (1 << 30), "s", answerFloor, answerFloor, true},
	}
	if r.Rest > 0 {
		f = append(f, Figure{"bytes at rest, all tables, for each byte of .json.gz", float64(r.Rest) / float64(r.GzBytes), "x", 2, 1, true})
	}
	if l := r.GatewayLoad; l != nil {
		f = append(f, Figure{"memory of the gateway over idle, peak", float64(max(0, l.RolesPeakBytes-r.GatewayIdle)), "B", 64 << 20, 64 << 20,
			true})
	}
	if l := r.Beside; l != nil {
		f = append(f, Figure{fmt.Sprintf("GPU Flight in the same partition: accepted to visible, p99 at %s rows/s", rate(l.Rate)),
			l.Visible99.Seconds(), "s", 3, 1, true})
	}
	return f
}

// Print writes the table of figures and what belongs to it.
func (r *TraceResult) Print(w io.Writer) error {
	var b strings.Builder
	c := &r.Counts
	fmt.Fprintf(&b, "warpline bench: trace, seed %d, on %s/%s, %d cores\n", r.Seed, r.Machine.OS, r.Machine.Arch, r.Machine.Cores)
	fmt.Fprintf(&b, "sent      %s events (%s slices, %s ends of arrows) in %d traces: %s of JSON, %s as .json.gz\n", humanize.Comma(c.Events),
		humanize.Comma(c.Slices), humanize.Comma(c.Flows), r.Sessions, size(float64(r.RawBytes)), size(float64(r.GzBytes)))
	fmt.Fprintf(&b, "took      %s until answered, %s until SQL counted all of it (%d retries)\n", seconds(r.Posted), seconds(r.Visible),
		r.Retries)
	if l := r.Load; l != nil {
		fmt.Fprintf(&b, "cpu       roles %s, engine %s", seconds(l.RolesCPU), seconds(l.EngineCPU))
		if g := r.GatewayLoad; g != nil {
			fmt.Fprintf(&b, ", the traces' gateway %s", seconds(g.RolesCPU))
		}
		fmt.Fprintf(&b, "; bench itself not counted\nmemory    peak: roles %s, engine %s", size(float64(l.RolesPeakBytes)),
			size(float64(l.EnginePeakBytes)))
		if g := r.GatewayLoad; g != nil {
			fmt.Fprintf(&b, ", the traces' gateway %s (idle %s)", size(float64(g.RolesPeakBytes)), size(float64(r.GatewayIdle)))
		}
		b.WriteByte('\n')
	}
	if l := r.Beside; l != nil {
		fmt.Fprintf(&b, "beside    %d windows of GPU Flight: answer to visible p50 %s p99 %s max %s\n", l.Windows, seconds(l.Visible50),
			seconds(l.Visible99), seconds(l.VisibleMax))
	}
	b.WriteByte('\n')
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FIGURE\tMEASURED\tFLOOR\tGOAL\tVERDICT")
	for _, f := range r.Figures() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", f.Name, f.show(f.Value), f.show(f.Floor), f.show(f.Goal), f.Verdict())
	}
	if len(r.Tables) > 0 {
		fmt.Fprintln(t, "\nAT REST\tROWS\tBYTES")
		for _, x := range r.Tables[:min(len(r.Tables), 8)] {
			fmt.Fprintf(t, "%s\t%s\t%s\n", x.Name, humanize.Comma(x.Rows), size(float64(x.Bytes)))
		}
	}
	t.Flush()
	for _, s := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s\n", s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

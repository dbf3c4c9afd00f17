package bench

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Print writes one line a question.
func (r *Reading) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "warpline bench --read: %s, %s kernels, %s events in %s sessions, %s kernels in the one asked for; on %s/%s, %d cores\n\n",
		r.Workload, humanize.Comma(r.Counts.Kernels), humanize.Comma(r.Counts.Events), humanize.Comma(int64(r.Sessions)),
		humanize.Comma(r.First.Kernels), r.Machine.OS, r.Machine.Arch, r.Machine.Cores)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "QUESTION\tALL p50\tp99\tROWS READ\tONE SESSION p50\tp99\tROWS READ\tALONE p50\tROWS READ\tROWS, OF ALONE")
	for _, a := range r.Answers {
		all, one, alone := a.All.cells(), a.One.cells(), a.Alone.cells()
		ratio := "-"
		if a.One != nil && a.Alone != nil && a.Alone.Rows > 0 && a.One.Error == "" {
			ratio = fmt.Sprintf("%.2fx", float64(a.One.Rows)/float64(a.Alone.Rows))
		}
		fmt.Fprintf(t, "%.60s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Question, all[0], all[1], all[2], one[0], one[1], one[2], alone[0],
			alone[2], ratio)
	}
	t.Flush()
	for _, a := range r.Answers {
		for _, x := range []*Took{a.All, a.One, a.Alone} {
			if x != nil && x.Error != "" {
				fmt.Fprintf(&b, "\nFAILED  %s: %s\n", a.Question, x.Error)
			}
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// cells are p50, p99 and the rows that were read.
func (t *Took) cells() [3]string {
	switch {
	case t == nil:
		return [3]string{"-", "-", "-"}
	case t.Error != "":
		return [3]string{"failed", "-", "-"}
	case t.Rows == 0:
		return [3]string{seconds(t.P50), seconds(t.P99), "-"}
	}
	return [3]string{seconds(t.P50), seconds(t.P99), humanize.Comma(t.Rows)}
}

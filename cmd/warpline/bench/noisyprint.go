package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// Print writes one line a neighbour: the quiet tenant's 99th percentiles, and how many times those of it alone.
func (r *NoisyResult) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "warpline bench: noisy, seed %d, on %s/%s, %d cores: a quiet tenant of %s kernels/s beside each neighbour\n\n", r.Seed,
		r.Machine.OS, r.Machine.Arch, r.Machine.Cores, humanize.Comma(quietRate))
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NEIGHBOUR\tACCEPTED p50\tp99\t\tVISIBLE p50\tp99\t\tREFUSED\tNEIGHBOUR SENT\tITS ANSWERS")
	for i := range r.Neighbours {
		n, alone := &r.Neighbours[i], &r.Neighbours[0]
		sent := "-"
		if n.RawSent > 0 {
			sent = humanize.Bytes(uint64(n.RawSent))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", n.Neighbour, millis(n.Quiet.Accepted50), millis(n.Quiet.Accepted99),
			times(n.Quiet.Accepted99, alone.Quiet.Accepted99), millis(n.Quiet.Visible50), millis(n.Quiet.Visible99),
			times(n.Quiet.Visible99, alone.Quiet.Visible99), statuses(n.Refused), sent, statuses(n.Answers))
	}
	t.Flush()
	for i := range r.Neighbours {
		if n := &r.Neighbours[i]; n.Did != "" {
			fmt.Fprintf(&b, "\n%s: %s", n.Neighbour, n.Did)
		}
	}
	fmt.Fprintf(&b, "\nAfter each neighbour the quiet tenant's rows were counted and the books of all tenants audited: %s\n", verdict(r.Wrong))
	for _, text := range r.Wrong {
		fmt.Fprintf(&b, "\nWRONG  %s\n", text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(wrong []string) string {
	if len(wrong) == 0 {
		return "exact"
	}
	return "see below"
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%d ms", d.Round(time.Millisecond).Milliseconds())
}

func times(d, alone time.Duration) string {
	if alone <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.1fx", float64(d)/float64(alone))
}

// statuses are answers by status, "-" for none.
func statuses(answers map[int]int) string {
	var out []string
	for _, status := range slices.Sorted(maps.Keys(answers)) {
		name := fmt.Sprint(status)
		if status == 0 {
			name = "none"
		}
		out = append(out, name+": "+humanize.Comma(int64(answers[status])))
	}
	if out == nil {
		return "-"
	}
	return strings.Join(out, ", ")
}

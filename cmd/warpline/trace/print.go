package trace

import (
	"bufio"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// print writes what was found for people: what is wrong, how often, examples, and what to do.
func (f *Found) print(out io.Writer) error {
	w := bufio.NewWriter(out)
	n := func(n uint64) string { return humanize.Comma(int64(n)) }
	fmt.Fprintf(w, "%s: %s events, %s slices, %s arrows", f.File, n(f.Events), n(f.Slices), n(f.Arrows))
	if f.Lone > 0 {
		fmt.Fprintf(w, "; %s ends without a start, which is normal", n(f.Lone))
	}
	fmt.Fprint(w, "\n\n")
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "ARROWS\tRIGHT\tON ANOTHER SLICE\tBACKWARDS\tLOST\t")
	for _, v := range []struct {
		name string
		of   *Viewer
	}{{"Perfetto", &f.Perfetto}, {"chrome://tracing", &f.Chrome}} {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", v.name, n(v.of.Right), n(v.of.Wrong), n(v.of.Turned), n(v.of.Lost))
	}
	t.Flush()
	for _, v := range []struct {
		name string
		of   *Viewer
	}{{"Perfetto", &f.Perfetto}, {"chrome://tracing", &f.Chrome}} {
		if len(v.of.Examples) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", v.name)
		for _, e := range v.of.Examples {
			fmt.Fprintf(w, "  %-6s  %s  at %d.%03d us\n", e.Fault, e.Meant, e.AtNS/1000, max(e.AtNS%1000, 0))
			if e.Drawn != "" {
				fmt.Fprintf(w, "          is drawn %s\n", e.Drawn)
			}
		}
	}
	fmt.Fprintln(w)
	if f.Refused != nil {
		fmt.Fprintf(w, "Perfetto stops at byte %s: %s\n", humanize.Comma(*f.Refused), f.Why)
	}
	if f.TornAt != nil {
		fmt.Fprintf(w, "nothing is read behind byte %s: %s\n", humanize.Comma(*f.TornAt), f.Torn)
	}
	for _, x := range []struct {
		n    uint64
		text string
	}{
		{f.Unknown, "arrows have an end that stands for no slice"},
		{f.Spilled, "slices overlap the one before them on their thread in part: Perfetto draws them on another row, and arrows miss them"},
		{f.Inexact, "events have times that Perfetto moves, since it reads them as doubles"},
		{f.Skipped, "events have no time, phase or duration, and are not drawn"},
		{f.Mended, "events are no JSON (warpline trace fix mends them)"},
		{f.Broken, "elements are no events, and are not drawn"},
	} {
		if x.n > 0 {
			fmt.Fprintf(w, "%s %s\n", n(x.n), x.text)
		}
	}
	if !f.Bad() {
		fmt.Fprintln(w, "all is drawn as it was meant")
	}
	return w.Flush()
}

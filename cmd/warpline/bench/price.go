package bench

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// PrintPrice writes what the second result cost more than the first: the same workload, measured with durability "os" and "fsync" on the
// same machine, one after the other.
func PrintPrice(w io.Writer, os, fsync *Result) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "PRICE OF FSYNC, %s\tOS\tFSYNC\tDIFFERENCE\n", os.Workload)
	row := func(name string, a, b float64, show func(float64) string) {
		change := "n/a"
		if a > 0 {
			change = fmt.Sprintf("%+.0f %%", 100*(b/a-1))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", name, show(a), show(b), change)
	}
	took := func(v float64) string { return seconds(time.Duration(v)) }
	row("kernels, end to end", os.KernelsPerSecond, fsync.KernelsPerSecond, func(v float64) string { return rate(v) + " rows/s" })
	row("until all was acknowledged", float64(os.Posted), float64(fsync.Posted), took)
	row("until SQL counted all of it", float64(os.Visible), float64(fsync.Visible), took)
	if os.Load != nil && fsync.Load != nil {
		row("CPU, roles and engine", float64(os.Load.RolesCPU+os.Load.EngineCPU), float64(fsync.Load.RolesCPU+fsync.Load.EngineCPU), took)
	}
	if os.Latency != nil && fsync.Latency != nil {
		row("accepted to visible in SQL, p50", float64(os.Latency.Visible50), float64(fsync.Latency.Visible50), took)
		row("accepted to visible in SQL, p99", float64(os.Latency.Visible99), float64(fsync.Latency.Visible99), took)
	}
	return t.Flush()
}

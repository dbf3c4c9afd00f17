package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
)

// duration writes nanoseconds with three digits that matter and the unit that fits: 950 ns, 42.1 µs, 3.20 ms, 1.50 s, 12.3 min.
func duration(ns uint64) string {
	f := float64(ns)
	switch {
	case ns < 1000:
		return strconv.FormatUint(ns, 10) + " ns"
	case f < 999.5e3:
		return digits(f/1e3) + " µs"
	case f < 999.5e6:
		return digits(f/1e6) + " ms"
	case f < 120e9:
		return digits(f/1e9) + " s"
	case f < 120*60e9:
		return digits(f/60e9) + " min"
	}
	return digits(f/3600e9) + " h"
}

// digits writes f with three digits that matter, at most two of them after the point.
func digits(f float64) string {
	switch {
	case f >= 99.95:
		return strconv.FormatFloat(f, 'f', 0, 64)
	case f >= 9.995:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

func bytesize(n uint64) string { return humanize.IBytes(n) }

func count(n uint64) string { return humanize.Comma(int64(min(n, 1<<62))) }

// rate writes bytes moved in a time as GB/s, the unit of data sheets.
func rate(bytes, ns uint64) string {
	if ns == 0 {
		return "–"
	}
	return digits(float64(bytes)/float64(ns)) + " GB/s"
}

func percent(part, whole uint64) string {
	if whole == 0 {
		return "–"
	}
	f := 100 * float64(part) / float64(whole)
	if f >= 99.95 || f == 0 {
		return fmt.Sprintf("%.0f %%", f)
	}
	return fmt.Sprintf("%.1f %%", f)
}

// stallName is the part of a stall reason's wire name that distinguishes it from others.
func stallName(wire string) string {
	s := strings.TrimPrefix(wire, "smsp__pcsamp_")
	s = strings.TrimPrefix(s, "warps_issue_")
	return strings.TrimPrefix(s, "stalled_")
}

// plural is "1 kernel" or "2 kernels".
func plural(n uint64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

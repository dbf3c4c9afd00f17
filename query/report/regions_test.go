package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/query/report"
)

// The report fits its width, says what to do about losses, and lets no escape sequence of a client through.
func TestRegionsPrint(t *testing.T) {
	blocks := make([]float64, 64)
	for i := range blocks {
		blocks[i] = float64(100 + i)
	}
	r := &report.Regions{
		Query: report.RegionsQuery{Session: "now", Against: "base"}, All: 12,
		Captures: []report.RegionCapture{{Session: "ikp:" + strings.Repeat("long", 20), Kernel: "gemm\x1b[31m", Recorded: 2000, Lost: 1500,
			PerWarpCap: 64, EnoughCap: 256, UnmatchedEnd: 3}},
		Regions: []report.Region{{Kernel: "gemm", Name: "load\x1b[31m", Count: 12345, TotalNS: 1e9, Share: 0.75, MinNS: 32, P50NS: 64, P90NS: 96,
			P99NS: 128, MaxNS: 4096, Imbalance: 1.25, Blocks: blocks}, {Kernel: "gemm", Name: strings.Repeat("name", 30), Blocks: []float64{1}}},
		Late:    []report.LateWarp{{Session: "ikp:now", Block: 7, Warp: 3, SM: 131, EndsNS: 257056, Region: "store"}},
		Changed: []report.RegionChange{{Kernel: "gemm", Name: "load", MeanNS: 120, BaseMeanNS: 100, Spreads: 2.5}, {Name: "new", MeanNS: 5}},
	}
	for _, width := range []int{40, 60, 120} {
		var out bytes.Buffer
		if err := r.Print(&out, report.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("a line of %d cells is wider than %d: %s", n, width, line)
			}
		}
		words := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range []string{"per_warp_cap 256 in place of 64", "+20.0 %", "the latest 1 of 12", "▁", "█"} {
			if !strings.Contains(words, want) {
				t.Errorf("at %d cells it does not say %q:\n%s", width, want, out.String())
			}
		}
		if strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("an escape sequence got through:\n%q", out.String())
		}
	}
	var out bytes.Buffer
	if err := (&report.Regions{}).Print(&out, report.Style{}); err != nil || !strings.Contains(out.String(), "/api/v1/intrakernel") {
		t.Errorf("%v\n%s", err, out.String())
	}
}

package report_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// Strips have the blocks of their kernel, however large the grid of another one is; what changed is in standard deviations of the base; and
// a base that is not there is known.
func TestRegionsAreWhatTheDatabaseHolds(t *testing.T) {
	s := tabletest.New(t, true)
	// Two blocks of gemm, 128 of scan of which the last is late; gemm again, slower.
	for _, rows := range []string{
		`regions_data (tenant, session_id, kernel, region, name, block, warp, sm, started_at, duration_ns, received_at, retention_days)
			SELECT 'acme', session, kernel, 1, 'load', number, 0, 0, toDateTime64(0, 9, 'UTC'), ns, now64(9), 400
			FROM (SELECT 'ikp:one' AS session, 'gemm' AS kernel, number, 100 + 20 * number AS ns FROM numbers(2) UNION ALL
				SELECT 'ikp:two', 'gemm', number, 120 + 20 * number FROM numbers(2) UNION ALL
				SELECT 'ikp:one', 'scan', number, if(number = 127, 500, 50) FROM numbers(128))`,
		`region_trends_data (tenant, session_id, kernel, region, name, started_at, slices, total_ns, min_ns, max_ns, received_day,
			retention_days) SELECT tenant, session_id, kernel, region, any(name), min(started_at), count(), sum(duration_ns), min(duration_ns),
			max(duration_ns), today(), 400 FROM {db}.regions_data GROUP BY tenant, session_id, kernel, region`,
		`region_blocks_data (tenant, session_id, kernel, region, block, slices, total_ns, received_day, retention_days)
			SELECT tenant, session_id, kernel, region, block, count(), sum(duration_ns), today(), 400 FROM {db}.regions_data
			GROUP BY tenant, session_id, kernel, region, block`,
		`region_captures_data (tenant, session_id, kernel, scale, blocks, received_day, retention_days)
			SELECT DISTINCT tenant, session_id, 'gemm', 1, 2, today(), 400 FROM {db}.regions_data`,
	} {
		s.Exec("INSERT INTO {db}." + rows)
	}
	read := func(q report.RegionsQuery) *report.Regions {
		t.Helper()
		q.Database = s.Opts.Database
		r, err := report.ReadRegions(t.Context(), s.Conn, q)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	strips := map[string]string{}
	for _, x := range read(report.RegionsQuery{}).Regions {
		strips[x.Kernel] = fmt.Sprint(len(x.Blocks), x.Blocks[0], x.Blocks[len(x.Blocks)-1])
	}
	if got, want := fmt.Sprint(strips), "map[gemm:2 110 130 scan:64 50 275]"; got != want {
		t.Errorf("strips: %s, want %s", got, want)
	}
	r := read(report.RegionsQuery{Session: "two", Against: "one"})
	if got := fmt.Sprintf("%d %+v", r.Base, r.Changed); got != "1 [{Kernel:gemm Name:load MeanNS:130 BaseMeanNS:110 Spreads:2}]" {
		t.Error(got)
	}
	for _, q := range []report.RegionsQuery{{Session: "two", Against: "three"}, {Session: "one", Kernel: "scan", Against: "two"}} {
		if r := read(q); r.Base != 0 || len(r.Changed) != 0 || len(r.Captures) != 1 {
			t.Errorf("%+v: %d to compare with, %v", q, r.Base, r.Changed)
		}
	}
}

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

package report_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/query/report"
)

// A report on very many sessions lists the latest, counts the others, and looks for insights in those that began last.
func TestVeryManySessions(t *testing.T) {
	conn, database := filled(t)
	for _, sql := range []string{
		`INSERT INTO sessions_data (tenant, session_id, source, started_at, kernels, last_received_at) SELECT 'acme', concat('run-', ` +
			`leftPad(toString(number), 5, '0')), 'gpu-flight', toDateTime64('2026-11-21 00:00:00', 9, 'UTC') + number, 1, now64() ` +
			`FROM numbers(10100)`,
		`INSERT INTO sessions_data (tenant, session_id, source, started_at, last_received_at) SELECT 'acme', concat('cubin:', ` +
			`toString(number)), 'parca', toDateTime64('2026-11-19 00:00:00', 9, 'UTC'), now64() FROM numbers(7)`,
		// A kernel of the last session has few warps; in the data set, one of a session before the last 500 has too.
		`INSERT INTO launches (tenant, session_id, launch_id, kernel_id, config_id, received_day, retention_days) VALUES ('acme', ` +
			`'run-10099', 1, 1, 1, today(), 400)`,
		`INSERT INTO launch_configs (tenant, session_id, config_id, occupancy, limiting_resource, received_day, retention_days) VALUES ` +
			`('acme', 'run-10099', 1, 0.25, 'blocks', today(), 400)`,
	} {
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r, err := report.Read(t.Context(), conn, report.Query{Database: database, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	// 10,100 and the two of the data set; the cubins are older than all.
	if n := len(r.Sessions); n != 10_000 || r.Sessions[n-1].ID != "run-10099" || r.Sessions[0].ID != "run-00100" ||
		r.Earlier != (report.Earlier{Runs: 102, Cubins: 7}) {
		t.Errorf("%d sessions from %s on, and before them %+v", n, r.Sessions[0].ID, r.Earlier)
	}
	if len(r.Insights) != 1 || r.Insights[0].Session != "run-10099" || r.InsightsOf != 500 {
		t.Errorf("insights of %d sessions: %+v", r.InsightsOf, r.Insights)
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"What arrived  10,102 sessions", "and 7 cubins", "and 10,082 sessions that began earlier",
		"of the 500 sessions that began last"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	one, err := report.Read(t.Context(), conn, report.Query{Database: database, Session: "11111111"})
	if err != nil || len(one.Sessions) != 1 || len(one.Insights) == 0 || one.InsightsOf != 0 {
		t.Errorf("one session: %d sessions, insights %+v, %v", len(one.Sessions), one.Insights, err)
	}
}

// What needs more memory than a question may take is left out by name, and the rest is there.
func TestReportInLittleMemory(t *testing.T) {
	conn, database := filled(t)
	ctx := clickhouse.Context(t.Context(), clickhouse.WithSettings(clickhouse.Settings{"max_memory_usage": 1, "max_untracked_memory": 0}))
	none, err := report.Read(ctx, conn, report.Query{Database: database})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(none.Skipped, "sessions") || !slices.Contains(none.Skipped, "insights") {
		t.Errorf("without %q", none.Skipped)
	}
	for name, r := range map[string]*report.Report{
		"nothing fits":       none,
		"insights are large": {Sessions: []report.Session{{ID: "s", App: "a"}}, Skipped: []string{"insights"}},
	} {
		var out bytes.Buffer
		if err := r.Print(&out, report.Style{}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if !strings.Contains(text, "Left out\n  "+r.Skipped[0]) || !strings.Contains(text, "--clickhouse-memory") ||
			strings.Contains(text, "Nothing here yet") || strings.Contains(text, "What arrived") != (len(r.Sessions) > 0) {
			t.Errorf("%s: it shows\n%s", name, text)
		}
	}
}

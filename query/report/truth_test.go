package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warpline/warpline/query/report"
)

// What the report leaves out of durations it says.
func TestReportSaysWhichDurationsAreNotTrue(t *testing.T) {
	conn, database := filled(t)
	for _, sql := range []string{
		"INSERT INTO synthetic_sessions_data (tenant, session_id) VALUES ('acme', '22222222-aaaa-bbbb-cccc-000000000002')",
		"INSERT INTO deep_windows_data (tenant, session_id, started_at, ended_at) VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', " +
			"'2026-11-20 12:01:10', '2026-11-20 12:01:12')",
	} {
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	r, err := report.Read(t.Context(), conn, report.Query{Database: database, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	if r.SyntheticCalls != 1 || len(r.Kernels) > 1 || r.KernelCalls+r.DisturbedCalls+r.DoubtfulCalls == 0 {
		t.Errorf("%d synthetic calls, %d disturbed, %d doubtful, kernels %+v", r.SyntheticCalls, r.DisturbedCalls, r.DoubtfulCalls, r.Kernels)
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 call left out: their durations are gaps between launches", "deep window was open"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
}

package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

var update = flag.Bool("update", false, "write the golden files")

// dataset is what the golden report is about: two sessions of one tenant, and one of another that must not show.
var dataset = []string{
	`INSERT INTO sessions_data (tenant, session_id, source, app, host, started_at, ended_at, completed, crashed, kernels, samples, ` +
		`last_received_at)
		VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', 'gpu-flight', 'train.py', 'node-1', '2026-11-20 12:00:00', '2026-11-20 ` +
		`12:01:40', 1, 0, 6, 100, now64()),
			('acme', '22222222-aaaa-bbbb-cccc-000000000002', 'gpu-flight', ` +
		`'a-very-long-application-name-that-does-not-fit-on-narrow-terminals.py', 'node-2', '2026-11-20 13:00:00', '2026-11-20 13:00:00', 0, 0,` +
		` 1, 0, now64()),
			('other', '33333333-aaaa-bbbb-cccc-000000000003', 'gpu-flight', 'secret.py', 'node-3', '2026-11-20 12:00:00', '2026-11-20 12:00:01', ` +
		`1, 0, 1, 0, now64())`,
	`INSERT INTO kernels_data (tenant, session_id, started_at, duration_ns, launch_id, device_id)
		SELECT 'acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 1000 * (number + 1), 1, -1 FROM numbers(5)`,
	`INSERT INTO kernel_stats_data (tenant, session_id, bucket, bucket_s, kernel_id, kernel, calls, total_ns, min_ns, max_ns, ` +
		`duration_hist) VALUES
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 1, 'gemm', 2, 30, 10, 20, ` + buckets(10, 20) + `),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:01:00', 60, 1, 'gemm', 1, 5000000, 5000000, 5000000, ` +
		buckets(5_000_000) + `),
		('acme', '22222222-aaaa-bbbb-cccc-000000000002', '2026-11-20 13:00:00', 60, 7, 'void at::native::vectorized_elementwise_kernel<4, ` +
		`at::native::FillFunctor<float>, std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)', 1, 1250000, ` +
		`1250000, 1250000, ` + buckets(1_250_000) + `),
		('other', '33333333-aaaa-bbbb-cccc-000000000003', '2026-11-20 12:00:00', 60, 1, 'secret', 1, 9000000, 9000000, 9000000, ` +
		buckets(9_000_000) + `)`,
	`INSERT INTO scope_stats_data (tenant, session_id, bucket, bucket_s, name_id, scope, calls, total_ns, min_ns, max_ns, duration_hist, ` +
		`unmatched_begin, unmatched_end) VALUES
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 1, 'epoch', 1, 2000000000, 2000000000, 2000000000, ` +
		buckets(2_000_000_000) + `, 0, 0),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 2, 'step\x1b[31m', 0, 0, 18446744073709551615, 0, map(), 1,` +
		` 0)`,
	`INSERT INTO pc_samples_data (tenant, session_id, bucket, bucket_s, function, function_id, pc_offset, stall_reason, metric_id, samples, ` +
		`hits, device_id, file, line) VALUES
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 'gemm', 1, 16, ` +
		`'smsp__pcsamp_warps_issue_stalled_long_scoreboard', 1, 60, 2, 0, 'gemm.cu', 42),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 'gemm', 1, 32, 'smsp__pcsamp_warps_issue_stalled_barrier', ` +
		`2, 30, 1, 0, 'gemm.cu', 43),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 'gemm', 1, 32, ` +
		`'smsp__pcsamp_warps_issue_stalled_barrier_not_issued', 3, 30, 1, 0, 'gemm.cu', 43),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 'scan', 2, 16, 'stall_reason_9', 0, 500, 1, 0, '', 0),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 60, 'scan', 2, 16, ` +
		`'smsp__pcsamp_warps_issue_stalled_long_scoreboard', 1, 10, 1, 0, '', 0)`,
	// gemm's code and source came; scan's did not.
	`INSERT INTO dictionaries (tenant, session_id, dict, id, value, received_day, retention_days) VALUES ('acme', ` +
		`'11111111-aaaa-bbbb-cccc-000000000001', 'func_symbol_dict', 1, '_Z4gemm', today(), 400),
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', 'source_file_dict', 1, 'gemm.cu', today(), 400), ('acme', ` +
		`'11111111-aaaa-bbbb-cccc-000000000001', 'kernel_dict', 1, 'gemm', today(), 400)`,
	`INSERT INTO session_functions_data (tenant, session_id, kind, cubin_crc, function_name, content_hi, content_lo, received_day, ` +
		`retention_days) VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', 'sass', 7, '_Z4gemm', 1, 1, today(), 400)`,
	`INSERT INTO sass_lines_data (tenant, content_hi, content_lo, pc, sass, received_day, retention_days) VALUES ('acme', 1, 1, 16, 'LDG.E ` +
		`R4, [R2.64]', today(), 400), ('acme', 1, 1, 32, 'BAR.SYNC.DEFER_BLOCKING 0x0', today(), 400), ('other', 1, 1, 16, 'secret', today(), ` +
		`400)`,
	`INSERT INTO session_sources_data (tenant, session_id, source_file_id, content_hi, content_lo, received_day, retention_days) VALUES ` +
		`('acme', '11111111-aaaa-bbbb-cccc-000000000001', 1, 2, 2, today(), 400)`,
	`INSERT INTO source_lines_data (tenant, content_hi, content_lo, line, text, received_day, retention_days) VALUES ('acme', 2, 2, 42, ` +
		`'\t\tfloat a = A[row * K + k];', today(), 400), ('acme', 2, 2, 43, '\t\t__syncthreads();', today(), 400)`,
	`INSERT INTO launches (tenant, session_id, launch_id, kernel_id, config_id, registers, received_day, retention_days) VALUES ('acme', ` +
		`'11111111-aaaa-bbbb-cccc-000000000001', 1, 1, 1, 128, today(), 400)`,
	`INSERT INTO launch_configs (tenant, session_id, config_id, occupancy, reg_occupancy, limiting_resource, received_day, retention_days) ` +
		`VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', 1, 0.25, 0.25, 'registers', today(), 400)`,
	`INSERT INTO memcpys_data (tenant, session_id, started_at, duration_ns, bytes, copy_kind, copy_kind_id) VALUES
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 1000000, 24000000, 'HtoD', 1), ('acme', ` +
		`'11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 0, 10, 'DtoH', 2)`,
	`INSERT INTO device_metrics_data (tenant, session_id, at, device_id, gpu_util_pct, power_w, used_bytes, total_bytes, temp_c)
		SELECT 'acme', '11111111-aaaa-bbbb-cccc-000000000001', toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + number, 0, number, 100 + number,` +
		` number * 1073741824, 85899345920, 60 FROM numbers(101)`,
	`INSERT INTO devices_data (tenant, session_id, device_id, name) VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', 0, 'H100')`,
	`INSERT INTO host_metrics_data (tenant, session_id, at, cpu_pct, ram_used_bytes, ram_total_bytes, hostname)
		VALUES ('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 50, 1073741824, 4294967296, 'node-1')`,
	`INSERT INTO rejects_data (tenant, session_id, at, source, reason, type, events, bytes) VALUES
		('acme', '11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 'gpu-flight', 'not_yet', 'memset_event', 3, 1000), ('acme', ` +
		`'11111111-aaaa-bbbb-cccc-000000000001', '2026-11-20 12:00:00', 'gpu-flight', 'bad_json', '', 1, 12)`,
	`INSERT INTO usage_data (tenant, day, source, events, bytes, stored_bytes, rejected, duplicates) VALUES ('acme', '2026-11-20', ` +
		`'gpu-flight', 100, 5000000, 0, 4, 6), ('other', '2026-11-20', 'gpu-flight', 1, 1, 1, 0, 0)`,
}

// buckets is a histogram of values as SQL.
func buckets(values ...uint64) string {
	var d hist.Dense
	for _, v := range values {
		d.Add(v)
	}
	var pairs []string
	d.Each(func(i int16, n uint64) { pairs = append(pairs, fmt.Sprintf("%d, %d", i, n)) })
	return "map(" + strings.Join(pairs, ", ") + ")"
}

// filled returns a connection to a database of the test's own that holds the dataset.
func filled(t *testing.T) (conn driver.Conn, database string) {
	t.Helper()
	database = tabletest.Database(t)
	e := enginetest.Shared(t)
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Database: database, Username: e.User(), Password: e.Password()}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	for _, sql := range dataset {
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
	return conn, database
}

func TestReportIsWhatTheDatasetHolds(t *testing.T) {
	conn, database := filled(t)
	r, err := report.Read(t.Context(), conn, report.Query{Database: database, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	// Size on disk follows ClickHouse's version, so it is not part of the golden text; that it was read is checked here.
	if r.Disk.Bytes == 0 || r.Disk.Rows == 0 {
		t.Errorf("disk use was not read: %+v", r.Disk)
	}
	r.Disk = report.Disk{Rows: 1, Bytes: 500_000, Parts: 2}
	// Percentiles are of the values in both buckets together: 10, 20 and 5 000 000 ns, within 1 %.
	if k := r.Kernels[0]; k.P50NS != 20 || k.P99NS < 4_950_000 || k.P99NS > 5_050_000 || k.TotalNS != 5_000_030 || k.Calls != 3 {
		t.Errorf("gemm is %+v", k)
	}
	for name, style := range map[string]report.Style{
		"wide": {Width: 120, HTTP: "http://127.0.0.1:8123", User: "reader", Login: `-u "reader:$(cat warpline-data/reader-password)"`,
			Sent: 250_000},
		"narrow": {Width: 60},
	} {
		var out bytes.Buffer
		if err := r.Print(&out, style); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".golden.txt", bytes.ReplaceAll(out.Bytes(), []byte(database), []byte("report_golden")))
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			if n := uniseg.StringWidth(line); n > style.Width && style.HTTP == "" {
				t.Errorf("%s: line of %d cells is wider than %d: %s", name, n, style.Width, line)
			}
		}
		if strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%s: escape sequences without colour, or a client's own got through", name)
		}
		if strings.Contains(out.String(), "secret") {
			t.Errorf("%s: shows another tenant", name)
		}
	}
	r.At, r.Query = time.Time{}, report.Query{}
	js, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report.golden.json", append(js, '\n'))
}

func TestColourChangesNothingElse(t *testing.T) {
	r := &report.Report{Sessions: []report.Session{{ID: "s", App: "a"}}, Kernels: []report.Timing{{Name: "k", Calls: 1, TotalNS: 5}},
		KernelCalls: 1, KernelNS: 5, KernelNames: 1}
	var plain, colour bytes.Buffer
	if err := r.Print(&plain, report.Style{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Print(&colour, report.Style{Colour: true}); err != nil {
		t.Fatal(err)
	}
	if plain.String() == colour.String() {
		t.Error("colour has no effect")
	}
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(colour.String(), ""); got != plain.String() {
		t.Errorf("without escapes it is\n%s\nnot\n%s", got, plain.String())
	}
}

func TestOneSession(t *testing.T) {
	conn, database := filled(t)
	r, err := report.Read(t.Context(), conn, report.Query{Database: database, Session: "22222222"})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Sessions) != 1 || len(r.Kernels) != 1 || r.KernelCalls != 1 || len(r.Copies) != 0 || len(r.Rejects) != 0 {
		t.Errorf("session 22222222 has %d sessions, %d kernels, %d calls, %d copies, %d rejects", len(r.Sessions), len(r.Kernels), r.KernelCalls,
			len(r.Copies), len(r.Rejects))
	}
	if r.Books != (report.Books{}) {
		t.Errorf("one session has books of its own: %+v", r.Books)
	}
	// A session id is data, not SQL.
	r, err = report.Read(t.Context(), conn, report.Query{Database: database, Session: "' OR 1=1 --"})
	if err != nil || len(r.Sessions) != 0 {
		t.Errorf("a quote in the session finds %d sessions, error %v", len(r.Sessions), err)
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{}); err != nil || !strings.Contains(out.String(), "warpline send") {
		t.Errorf("an empty report does not say what to do next: %q, %v", out.String(), err)
	}
}

func TestSessionWithoutAStart(t *testing.T) {
	r := &report.Report{Sessions: []report.Session{{ID: "no-job-start", State: "open", Started: time.Unix(0, 0),
		Ended: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}, {ID: "zero"}}}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(out.String(), "Jan 01") || strings.Contains(out.String(), " h ") || strings.Count(out.String(), "–") != 4 {
		t.Errorf("it shows\n%s", out.String())
	}
}

// The same id under two tenants is two sessions, and of very many sessions the newest are listed.
func TestManySessionsOfManyTenants(t *testing.T) {
	r := &report.Report{Query: report.Query{Top: 10}}
	for i := range 30 {
		r.Sessions = append(r.Sessions, report.Session{Tenant: []string{"red", "blue"}[i%2], ID: fmt.Sprint("run-", i/2),
			Started: time.Unix(int64(1e9+i), 0)})
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"30 sessions", "  tenant  session", "  red     run-14", "  blue    run-14", "  blue    run-5",
		"and 10 sessions that began earlier"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "run-4 ") {
		t.Errorf("an old session is listed in\n%s", out.String())
	}
	r.Sessions = r.Sessions[:1]
	out.Reset()
	if err := r.Print(&out, report.Style{}); err != nil || strings.Contains(out.String(), "tenant") ||
		strings.Contains(out.String(), "earlier") {
		t.Errorf("one session of one tenant, error %v:\n%s", err, out.String())
	}
}

// Where nothing matches there is nothing to ask further.
func TestNothingMatches(t *testing.T) {
	var out bytes.Buffer
	r := &report.Report{Query: report.Query{Session: "nosuch"}}
	if err := r.Print(&out, report.Style{HTTP: "http://127.0.0.1:8123", User: "reader",
		Login: `-u "reader:$(cat warpline-data/reader-password)"`}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Nothing matches") || strings.Contains(out.String(), "SELECT") {
		t.Errorf("it shows\n%s", out.String())
	}
}

// As wide as a terminal gets narrow: nothing may be wider.
func TestFortyColumns(t *testing.T) {
	r := &report.Report{
		Sessions: []report.Session{{ID: "11111111-aaaa-bbbb-cccc-000000000001", App: "train.py", Host: "node-1", Source: "gpu-flight",
			State: "complete", Kernels: 123_456_789}},
		Kernels: []report.Timing{{Name: strings.Repeat("kernel", 30), Calls: 123_456, TotalNS: 1e12, P50NS: 1e6, P90NS: 1e6, P99NS: 1e7,
			MaxNS: 1e8}}, KernelCalls: 1, KernelNS: 1, KernelNames: 1,
	}
	var out bytes.Buffer
	if err := r.Print(&out, report.Style{Width: 40}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > 40 {
			t.Errorf("%d cells: %s", n, line)
		}
	}
}

func TestReadSaysWhatFailed(t *testing.T) {
	conn, _ := filled(t)
	_, err := report.Read(context.Background(), conn, report.Query{Database: "no_such_database"})
	if err == nil || !strings.Contains(err.Error(), "read sessions") {
		t.Errorf("error is %v", err)
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (run with -update to accept):\n%s", name, got)
	}
}

package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/query/report"
)

// memoryDataset: a job of four ranks of which one is missing and one has a hidden leak and runs out of memory, and a lone tracker
// on a processor. Tenant other must not show.
var memoryDataset = []string{
	`INSERT INTO memory_events_data (tenant, session_id, at, timestamp_ns, event_type, sampling_interval_ms, host, job_id, rank, world_size,` +
		` device_id, present, retention_days, received_at, upload_index, metadata,
			allocator_allocated_bytes, allocator_reserved_bytes, allocator_change_bytes, device_used_bytes, device_total_bytes)
		SELECT 'acme', concat('rank-', toString(r)), at, toUnixTimestamp64Nano(at), 'sample', 1000, concat('node-', toString(intDiv(r, 2))), ` +
		`'train-7', r, 4, r % 2, 511, 30, now(), number, '{}',
			4294967296 + if(r = 3, i * 536870912, (i % 7) * 104857600) AS a, a + 2147483648, 0, a + 2147483648 + if(r = 3, i * 134217728, if(i >= ` +
		`40, 1073741824, 0)), 85899345920
		FROM (SELECT number, [0, 1, 3][1 + intDiv(number, 100)] AS r, number % 100 AS i, toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + i AS ` +
		`at FROM numbers(300))`,
	`INSERT INTO memory_events_data (tenant, session_id, at, timestamp_ns, event_type, sampling_interval_ms, host, job_id, rank, world_size,` +
		` device_id, present, retention_days, received_at, upload_index, metadata, context,
			allocator_allocated_bytes, allocator_reserved_bytes, allocator_change_bytes, device_used_bytes, device_total_bytes) VALUES
		('acme', 'rank-3', '2026-11-20 12:01:40', 1795176100000000000, 'error', 1000, 'node-1', 'train-7', 3, 4, 1, 511, 30, now(), 300, ` +
		`'{"oom_reason":"torch.cuda.OutOfMemoryError"}', 'step 7\x1b[31m', 58000000000, 60000000000, 0, 80000000000, 85899345920)`,
	`INSERT INTO memory_events_data (tenant, session_id, at, timestamp_ns, event_type, sampling_interval_ms, host, rank, world_size, ` +
		`device_id, present, retention_days, received_at, upload_index, metadata,
			allocator_allocated_bytes, allocator_reserved_bytes, allocator_change_bytes, device_used_bytes)
		SELECT if(number < 50, 'acme', 'other'), 'cpu-only', at, toUnixTimestamp64Nano(at), ['allocation', 'deallocation'][1 + number % 2], ` +
		`500, 'laptop', 0, 1, -1, 448, 30, now(), number, '{}',
			1073741824 + number % 2 * 1048576, 1073741824, if(number % 2, -1, 1) * 1048576, 1073741824
		FROM (SELECT number, toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + (number % 50) AS at FROM numbers(100))`,
	`INSERT INTO memory_stats_data (tenant, session_id, device_id, rank, bucket, bucket_s, host, events, allocated_peak, reserved_peak, ` +
		`used_peak, total_peak, received_day, retention_days)
		SELECT 'acme', 'long-gone', 0, 0, toDateTime64('2026-10-01 12:00:00', 9, 'UTC') + toIntervalMinute(number), 60, 'node-9', 60, ` +
		`1073741824 * number, 1073741824 * (number + 1), 1073741824 * (number + 2), 85899345920, today(), 30 FROM numbers(10)`,
}

func memoryFilled(t *testing.T) (conn driver.Conn, database string) {
	t.Helper()
	conn, database = filled(t)
	for _, sql := range memoryDataset {
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.60s: %v", sql, err)
		}
	}
	return conn, database
}

func memoryReport(t *testing.T, conn driver.Conn, q report.MemoryQuery) *report.Memory {
	t.Helper()
	m, err := report.ReadMemory(t.Context(), conn, q)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestMemoryReport(t *testing.T) {
	conn, database := memoryFilled(t)
	m := memoryReport(t, conn, report.MemoryQuery{Database: database, Tenant: "acme"})
	if len(m.Series) != 4 || m.Series[1].Run != "train-7" || m.Series[0].Allocs.Count != 25 || m.Series[0].Allocs.Bytes != 25<<20 {
		t.Errorf("series are %+v", m.Series)
	}
	if !slices.ContainsFunc(m.Findings, func(f report.MemoryFinding) bool { return f.Kind == "out of memory" && f.Rank == 3 }) ||
		!slices.ContainsFunc(m.Findings, func(f report.MemoryFinding) bool {
			return f.Kind == "missing ranks" && strings.Contains(f.Text, "2")
		}) {
		t.Errorf("findings are %+v", m.Findings)
	}
	if !slices.IsSortedFunc(m.Findings, func(a, b report.MemoryFinding) int {
		order := []string{"critical", "warning", "info"}
		return slices.Index(order, a.Severity) - slices.Index(order, b.Severity)
	}) {
		t.Error("findings are not worst first")
	}
	for name, style := range map[string]report.Style{"memory-wide": {Width: 120}, "memory-narrow": {Width: 60}, "memory-forty": {Width: 40}} {
		var out bytes.Buffer
		if err := m.Print(&out, style); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".golden.txt", out.Bytes())
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > style.Width {
				t.Errorf("%s: line of %d cells: %s", name, n, line)
			}
		}
		if strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%s: a client's own escape sequence got through, or colour without being asked for", name)
		}
	}
	m.At, m.Query.Database = time.Time{}, ""
	js, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "memory.golden.json", append(js, '\n'))
}

func TestMemoryReportOfSome(t *testing.T) {
	three, err := report.ParseRanks("3")
	if err != nil {
		t.Fatal(err)
	}
	conn, database := memoryFilled(t)
	for _, c := range []struct {
		q      report.MemoryQuery
		series int
		say    string
	}{
		{report.MemoryQuery{Tenant: "acme", Job: "train-7"}, 3, "rank 0  GPU 0"},
		{report.MemoryQuery{Tenant: "acme", Job: "train-7", Ranks: three}, 1, "rank 3  GPU 1"},
		{report.MemoryQuery{Session: "rank-1"}, 1, "rank 1  GPU 1"},
		{report.MemoryQuery{Session: "cpu"}, 2, "against their own peak"}, // of two tenants
		{report.MemoryQuery{Session: "long-gone"}, 1, "peaks of minutes"},
		{report.MemoryQuery{Session: "' OR 1=1 --"}, 0, "Nothing matches"},
		{report.MemoryQuery{Job: "' OR 1=1 --"}, 0, "Nothing matches"},
	} {
		c.q.Database = database
		m := memoryReport(t, conn, c.q)
		var out bytes.Buffer
		if err := m.Print(&out, report.Style{}); err != nil {
			t.Fatal(err)
		}
		if len(m.Series) != c.series || !strings.Contains(out.String(), c.say) {
			t.Errorf("%+v has %d series, want %d with %q:\n%s", c.q, len(m.Series), c.series, c.say, out.String())
		}
	}
}

func TestNoMemoryTelemetry(t *testing.T) {
	var out bytes.Buffer
	if err := (&report.Memory{}).Print(&out, report.Style{Width: 40}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "warpline send") || !strings.Contains(out.String(), "/api/v1/telemetry") {
		t.Errorf("it does not say how to send: %s", out.String())
	}
}

// The peer's rank filters select the same ranks.
func TestRanks(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/telemetry/analytics_cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for line := range bytes.Lines(raw) {
		var c struct {
			Analysis, Expr string
			Available      []int64
			Output         []int64
			Error          any
		}
		if !bytes.Contains(line, []byte(`"rank_filter"`)) {
			continue
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		read++
		r, err := report.ParseRanks(c.Expr)
		if (err != nil) != (c.Error != nil) {
			t.Errorf("%q: error %v, the peer has %v", c.Expr, err, c.Error)
			continue
		}
		got := slices.DeleteFunc(slices.Clone(c.Available), func(n int64) bool { return err != nil || !r.Has(n) })
		if !slices.Equal(got, c.Output) {
			t.Errorf("%q of %v selects %v, want %v", c.Expr, c.Available, got, c.Output)
		}
	}
	if read < 4 {
		t.Errorf("%d cases were read", read)
	}
	for _, all := range []string{"", " ", "ALL", "*"} {
		if r, err := report.ParseRanks(all); err != nil || !r.All() || !r.Has(1<<40) || r.String() != "all" {
			t.Errorf("%q is %v, %v", all, r, err)
		}
	}
	for text, say := range map[string]string{
		"1-": "not a rank", "-1": "not a rank", "1-2-3": "not a rank", "+1": "not a rank", "7-4": "before it begins", ",": "does not name a rank",
		"1.5": "not a rank", "99999999999999999999": "not a rank",
		strings.Repeat("1,", 257): "more than 256",
	} {
		if _, err := report.ParseRanks(text); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("%q: error %v, want one with %q", text, err, say)
		}
	}
	if r, err := report.ParseRanks("0, 2 ,4-9999999999,,"); err != nil || !r.Has(5) || r.Has(3) || r.All() {
		t.Errorf("spaces and empty parts: %v, %v", r, err)
	}
}

// Phases that a program tells, and issues by their fingerprint, have their sections, in the bounds of what was asked.
func TestMemoryReportOfPhasesAndIssues(t *testing.T) {
	conn, database := filled(t)
	scope := func(action, name string, id, sequence int) string {
		return `{"phase_scope":{"action":"` + action + `","name":"` + name + `","path":["epoch","` + name + `"],"depth":2,"scope_id":"s:` +
			string(rune('0'+id)) + `","parent_scope_id":null,"thread_id":7,"thread_name":"main","sequence":` + string(rune('0'+sequence)) + `}}`
	}
	ill := `{"collector_health_status":"degraded","collector_last_error":"nvml: driver went away"}`
	for session := range 2 {
		for i, e := range []struct{ kind, metadata string }{
			{"phase_enter", scope("enter", "forward", 1, 1)}, {"phase_exit", scope("exit", "forward", 1, 2)},
			{"phase_enter", scope("enter", "backward", 2, 3)},
			{"collector_degraded", ill}, {"sample", "{}"},
		} {
			if err := conn.Exec(t.Context(), `INSERT INTO memory_events_data (tenant, session_id, at, timestamp_ns, event_type, host, rank, `+
				`world_size, device_id, present, retention_days, received_at, upload_index, metadata,
				allocator_allocated_bytes, allocator_reserved_bytes, device_used_bytes, collector)
				SELECT 'acme', ?, toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + ? AS at, toUnixTimestamp64Nano(at), ?, 'h', ?, 2, 0, 511, 30, `+
				`now(), ?, ?, 1, 1, 1, 'torch'`,
				"phased-"+string(rune('a'+session)), i, e.kind, session, i, e.metadata); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := memoryReport(t, conn, report.MemoryQuery{Database: database})
	if len(m.Phases) != 2 || m.Phases[0].Phase != "epoch / forward" && m.Phases[1].Phase != "epoch / forward" || m.Phases[0].Times != 2 ||
		m.Phases[0].Open+m.Phases[1].Open != 2 {
		t.Errorf("phases are %+v", m.Phases)
	}
	if len(m.Issues) != 1 || m.Issues[0].Hits != 2 || m.Issues[0].Sessions != 2 || !slices.Equal(m.Issues[0].Ranks, []int64{0, 1}) ||
		!strings.HasPrefix(m.Issues[0].ID, "issue:") {
		t.Errorf("issues are %+v", m.Issues)
	}
	if one := memoryReport(t, conn, report.MemoryQuery{Database: database, Session: "phased-b"}); len(one.Issues) != 1 ||
		one.Issues[0].Hits != 1 || one.Phases[0].Times != 1 {
		t.Errorf("of one session: %+v %+v", one.Issues, one.Phases)
	}
	for _, width := range []int{40, 60, 120} {
		var out bytes.Buffer
		if err := m.Print(&out, report.Style{Width: width}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"Phases", "2 phases did not end", "Issues", "Collector degradation"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%d columns lack %q:\n%s", width, want, out.String())
			}
		}
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("%d columns: a line has %d: %s", width, n, line)
			}
		}
		if width == 120 {
			t.Log(out.String())
		}
	}
}

package deploy_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

type source struct{ Type, UID string }

type dashboard struct {
	Panels []struct {
		ID         int
		Type       string
		Title      string
		Datasource source
		GridPos    struct{ X, Y, W, H int }
		Targets    []struct {
			Datasource   source
			Expr, RawSQL string
		}
	}
	Templating struct {
		List []struct {
			Name, Query string
			Datasource  source
		}
	}
}

// boards are the dashboards by the names of their files; loadDashboard gives the first.
var boards = []string{"warpline", "stalls", "regions", "traces", "tenant"}

func loadDashboard(t *testing.T) dashboard {
	t.Helper()
	return loadBoard(t, boards[0])
}

func loadBoard(t *testing.T, name string) (d dashboard) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "grafana/dashboards/"+name+".json")), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDashboardUsesProvisionedSources(t *testing.T) {
	var file struct {
		Datasources []struct{ UID, Type, URL string }
	}
	decode(t, "grafana/provisioning/datasources/warpline.yml", &file)
	known := map[source]bool{}
	for _, d := range file.Datasources {
		known[source{d.Type, d.UID}] = true
	}
	all, text := series(t), sources(t)
	for _, name := range boards {
		d, ids := loadBoard(t, name), map[int]bool{}
		for _, p := range d.Panels {
			if ids[p.ID] {
				t.Errorf("two panels have the id %d", p.ID)
			}
			ids[p.ID] = true
			if p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s is wider than the page", p.Title)
			}
			if p.Type != "row" && len(p.Targets) == 0 {
				t.Errorf("%s asks nothing", p.Title)
			}
			for _, q := range p.Targets {
				if !known[q.Datasource] || q.Datasource != p.Datasource {
					t.Errorf("%s: source %v is not provisioned", p.Title, q.Datasource)
				}
				if q.Expr != "" {
					checkExpression(t, all, text, p.Title, q.Expr)
				}
			}
		}
		for _, v := range d.Templating.List {
			if !known[v.Datasource] {
				t.Errorf("variable %s: source %v is not provisioned", v.Name, v.Datasource)
			}
		}
	}
}

// The dashboards' SQL runs on the real engine against the real schema.
func TestDashboardSQLRuns(t *testing.T) {
	e := enginetest.Shared(t)
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Username: e.User(), Password: e.Password()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx := context.Background()
	if err := tabletest.Schema().Ensure(ctx, conn, table.Options{}); err != nil {
		t.Fatal(err)
	}
	reader, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.TCPAddr()},
		Auth: clickhouse.Auth{Database: "warpline", Username: engine.Reader, Password: e.ReaderPassword()}})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, sql := range append(slices.Clone(traceRows), tenantRows...) {
		if err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%v\n%s", err, sql)
		}
	}
	run := func(where, tenant, sql string) (n int) {
		sql = asked(sql, tenant, "it's all", 0, 2_000_000_000)
		if strings.Contains(sql, "$") {
			t.Errorf("%s: a macro is left in %s", where, sql)
			return 0
		}
		rows, err := reader.Query(ctx, sql)
		if err != nil {
			t.Errorf("%s: %v\n%s", where, err, sql)
			return 0
		}
		for rows.Next() {
			n++
		}
		if err := rows.Err(); err != nil {
			t.Errorf("%s: %v\n%s", where, err, sql)
		}
		rows.Close()
		return n
	}
	for _, name := range boards {
		d, n := loadBoard(t, name), 0
		for _, p := range d.Panels {
			for _, q := range p.Targets {
				if q.RawSQL != "" {
					n++
					if got := run(p.Title, "dev", q.RawSQL); got == 0 && (name == "traces" || name == "tenant") {
						t.Errorf("%s of %s shows nothing", p.Title, name)
					}
					if got := run(p.Title, "nobody", q.RawSQL); got > 0 && name == "tenant" && p.Title != "What warpline cost reckons with" { // sums
						t.Errorf("%s shows a tenant what is another's", p.Title)
					}
				}
			}
		}
		for _, v := range d.Templating.List {
			run("variable "+v.Name, "dev", v.Query)
		}
		if n == 0 {
			t.Fatalf("no SQL in the dashboard %s", name)
		}
	}
}

// traceRows are a trace of two ranks, each with a launch, a copy and an all-reduce. Its id is the one that the test asks for.
var traceRows = []string{
	`INSERT INTO warpline.sessions_data (tenant, session_id, source, run_id, place, world_size, last_received_at) VALUES
		('dev', 'it\'s all', 'trace', 'job', 1, 2, now64()), ('dev', 'other rank', 'trace', 'job', 2, 2, now64())`,
	`INSERT INTO warpline.trace_slices_data (tenant, session_id, started_at, duration_ns, phase, kind, category, name, pid, tid, device_id,
		stream_id, correlation, args)
		SELECT 'dev', s.1, fromUnixTimestamp64Nano(1000000000000000000 + x.1 + s.2), x.2, 'X', x.3, x.4, x.5, '1', '1', x.6, x.6, x.7, x.8
		FROM (SELECT arrayJoin([('it\'s all', 0), ('other rank', 500)]) AS s, arrayJoin([
			(0, 90000, 'annotation', 'user_annotation', 'ProfilerStep#1', -1, 0, ''), (10, 900, 'op', 'cpu_op', 'aten::mm', -1, 0, ''),
			(20, 30, 'runtime', 'cuda_runtime', 'cudaLaunchKernel', -1, 1, ''), (200, 600, 'kernel', 'kernel', 'gemm', 0, 1, ''),
			(1000, 5000, 'kernel', 'kernel', 'ncclDevKernel_AllReduce', 0, 2, '{"Seq":1}'),
			(50000, 400, 'memcpy', 'gpu_memcpy', 'Memcpy HtoD', 0, 3, '{"bytes":4000}')]) AS x)`,
	`INSERT INTO warpline.trace_stats_data (tenant, session_id, bucket, bucket_s, category, name, calls, total_ns, min_ns, max_ns)
		SELECT tenant, session_id, toStartOfMinute(started_at), 60, category, name, count(), sum(duration_ns), min(duration_ns),
			max(duration_ns) FROM warpline.trace_slices_data WHERE tenant = 'dev' GROUP BY ALL`,
}

// tenantRows are what a tenant sent, what was refused of it, what it has stored and what was changed of it.
var tenantRows = []string{
	`INSERT INTO warpline.usage_data (tenant, day, source, events, bytes, rejected, received_day, retention_days) VALUES
		('dev', today() - 1, 'trace', 86400, 1000000, 10, today(), 30)`,
	`INSERT INTO warpline.stored_data (tenant, measurement, day, source, raw_bytes, rollup_bytes) VALUES
		('dev', toUnixTimestamp(now()) * 1000000000, today() - 1, 'trace', 5000, 700),
		('other', toUnixTimestamp(now()) * 1000000000, today() - 1, 'trace', 1, 1)`,
	`INSERT INTO warpline.rejects_data (tenant, at, source, reason, session_id, type, events, bytes) VALUES
		('dev', now64(), 'trace', 'bad_json', 'it\'s all', 'x', 10, 100)`,
	`INSERT INTO warpline.admin_log_data (tenant, at, entry_id, who, action, object) VALUES ('dev', now64(), 'e', 'cli', 'tenant.set', 'dev')`,
}

package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/parca"
)

// mostSessions is how many sessions a report has at most: a service of years has millions.
const mostSessions = 10_000

// readSessions reads the sessions that began last, and counts the others. The view makes a dozen values of each session that it is asked
// for, so of very many sessions it is asked for those alone.
func readSessions(in *reader, r *Report) error {
	from, args := in.from("sessions_data")
	var runs, cubins uint64
	err := in.conn.QueryRow(in.ctx, "SELECT countIf(NOT cubin), countIf(cubin) FROM (SELECT startsWith(toString(session_id), ?) AS cubin "+
		"FROM "+from+" GROUP BY tenant, session_id)", append([]any{parca.CubinPrefix}, args...)...).Scan(&runs, &cubins)
	if err != nil {
		return err
	}
	latest := ""
	view, asked := in.from("sessions")
	if runs+cubins > mostSessions {
		latest = fmt.Sprintf("(tenant, session_id) IN (SELECT tenant, session_id FROM %s GROUP BY tenant, session_id "+
			"ORDER BY min(started_at) DESC, session_id DESC LIMIT %d)", from, mostSessions)
		view, asked = in.from("sessions", latest)
		asked = append(slices.Clone(args), asked...)
	}
	err = in.each(`SELECT toString(tenant), toString(session_id), toString(source), toString(app), toString(host), toString(state), `+
		`started_at, ended_at, kernels, samples
		FROM `+view+` ORDER BY started_at, session_id`, asked, func(rows driver.Rows) error {
		var s Session
		if err := rows.Scan(&s.Tenant, &s.ID, &s.Source, &s.App, &s.Host, &s.State, &s.Started, &s.Ended, &s.Kernels, &s.Samples); err != nil {
			return err
		}
		r.Sessions = append(r.Sessions, s)
		return nil
	})
	if listed := len(r.runs()); latest != "" && err == nil {
		r.Earlier = Earlier{Runs: runs - min(runs, uint64(listed)), Cubins: cubins - min(cubins, uint64(len(r.Sessions)-listed))}
	}
	return err
}

// counted are the views whose rows are counted, with the table that has as many and the expression that counts what came over the wire. A
// view of two tables is there twice in a row. The views would join what nobody counts: ClickHouse does not see that a join changes no
// number.
var counted = []struct{ view, table, count string }{
	{"kernels", "kernels_data", "count()"}, {"scopes", "scopes_data", "count()"}, {"memcpys", "memcpys_data", "count()"},
	{"pc_samples", "pc_samples_data", "sum(hits)"}, {"pc_samples", "pc_buckets_data", "sum(hits)"},
	{"profile_metrics", "profile_metrics_data", "sum(hits)"},
	{"memsets", "memsets_data", "count()"}, {"syncs", "syncs_data", "count()"}, {"allocations", "allocations_data", "count()"},
	{"markers", "markers_data", "count()"}, {"graphs", "graphs_data", "count()"}, {"pm_samples", "pm_samples_data", "count()"},
	{"perf_metrics", "perf_metrics_data", "count()"}, {"device_metrics", "device_metrics_data", "count()"},
	{"host_metrics", "host_metrics_data", "count()"}, {"memory_events", "memory_events", "count()"},
	{"regions", "regions_data", "count()"}, {"region_marks", "region_marks_data", "count()"},
	{"trace_slices", "trace_slices_data", "count()"}, {"trace_counters", "trace_counters_data", "count()"},
	{"rejects", "rejects_data", "count()"},
}

func readCounts(in *reader, r *Report) error {
	var parts []string
	var all []any
	for _, c := range counted {
		from, args := in.from(c.table)
		parts = append(parts, "SELECT '"+c.view+"' AS t, toUInt64("+c.count+") AS n FROM "+from)
		all = append(all, args...)
	}
	got := map[string]uint64{}
	err := in.each(strings.Join(parts, " UNION ALL "), all, func(rows driver.Rows) error {
		var c Count
		if err := rows.Scan(&c.Table, &c.Rows); err != nil {
			return err
		}
		got[c.Table] += c.Rows
		return nil
	})
	for i, c := range counted {
		if i == 0 || counted[i-1].view != c.view {
			r.Rows = append(r.Rows, Count{c.view, got[c.view]})
		}
	}
	return err
}

func readRejects(in *reader, r *Report) error {
	from, args := in.from("rejects")
	return in.each(`SELECT toString(reason) AS why, toString(type) AS what, sum(events) AS n, sum(bytes) AS size FROM `+from+
		` GROUP BY why, what ORDER BY n DESC, size DESC, why, what`, args, func(rows driver.Rows) error {
		var x Reject
		if err := rows.Scan(&x.Reason, &x.Type, &x.Events, &x.Bytes); err != nil {
			return err
		}
		r.Rejects = append(r.Rejects, x)
		return nil
	})
}

func readBooks(in *reader, r *Report) error {
	if in.q.Session != "" {
		return nil
	}
	from, args := in.from("usage")
	return in.conn.QueryRow(in.ctx, "SELECT sum(events), sum(bytes), sum(rejected), sum(duplicates) FROM "+from, args...).
		Scan(&r.Books.Events, &r.Books.Bytes, &r.Books.Rejected, &r.Books.Duplicates)
}

func readDisk(in *reader, r *Report) error {
	return in.conn.QueryRow(in.ctx, "SELECT sum(rows), sum(bytes_on_disk), count() FROM system.parts WHERE active AND database = ?",
		in.q.Database).
		Scan(&r.Disk.Rows, &r.Disk.Bytes, &r.Disk.Parts)
}

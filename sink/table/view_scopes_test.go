package table_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// bucket adds a row of scope_stats_data of session s.
func (s *store) scopeStats(bucket time.Time, id uint32, name string, calls, total, child uint64) {
	s.Helper()
	t := table.ScopeStats
	s.Seed(t, 1, func(b *table.Batch, _ int) {
		session(t.Head, b)
		t.Bucket.Append(b, bucket.UnixNano())
		t.BucketS.Append(b, 60)
		t.NameID.Append(b, id)
		t.Scope.AppendString(b, name)
		t.Calls.Append(b, calls)
		t.TotalNS.Append(b, total)
		t.ChildNS.Append(b, child)
		if calls == 0 {
			t.MinNS.Append(b, table.NoMin)
		} else {
			t.MinNS.Append(b, total/calls)
			t.MaxNS.Append(b, total/calls)
		}
	})
}

// kernelStats adds a row of kernel_stats_data.
func (s *store) kernelStats(id string, bucket time.Time, kernel uint32, scope string, calls, total uint64) {
	s.Helper()
	t := table.KernelStats
	s.Seed(t, 1, func(b *table.Batch, _ int) {
		t.Tenant.AppendString(b, "acme")
		t.SessionID.AppendString(b, id)
		t.Bucket.Append(b, bucket.UnixNano())
		t.BucketS.Append(b, 60)
		t.KernelID.Append(b, kernel)
		t.Kernel.AppendString(b, fmt.Sprint("k", kernel))
		t.Scope.AppendString(b, scope)
		t.Calls.Append(b, calls)
		t.TotalNS.Append(b, total)
	})
}

// Self time is what a scope's children did not take; kernels count in every scope that they ran in, once, in their own minute, in scopes
// of their session only.
func TestScopeStatsHaveSelfTimeAndKernels(t *testing.T) {
	s := newStore(t, true)
	m0 := tabletest.Received.Truncate(time.Minute)
	m1 := m0.Add(time.Minute)
	s.scopeStats(m0, 1, "train", 2, 1000, 0)
	s.scopeStats(m0, 1, "train", 0, 0, 700) // children are counted later
	s.scopeStats(m0, 2, "fwd", 2, 700, 0)
	s.scopeStats(m1, 2, "fwd", 1, 10, 900) // a child that another thread's scope had
	s.scopeStats(m0, 3, "", 1, 50, 20)     // its name comes late
	s.name("scope_name_dict", 3, "late", 1)
	s.kernelStats("s", m0, 1, "train|fwd", 5, 50)
	s.kernelStats("s", m0, 2, "train|fwd", 1, 3)
	s.kernelStats("s", m0, 1, "train", 7, 70)
	s.kernelStats("s", m0, 1, "fwd|train|fwd", 1, 1) // recursion: once
	s.kernelStats("s", m1, 1, "train|late", 4, 40)   // no scope of this name began in this minute
	s.kernelStats("s", m0, 1, "", 100, 1000)         // in no scope
	s.kernelStats("s", m0, 1, "global2", 100, 1000)  // in none of the session's
	s.kernelStats("other", m0, 1, "train", 100, 1000)
	check := func() {
		s.Helper()
		s.Want("SELECT intDiv(toUnixTimestamp(bucket) - "+fmt.Sprint(
			m0.Unix())+", 60) AS m, scope, calls, total_ns, min_ns, max_ns, self_ns, child_ns, kernels, kernel_ns, bucket_s, name_id "+
			"FROM {db}.scope_stats WHERE tenant = 'acme' ORDER BY m, scope", strings.Join([]string{
			"0\tfwd\t2\t700\t350\t350\t700\t0\t7\t54\t60\t2",
			"0\tlate\t1\t50\t50\t50\t30\t20\t0\t0\t60\t3",
			"0\ttrain\t2\t1000\t500\t500\t300\t700\t14\t124\t60\t1",
			"1\tfwd\t1\t10\t10\t10\t0\t900\t0\t0\t60\t2",
			"1\tlate\t0\t0\t0\t0\t0\t0\t4\t40\t60\t0",
			"1\ttrain\t0\t0\t0\t0\t0\t0\t4\t40\t60\t0",
		}, "\n"))
	}
	check()
	s.Exec("OPTIMIZE TABLE {db}.scope_stats_data FINAL")
	s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	check()
}

// A question about one session reads that session's part of every table behind scope_stats and run_scopes.
func TestScopeViewsReadOneSession(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 200_000
	for name, columns := range map[string][2]string{
		"scope_stats_data": {"name_id, scope, bucket, received_day",
			"number, toString(number % 50), toDateTime64(60 * number, 9, 'UTC'), today()"},
		"kernel_stats_data": {"kernel_id, scope, bucket, received_day",
			"number, toString(number % 50), toDateTime64(60 * number, 9, 'UTC'), today()"},
		"dictionaries":  {"id, received_day", "number, today()"},
		"scopes_data":   {"instance_id, started_at, received_at", "number, now64(9), now64(9)"},
		"sessions_data": {"run_id, received_day, rows_partition", "'r', today(), number % 65536"},
	} {
		s.Exec(fmt.Sprintf("INSERT INTO {db}.%s (tenant, session_id, %s, retention_days) SELECT 'acme', toString(number %% %d), %s, "+
			"30 FROM numbers(%d)", name, columns[0], sessions, columns[1], rows))
	}
	for view, tables := range map[string]int{"scope_stats": 3, "scopes": 2, "scope_paths": 2} {
		read := strings.Fields(s.Query("SELECT table, sum(rows) FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + view +
			" WHERE tenant = 'acme' AND session_id = '7')) GROUP BY table ORDER BY table"))
		if len(read) != 2*tables {
			t.Fatalf("%s reads %v, want %d tables", view, read, tables)
		}
		for i := 0; i < len(read); i += 2 {
			if n, err := strconv.Atoi(read[i+1]); err != nil || n > rows/4 {
				t.Errorf("%s: %s of %s, %d rows are there, %v", view, read[i+1], read[i], rows, err)
			}
		}
	}
}

// Scopes that a segment cuts are one scope of the run.
func TestRunScopes(t *testing.T) {
	s := newStore(t, true)
	se, sc := table.Sessions, table.Scopes
	ids := []string{"a", "b", "c", "alone"}
	s.Seed(se, 4, func(b *table.Batch, i int) {
		se.Append(b, &table.SessionRow{HeadRow: acme(ids[i]), RunID: []string{"run", "run", "run", ""}[i], ReceivedDay: today()})
	})
	type row struct {
		session            int
		instance           uint64
		name               string
		start, duration    int64
		matched, cont, cut uint8
	}
	base := tabletest.Received.UnixNano()
	rows := []row{
		{0, 1, "train", 0, 100, 1, 0, 1}, {1, 1, "train", 101, 99, 1, 1, 1}, {2, 1, "train", 201, 9, 1, 1, 0}, // three parts
		{0, 2, "lost", 5, 50, 1, 0, 1}, {1, 2, "lost", 101, 50, 1, 1, 1}, // its end is missing
		{1, 3, "crashed", 150, 0, 0, 0, 0},                               // a lone begin
		{0, 4, "twice", 10, 5, 1, 0, 0}, {0, 4, "twice", 20, 6, 1, 0, 0}, // ids that collide: two scopes
		{3, 1, "train", 0, 7, 1, 0, 0}, // a session of no run
	}
	s.Seed(sc, len(rows), func(b *table.Batch, i int) {
		r := rows[i]
		sc.Tenant.AppendString(b, "acme")
		sc.SessionID.AppendString(b, ids[r.session])
		sc.InstanceID.Append(b, r.instance)
		sc.Name.AppendString(b, r.name)
		sc.Path.AppendString(b, r.name)
		sc.StartedAt.Append(b, base+r.start)
		sc.DurationNS.Append(b, uint64(r.duration))
		sc.Matched.Append(b, r.matched)
		sc.Continued.Append(b, r.cont)
		sc.Cut.Append(b, r.cut)
	})
	s.Want(fmt.Sprintf("SELECT run_id, instance_id, name, toUnixTimestamp64Nano(started_at) - %d AS t, "+
		"toUnixTimestamp64Nano(ended_at) - %d, duration_ns, matched, parts, first_session_id, last_session_id FROM {db}.run_scopes "+
		"WHERE tenant = 'acme' AND run_id = 'run' ORDER BY instance_id, t", base, base), strings.Join([]string{
		"run\t1\ttrain\t0\t210\t208\t1\t3\ta\tc",
		"run\t2\tlost\t5\t151\t100\t0\t2\ta\tb",
		"run\t3\tcrashed\t150\t150\t0\t0\t1\tb\tb",
		"run\t4\ttwice\t10\t15\t5\t1\t1\ta\ta",
		"run\t4\ttwice\t20\t26\t6\t1\t1\ta\ta",
	}, "\n"))
	s.Want("SELECT DISTINCT run_id FROM {db}.run_scopes", "run")
}

func TestScopePaths(t *testing.T) {
	s := newStore(t, true)
	sc := table.Scopes
	paths := []string{"train", "train|fwd", "train|fwd", "train|fwd|conv", "lost|x", "lone"}
	s.Seed(sc, len(paths), func(b *table.Batch, i int) {
		session(sc.Head, b)
		sc.Name.AppendString(b, paths[i][strings.LastIndexByte(paths[i], '|')+1:])
		sc.Path.AppendString(b, paths[i])
		sc.Depth.Append(b, uint32(strings.Count(paths[i], "|")))
		sc.DurationNS.Append(b, []uint64{100, 30, 20, 12, 8, 0}[i])
		sc.Matched.Append(b, []uint8{1, 1, 1, 1, 1, 0}[i])
	})
	s.Want("SELECT path, depth, calls, total_ns, self_ns, unmatched FROM {db}.scope_paths WHERE tenant = 'acme' AND session_id = 's' "+
		"ORDER BY path", strings.Join([]string{
		"lone\t0\t0\t0\t0\t1",
		"lost|x\t1\t1\t8\t8\t0",
		"train\t0\t1\t100\t50\t0",
		"train|fwd\t1\t2\t50\t38\t0",
		"train|fwd|conv\t2\t1\t12\t12\t0",
	}, "\n"))
}

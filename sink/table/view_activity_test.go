package table_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// vendor declares the vendor of tenant acme's session.
func (s *store) vendor(id, vendor string) {
	s.Helper()
	se := table.Sessions
	s.Seed(se, 1, func(b *table.Batch, _ int) {
		se.Append(b, &table.SessionRow{HeadRow: acme(id), Vendor: vendor, ReceivedDay: today()})
	})
}

// A copy's kind depends on the vendor, which may come after it: then the text is found at read.
func TestMemcpyKindsFollowALateVendor(t *testing.T) {
	s := newStore(t, true)
	m, ms := table.Memcpys, table.MemcpyStats
	sessions, kinds := []string{"nv", "amd", "none", "other", "amd"}, []uint32{8, 3, 3, 3, 77}
	text := []string{"", "", "", "", "DtoD"} // the last is stored with its text, which stays
	s.Seed(m, 5, func(b *table.Batch, i int) {
		m.Tenant.AppendString(b, "acme")
		m.SessionID.AppendString(b, sessions[i])
		m.CopyKindID.Append(b, kinds[i])
		m.CopyKind.AppendString(b, text[i])
	})
	for part := range uint64(2) { // parts of one row, one insert each
		s.Seed(ms, 5, func(b *table.Batch, i int) {
			ms.Tenant.AppendString(b, "acme")
			ms.SessionID.AppendString(b, sessions[i])
			ms.Bucket.Append(b, tabletest.Received.Truncate(time.Minute).UnixNano())
			ms.CopyKindID.Append(b, kinds[i])
			ms.Calls.Append(b, 1+part)
			ms.Bytes.Append(b, 10)
			ms.TotalNS.Append(b, 100)
			ms.MinNS.Append(b, 7-part)
			ms.MaxNS.Append(b, 70+part)
		})
	}
	const q = "SELECT session_id, copy_kind_id, copy_kind FROM {db}.memcpys ORDER BY ALL"
	s.Want(q, "amd\t3\t\namd\t77\tDtoD\nnone\t3\t\nnv\t8\t\nother\t3\t")
	s.vendor("nv", "NVIDIA")
	s.vendor("amd", "")
	s.vendor("amd", "AMD")
	s.vendor("other", "Else")
	s.Want(q, "amd\t3\tDtoD\namd\t77\tDtoD\nnone\t3\t\nnv\t8\tDtoD\nother\t3\tkind_3")
	for range 2 {
		s.Want("SELECT session_id, copy_kind, calls, bytes, total_ns, min_ns, max_ns, bucket_s FROM {db}.memcpy_stats ORDER BY ALL",
			strings.Join([]string{
				"amd\tDtoD\t3\t20\t200\t6\t71\t1", "amd\tkind_77\t3\t20\t200\t6\t71\t1", "none\t\t3\t20\t200\t6\t71\t1",
				"nv\tDtoD\t3\t20\t200\t6\t71\t1", "other\tkind_3\t3\t20\t200\t6\t71\t1",
			}, "\n"))
		s.Exec("OPTIMIZE TABLE {db}.memcpy_stats_data FINAL")
	}
	// The view and the worker say the same of every code.
	for _, vendor := range []string{"NVIDIA", "AMD", "amd", "Else"} {
		s.vendor("codes", vendor)
		for code := range uint32(13) {
			s.Seed(m, 1, func(b *table.Batch, _ int) {
				m.Tenant.AppendString(b, "acme")
				m.SessionID.AppendString(b, "codes-"+vendor)
				m.CopyKindID.Append(b, code)
				m.CopyKind.AppendString(b, "")
			})
		}
		s.vendor("codes-"+vendor, vendor)
		var want []string
		for code := range uint32(13) {
			want = append(want, gpuflight.CopyKind(vendor, code))
		}
		s.Want("SELECT copy_kind FROM {db}.memcpys WHERE session_id = 'codes-"+vendor+"' ORDER BY copy_kind_id", strings.Join(want, "\n"))
	}
}

// Stacks, metrics and scopes are found whenever their names come.
func TestSyncsAndSamplesFindTheirNames(t *testing.T) {
	s := newStore(t, true)
	sy, st, pm, ps := table.Syncs, table.SyncStats, table.PMSamples, table.PMStats
	s.Seed(sy, 2, func(b *table.Batch, i int) {
		session(sy.Head, b)
		sy.FunctionID.Append(b, uint32(i+4))
		sy.SyncType.AppendString(b, gpuflight.SyncTypeName(uint8(i+3)))
		sy.SyncTypeID.Append(b, uint8(i+3))
	})
	for _, max := range []uint64{9, 5} {
		s.Seed(st, 2, func(b *table.Batch, i int) {
			session(st.Head, b)
			st.FunctionID.Append(b, uint32(i+4))
			st.SyncTypeID.Append(b, uint8(3*i+3))
			st.MaxNS.Append(b, max)
		})
	}
	s.Seed(pm, 1, func(b *table.Batch, _ int) {
		session(pm.Head, b)
		pm.MetricID.Append(b, 6)
		pm.ScopeNameID.Append(b, 0)
		pm.Value.Append(b, 12.3457)
	})
	const q = "SELECT function_id, sync_type, stack_trace FROM {db}.syncs ORDER BY ALL"
	s.Want(q, "4\tstream\t\n5\tcontext\t")
	s.name("function_dict", 4, "main|train|sync", 0) // known before or after: it makes no difference
	s.name("metric_dict", 6, "sm__warps_launched.sum", 1)
	s.name("metric_dict", 4, "no stack", 1)
	s.Want(q, "4\tstream\tmain|train|sync\n5\tcontext\t")
	s.Want("SELECT sync_type, stack_trace, calls, total_ns, max_ns FROM {db}.sync_stats ORDER BY ALL",
		"stream\tmain|train|sync\t2\t2\t9\ntype_6\t\t2\t2\t9")
	s.Want("SELECT metric_name, scope, value FROM {db}.pm_samples", "sm__warps_launched.sum\t\t12.3457")

	// Sums in parts: 12.3457 + 24.6914 + 1e12 - 0.5, however they are merged.
	for _, parts := range []struct {
		keys   []int16
		digits []uint64
		low    float64
	}{{[]int16{-7}, []uint64{123_457_000}, 12.3457}, {[]int16{-7, 4}, []uint64{246_914_000, 100_000_000}, 24.6914},
		{[]int16{-9 + table.NegativePart}, []uint64{500_000_000}, -0.5}} {
		s.Seed(ps, 1, func(b *table.Batch, _ int) {
			session(ps.Head, b)
			ps.MetricID.Append(b, 6)
			ps.Samples.Append(b, uint64(len(parts.keys)))
			ps.SumParts.AppendPairs(b, parts.keys, parts.digits)
			ps.MinValue.Append(b, parts.low)
			ps.MaxValue.Append(b, 2*parts.low)
		})
	}
	for range 2 {
		s.Want("SELECT metric_name, samples, sum_value, mean_value, min_value, max_value FROM {db}.pm_stats",
			"sm__warps_launched.sum\t4\t1000000000036.5371\t250000000009.13428\t-0.5\t49.3828")
		s.Exec("OPTIMIZE TABLE {db}.pm_stats_data FINAL")
	}
}

func TestFactViews(t *testing.T) {
	s := newStore(t, true)
	g, d, p, c, sc := table.GraphNodes, gpuflighttable.DeepWindowRules, table.PerfMetrics, gpuflighttable.PMConfigs,
		gpuflighttable.SassConfigs
	for chunk := range uint64(3) {
		s.Seed(g, 2, func(b *table.Batch, i int) {
			g.Append(b, &table.GraphNodeRow{HeadRow: acme("s"), GraphExecKey: []byte("0x1"), NodeIndex: uint32(i), NodeType: uint32(chunk),
				ReceivedDay: today()})
			b.FillTail(table.DayPartition{RetentionDays: 30}, 3, chunk)
		})
	}
	s.Want("SELECT graph_exec_key, node_index, node_type FROM {db}.graph_nodes ORDER BY ALL", "0x1\t0\t2\n0x1\t1\t2")
	s.Seed(d, 2, func(b *table.Batch, i int) {
		d.Append(b, &gpuflighttable.DeepWindowRuleRow{HeadRow: acme("s"), HasLastValue: uint8(i), LastValue: float64(i) * 55,
			ReceivedDay: today()})
	})
	s.Want("SELECT last_value FROM {db}.deep_window_rules ORDER BY 1", "55\n\\N")
	s.Seed(p, 2, func(b *table.Batch, i int) {
		p.Append(b, &table.PerfMetricRow{HeadRow: acme("s"), SMThroughputPct: []float64{-1, 50}[i], DRAMReadBytes: []int64{-1, 0}[i],
			ReceivedAt: tabletest.Received.UnixNano()})
	})
	s.Want("SELECT avg(sm_throughput_pct), avg(dram_read_bytes), count(dram_read_bytes) FROM {db}.perf_metrics", "50\t0\t1")
	s.Seed(c, 1, func(b *table.Batch, _ int) {
		c.Append(b, &gpuflighttable.PMConfigRow{HeadRow: acme("s"), Metrics: `["a","b\"\u00e9"]`, ReceivedDay: today()})
	})
	s.Want("SELECT length(metrics), metrics[2] FROM {db}.pm_configs", "2\tb\"é")
	s.Seed(sc, 1, func(b *table.Batch, _ int) {
		sc.Append(b, &gpuflighttable.SassConfigRow{HeadRow: acme("s"), ConfiguredMetrics: `["a","b"]`, SkippedMetrics: `[]`,
			ReceivedDay: today()})
	})
	s.Want("SELECT configured_metrics, skipped_metrics FROM {db}.sass_configs", "['a','b']\t[]")
}

// A question about one session reads that session alone, on the right sides of the joins too.
func TestActivityViewsReadOneSession(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 200_000 // more than a granule a session
	for name, columns := range map[string]string{"syncs_data": "function_id, received_at", "memcpys_data": "copy_kind_id, received_at",
		"pm_samples_data": "metric_id, received_at", "sync_stats_data": "function_id, received_day",
		"memcpy_stats_data": "copy_kind_id, received_day", "sessions_data": "pid, received_day", "dictionaries": "id, received_day"} {
		s.Exec("INSERT INTO {db}." + name + " (tenant, session_id, " + columns + ", retention_days) SELECT 'acme', toString(number % " +
			strconv.Itoa(sessions) + "), number, now(), 30 FROM numbers(" + strconv.Itoa(rows) + ")")
	}
	for _, view := range []string{"syncs", "memcpys", "pm_samples", "sync_stats", "memcpy_stats"} {
		read := strings.Fields(s.Query("SELECT table, rows FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}." + view +
			" WHERE tenant = 'acme' AND session_id = '7')) ORDER BY table"))
		if len(read) == 0 {
			t.Errorf("%s reads nothing", view)
		}
		for i := 0; i < len(read); i += 2 {
			if n, err := strconv.Atoi(read[i+1]); err != nil || n > rows/4 {
				t.Errorf("%s: %s of %d rows of %s are read, %v", view, read[i+1], rows, read[i], err)
			}
		}
	}
}

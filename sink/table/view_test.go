package table_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// name declares a dictionary entry of tenant acme, session s.
func (s *store) name(dict string, id uint32, value string, late uint8) {
	s.Helper()
	d := table.Dictionaries
	s.Seed(d, 1, func(b *table.Batch, _ int) {
		d.Tenant.AppendString(b, "acme")
		d.SessionID.AppendString(b, "s")
		d.Dict.AppendString(b, dict)
		d.ID.Append(b, id)
		d.Value.Append(b, value)
		d.Late.Append(b, late)
	})
}

// acme is how a row of a session of tenant acme begins, and today when it was received.
func acme(session string) table.HeadRow { return table.HeadRow{Tenant: "acme", SessionID: session} }
func today() int32                      { return table.DayOf(tabletest.Received.UnixNano()) }

func session(h table.Head, b *table.Batch) {
	h.Tenant.AppendString(b, "acme")
	h.SessionID.AppendString(b, "s")
}

// The columns that the contract promises, in its order, begin every view; types that only merges need do not show.
func TestViewsKeepTheContract(t *testing.T) {
	s := newStore(t, true)
	for name, columns := range map[string]string{
		"sessions":     "tenant session_id source app host pid started_at ended_at state run_id segment_index kernels samples",
		"devices":      "tenant session_id device_id uuid name vendor architecture sm_count",
		"dictionaries": "tenant session_id dict id value",
		"kernels": "tenant session_id started_at duration_ns kernel kernel_id stream_id corr_id device_id scope grid block " +
			"registers synthetic disturbed",
		"kernel_stats": "tenant session_id bucket kernel scope calls total_ns min_ns max_ns p50_ns p90_ns p99_ns",
		"scopes":       "tenant session_id instance_id name path depth started_at ended_at duration_ns matched",
		"scope_paths":  "tenant session_id path depth calls total_ns self_ns unmatched",
		"run_scopes":   "tenant run_id instance_id name path depth started_at ended_at duration_ns matched parts",
		"scope_stats": "tenant session_id bucket scope calls total_ns min_ns max_ns p50_ns p90_ns p99_ns unmatched_begin " +
			"unmatched_end self_ns kernels kernel_ns",
		"pc_samples": "tenant session_id bucket bucket_s cubin build_id function pc_offset sass stall_reason reason_kind " +
			"period_ns samples gpu_ns",
		"pc_lines": "tenant session_id bucket bucket_s cubin build_id function pc_offset sass stall_reason reason_kind " +
			"period_ns samples gpu_ns file line inline_chain symbol_status",
		"pc_stacks":       "tenant session_id bucket bucket_s stack_id frames function stall_reason reason_kind samples gpu_ns",
		"kernel_stacks":   "tenant session_id bucket bucket_s stack_id frames function calls kernel_ns",
		"kernel_stalls":   "tenant app host bucket function stall_reason samples",
		"line_stalls":     "tenant app host bucket file line stall_reason samples",
		"symbol_coverage": "tenant build_id symbol_status samples share",
		"cubins":          "tenant build_id status crcs sm size_bytes functions lines",
		"cubin_lines":     "tenant build_id function pc_from pc_to file line inline_chain",
		"session_labels":  "tenant session_id label value rows_folded",
		"profile_metrics": "tenant session_id function pc_offset metric_name metric_value scope file line",
		"stall_reasons":   "name kind group meaning remedy doc",
		"source_files":    "tenant session_id source_file_id path line text",
		"disassembly":     "tenant session_id cubin_crc function function_name pc_offset sass",
		"ptx":             "tenant session_id function_name arch ptx",
		"source_profile":  "tenant session_id function pc_offset file line source sass samples stalls top_stall metrics",
		"insights":        "tenant session_id rule severity category subject message metric value threshold share numbers",
		"memcpys":         "tenant session_id started_at duration_ns bytes copy_kind stream_id corr_id",
		"host_metrics":    "tenant session_id at cpu_pct ram_used_bytes ram_total_bytes",
		"device_metrics":  "tenant session_id at device_id gpu_util_pct mem_util_pct temp_c power_w used_bytes total_bytes clock_sm_mhz",
		"usage":           "tenant day source events bytes stored_bytes",
		"rejects":         "tenant at source reason detail payload_ref",
		"memsets":         "tenant session_id started_at ended_at duration_ns bytes name device_id stream_id corr_id",
		"syncs":           "tenant session_id started_at duration_ns sync_type stream_id event_id context_id corr_id stack_trace",
		"sync_stats":      "tenant session_id bucket sync_type stack_trace calls total_ns max_ns",
		"allocations":     "tenant session_id started_at duration_ns memory_op memory_kind address bytes device_id stream_id corr_id",
		"memcpy_stats":    "tenant session_id bucket copy_kind calls bytes total_ns min_ns max_ns",
		"markers":         "tenant session_id started_at ended_at duration_ns name domain marker_id",
		"graphs":          "tenant session_id started_at ended_at duration_ns graph_id device_id stream_id corr_id graph_exec_key",
		"graph_nodes":     "tenant session_id graph_exec_key node_index node_type dependency_count",
		"pm_samples":      "tenant session_id at device_id metric_name value scope",
		"pm_stats":        "tenant session_id bucket device_id metric_name scope samples sum_value mean_value min_value max_value",
		"extra_fields":    "tenant session_id at type batch_id field rows values reason",
		"ledger":          "lane first last table rows token attempt inserted_at",
	} {
		got := strings.Fields(s.Query("SELECT name FROM system.columns WHERE database = '{db}' AND table = '" + name +
			"' ORDER BY position"))
		if want := strings.Fields(columns); len(got) < len(want) || strings.Join(got[:len(want)], " ") != columns {
			t.Errorf("%s has %v, want %s first", name, got, columns)
		}
	}
	s.Want("SELECT table, name, type FROM system.columns WHERE database = '{db}' AND startsWith(type, 'Simple') AND table IN (SELECT "+
		"name FROM system.tables WHERE database = '{db}' AND engine = 'View')", "")
	s.Want("SELECT DISTINCT type FROM system.columns WHERE database = '{db}' AND NOT endsWith(table, '_data') AND (endsWith(name, "+
		"'_at') OR name IN ('at', 'bucket')) AND table != 'schema_history'", `DateTime64(9, \'UTC\')`)
	s.Want("SELECT DISTINCT type FROM system.columns WHERE database = '{db}' AND endsWith(name, '_ns') AND NOT endsWith(name, "+
		"'timestamp_ns') AND name != 'offset_ns' AND NOT endsWith(table, '_data')", "UInt64")
}

func TestKernelsView(t *testing.T) {
	s := newStore(t, true)
	k, l, c, d := table.Kernels, table.Launches, table.LaunchConfigs, table.KernelDetails
	s.Seed(k, 4, func(b *table.Batch, i int) {
		session(k.Head, b)
		k.CorrID.Append(b, uint32(i))
		k.LaunchID.Append(b, uint32(70+i))
		k.DeviceID.Append(b, -1)
	})
	s.Seed(l, 5, func(b *table.Batch, i int) { // the last is another session's
		l.Tenant.AppendString(b, "acme")
		l.SessionID.AppendString(b, []string{"s", "s", "s", "s", "other"}[i])
		l.LaunchID.Append(b, []uint32{70, 71, 72, 73, 71}[i])
		l.KernelID.Append(b, []uint32{1, 2, 3, 1, 9}[i])
		l.ConfigID.Append(b, []uint32{1, 0, 2, 0, 1}[i])
		l.Registers.Append(b, uint32(32+i))
		l.DynSharedBytes.Append(b, uint32(i))
	})
	s.Seed(c, 2, func(b *table.Batch, i int) {
		session(c.Head, b)
		c.ConfigID.Append(b, uint32(i+1))
		c.Grid.AppendString(b, fmt.Sprintf("(%d,1,1)", i+1))
		c.Block.AppendString(b, "(256,1,1)")
		c.UserScope.Append(b, []string{"train|step", "global"}[i])
	})
	// Details come late for row 1, and those of another session must not be taken for row 3.
	s.Seed(d, 2, func(b *table.Batch, i int) {
		d.Tenant.AppendString(b, "acme")
		d.SessionID.AppendString(b, []string{"s", "other"}[i])
		d.CorrID.Append(b, []uint32{1, 3}[i])
		d.ConfigID.Append(b, 1)
	})
	s.name("kernel_dict", 1, "early", 0)
	s.name("scope_name_dict", 3, "no kernel", 1)
	const q = "SELECT corr_id, kernel, kernel_id, config_id, grid, scope, device_id, registers, dyn_shared_bytes FROM {db}.kernels " +
		"WHERE tenant = 'acme' ORDER BY corr_id"
	s.Want(q+" LIMIT 1, 1", "1\t\t2\t1\t(1,1,1)\ttrain|step\t-1\t33\t1")
	s.name("kernel_dict", 2, "late", 1)
	s.Want(q, strings.Join([]string{
		"0\tearly\t1\t1\t(1,1,1)\ttrain|step\t-1\t32\t0",
		"1\tlate\t2\t1\t(1,1,1)\ttrain|step\t-1\t33\t1",
		"2\t\t3\t2\t(2,1,1)\t\t-1\t34\t2",
		"3\tearly\t1\t0\t\t\t-1\t35\t3",
	}, "\n"))
	s.Want("SELECT session_id, corr_id, grid, scope FROM {db}.kernel_details ORDER BY corr_id", "s\t1\t(1,1,1)\ttrain|step\nother\t3\t\t")
}

// A question about one session reads that session alone, on the right sides of the joins too.
func TestKernelsViewReadsOneSession(t *testing.T) {
	s := newStore(t, true)
	const sessions, rows = 20, 200_000 // more than a granule a session
	for name, columns := range map[string]string{"kernels_data": "corr_id, received_at", "launches": "launch_id, received_day",
		"launch_configs": "config_id, received_day", "kernel_details_data": "corr_id, received_at", "dictionaries": "id, received_day"} {
		s.Exec(fmt.Sprintf("INSERT INTO {db}.%s (tenant, session_id, %s, retention_days) SELECT 'acme', toString(number %% %d), "+
			"number, now(), 30 FROM numbers(%d)", name, columns, sessions, rows))
	}
	read := strings.Fields(s.Query("SELECT table, rows FROM viewExplain('EXPLAIN ESTIMATE', '', (SELECT * FROM {db}.kernels WHERE " +
		"tenant = 'acme' AND session_id = '7')) ORDER BY table"))
	if len(read) != 10 {
		t.Fatalf("the view reads %v, want five tables", read)
	}
	for i := 0; i < len(read); i += 2 {
		if n, err := strconv.Atoi(read[i+1]); err != nil || n > rows/4 {
			t.Errorf("%s: %s of %d rows are read, %v", read[i], read[i+1], rows, err)
		}
	}
}

// Rows of one kernel that were written before and after its name came are one.
func TestStatsViewsMergeLateNames(t *testing.T) {
	s := newStore(t, true)
	ks, ss := table.KernelStats, table.ScopeStats
	bucket := tabletest.Received.Truncate(time.Minute).UnixNano()
	names := []string{"", "gemm", "", ""}
	ids := []uint32{1, 1, 2, 3}
	var whole hist.Dense
	for i := range names { // one insert each, so that nothing is merged yet
		s.Seed(ks, 1, func(b *table.Batch, _ int) {
			session(ks.Head, b)
			ks.Bucket.Append(b, bucket)
			ks.BucketS.Append(b, 60)
			ks.Kernel.AppendString(b, names[i])
			ks.KernelID.Append(b, ids[i])
			ks.Scope.AppendString(b, "")
			var h hist.Dense
			for v := range uint64(50) {
				h.Add((v + 1) * uint64(i+1) * 1000)
			}
			if ids[i] == 1 {
				whole.Merge(&h)
			}
			ks.Calls.Append(b, 50)
			ks.TotalNS.Append(b, 50*51/2*uint64(i+1)*1000)
			ks.MinNS.Append(b, uint64(i+1)*1000)
			ks.MaxNS.Append(b, uint64(i+1)*50_000)
			ks.DurationHist.Append(b, &h)
		})
		s.Seed(ss, 1, func(b *table.Batch, _ int) {
			session(ss.Head, b)
			ss.Bucket.Append(b, bucket)
			ss.Scope.AppendString(b, names[i])
			ss.NameID.Append(b, ids[i])
			ss.Calls.Append(b, uint64(i%2)) // without calls there is no minimum
			ss.TotalNS.Append(b, uint64(i%2)*70)
			ss.MinNS.Append(b, []uint64{table.NoMin, 70}[i%2])
			ss.MaxNS.Append(b, uint64(i%2)*70)
			ss.DurationHist.AppendPairs(b, []int16{hist.Index(70)}[:i%2], []uint64{1}[:i%2])
		})
	}
	s.name("kernel_dict", 1, "gemm", 1)
	s.name("scope_name_dict", 1, "gemm", 1)
	check := func() {
		s.Helper()
		s.Want("SELECT kernel, kernel_id, calls, total_ns, min_ns, max_ns, p50_ns, p90_ns, p99_ns, bucket_s FROM {db}.kernel_stats "+
			"WHERE kernel != ''",
			fmt.Sprintf("gemm\t1\t100\t3825000\t1000\t100000\t%d\t%d\t%d\t60", whole.Quantile(0.5, 1000, 100000),
				whole.Quantile(0.9, 1000, 100000), whole.Quantile(0.99, 1000, 100000)))
		s.Want("SELECT kernel, kernel_id, calls FROM {db}.kernel_stats WHERE kernel = '' ORDER BY kernel_id", "\t2\t50\n\t3\t50")
		s.Want("SELECT scope, name_id, calls, min_ns, max_ns, p50_ns, unmatched_begin FROM {db}.scope_stats ORDER BY name_id",
			"gemm\t1\t1\t70\t70\t70\t2\n\t2\t0\t0\t0\t0\t1\n\t3\t1\t70\t70\t70\t1")
	}
	check()
	s.Exec("OPTIMIZE TABLE {db}.kernel_stats_data FINAL")
	s.Exec("OPTIMIZE TABLE {db}.scope_stats_data FINAL")
	check()
}

func TestScopesView(t *testing.T) {
	s := newStore(t, true)
	sc := table.Scopes
	s.Seed(sc, 3, func(b *table.Batch, i int) {
		session(sc.Head, b)
		sc.InstanceID.Append(b, uint64(i))
		sc.Name.AppendString(b, []string{"step", "", ""}[i])
		sc.NameID.Append(b, []uint32{1, 2, 2}[i])
		sc.Path.AppendString(b, []string{"train|step", "", "train|"}[i])
	})
	s.name("scope_name_dict", 2, "late", 1)
	s.Want("SELECT instance_id, name, path FROM {db}.scopes ORDER BY instance_id",
		"0\tstep\ttrain|step\n1\tlate\tlate\n2\tlate\ttrain|late")
}

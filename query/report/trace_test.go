package report_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/rivo/uniseg"

	"github.com/warpline/warpline/query/report"
)

// traceSlice is a row of trace_slices of a test; times are in us.
type traceSlice struct {
	kind, category, name  string
	at, took              int
	device, stream        int
	correlation, external int
	args                  string
}

const longKernel = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, std::array<char*, 3ul> >(int)"

// traceOf is a trace: two steps, each with an op that launches a kernel, an all-reduce beside it and a copy. late moves the all-reduce.
func traceOf(late, gemm int) (all []traceSlice) {
	for step := range 2 {
		t, c := 1000*step, 10*step
		launch := func(at, correlation int, kind, name string) traceSlice {
			return traceSlice{kind: kind, category: "cuda_runtime", name: name, at: t + at, took: 5, device: -1, stream: -1,
				correlation: c + correlation}
		}
		all = append(all,
			traceSlice{kind: "annotation", category: "user_annotation", name: fmt.Sprintf("ProfilerStep#%d", step+7), at: t, took: 900 + 50*step,
				device: -1, stream: -1},
			traceSlice{kind: "op", category: "cpu_op", name: "aten::mm", at: t + 10, took: 50, device: -1, stream: -1, external: 1 + c},
			launch(20, 1, "runtime", "cudaLaunchKernel"), launch(80, 2, "runtime", "cudaLaunchKernel"),
			launch(100, 3, "runtime", "cudaMemcpyAsync"), launch(200, 4, "driver", "cuLaunchKernel"),
			traceSlice{"kernel", "kernel", "gemm\x1b[31m", t + 30, gemm, 0, 7, c + 1, 0, ""},
			traceSlice{"kernel", "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", t + 150 + late, 100 - late, 0, 20, c + 2, 0,
				fmt.Sprintf(`{"Seq":%d,"Process Group Name":"dp"}`, step)},
			traceSlice{"memcpy", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", t + 300, 20, 0, 7, c + 3, 0, `{"bytes":4096}`},
			traceSlice{"kernel", "kernel", longKernel, t + 190, 5, 0, 7, c + 4, 0, ""})
	}
	return all
}

// store inserts a trace's rollups and, unless they have expired, its slices.
func store(t *testing.T, conn driver.Conn, session, job string, rank int, expired bool, all []traceSlice) {
	t.Helper()
	exec := func(sql string) {
		t.Helper()
		if err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%.80s: %v", sql, err)
		}
	}
	world := 0
	if rank >= 0 {
		world = 2
	}
	exec(fmt.Sprintf(`INSERT INTO sessions_data (tenant, session_id, source, app, host, started_at, ended_at, completed, run_id, place, `+
		`world_size, last_received_at) VALUES ('acme', '%s', 'trace', 'train.py', 'node-%d', '2026-11-20 12:00:00', '2026-11-20 12:00:01', 1, `+
		`'%s', %d, %d, now64())`, session, rank+1, job, rank+1, world))
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }
	var rows []string
	sums := map[string][]uint64{}
	for _, s := range all {
		rows = append(rows, fmt.Sprintf("('acme', '%s', toDateTime64('2026-11-20 12:00:00', 9, 'UTC') + toIntervalMicrosecond(%d), "+
			"%d, 'X', '%s', '%s', %s, '1', '1', %d, %d, %d, %d, %s)", session, s.at, 1000*s.took, s.kind, s.category, quoted(s.name),
			s.device, s.stream, s.correlation, s.external, quoted(s.args)))
		key := quoted(s.category) + ", " + quoted(s.name)
		sums[key] = append(sums[key], uint64(1000*s.took))
	}
	if !expired {
		exec("INSERT INTO trace_slices_data (tenant, session_id, started_at, duration_ns, phase, kind, category, name, pid, tid, device_id, " +
			"stream_id, correlation, external_id, args) VALUES " + strings.Join(rows, ", "))
	}
	rows = nil
	for _, key := range slices.Sorted(maps.Keys(sums)) {
		total := uint64(0)
		for _, ns := range sums[key] {
			total += ns
		}
		rows = append(rows, fmt.Sprintf("('acme', '%s', '2026-11-20 12:00:00', 60, %s, %d, %d, %d, %d, %s, today(), 400)", session, key,
			len(sums[key]), total, slices.Min(sums[key]), slices.Max(sums[key]), buckets(sums[key]...)))
	}
	exec("INSERT INTO trace_stats_data (tenant, session_id, bucket, bucket_s, category, name, calls, total_ns, min_ns, max_ns, " +
		"duration_hist, received_day, retention_days) VALUES " + strings.Join(rows, ", "))
}

func tracesFilled(t *testing.T) (conn driver.Conn, database string) {
	t.Helper()
	conn, database = filled(t)
	odd := traceOf(0, 50)
	odd[8].at -= 250 // the copy of the first step begins 50 us before its call
	odd[16].took = 80
	odd = append(odd, traceSlice{"kernel", "kernel", "only here", 1960, 7, 0, 7, 0, 0, ""})
	store(t, conn, "trace:night-0", "night", 0, false, odd)
	store(t, conn, "trace:night-1", "night", 1, false, traceOf(40, 50))
	store(t, conn, "trace:old", "", -1, true, traceOf(0, 70))
	store(t, conn, "trace:host-only", "", -1, false, traceOf(0, 70)[:2])
	return conn, database
}

// Every section of a job with two ranks, compared with a trace whose slices have expired; then lists, lone traces and unknown ones.
func TestTraceReport(t *testing.T) {
	conn, database := tracesFilled(t)
	t.Run("job", func(t *testing.T) { traceReportOfJob(t, conn, database) })
	t.Run("some", func(t *testing.T) { traceReportOfSome(t, conn, database) })
}

func traceReportOfJob(t *testing.T, conn driver.Conn, database string) {
	r, err := report.ReadTrace(t.Context(), conn, report.TraceQuery{Database: database, Tenant: "acme", Job: "night", Against: "old",
		Top: 20})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Breakdown) != 2 || r.Breakdown[0] != (report.TraceBreakdown{Session: "trace:night-0", Rank: 0, SpanNS: 1937000, BusyNS: 357000,
		IdleNS: 1580000, ComputeNS: 147000, CommunicationNS: 200000, MemoryNS: 40000, OverlapNS: 10000}) {
		t.Errorf("breakdowns are %+v", r.Breakdown)
	}
	if l := r.Launched; l != (report.TraceLaunched{Work: 17, Launched: 16, Slow: 5, Inverted: 5}) || len(r.Inverted) != 5 ||
		r.Inverted[0].EarlyNS != 50000 || r.Slow[0].DelayNS != 195000 {
		t.Errorf("launches are %+v, slow %+v, inverted %+v", l, r.Slow, r.Inverted)
	}
	if len(r.Collectives) != 1 || r.Collectives[0] != (report.TraceCollective{Job: "night", ProcessGroup: "dp",
		Name: "ncclDevKernel_AllReduce_Sum_f32_RING_LL", Count: 2, Ranks: 2, MeanSkewNS: 40000, LongestSkewNS: 40000, SkewNS: 80000,
		TransferNS: 120000, LateRank: 1, LateCount: 2}) || len(r.Late) != 1 ||
		r.Late[0] != (report.TraceLate{Rank: 1, Count: 2, SkewNS: 80000}) {
		t.Errorf("collectives are %+v, late are %+v", r.Collectives, r.Late)
	}
	if len(r.Steps) != 4 || r.Steps[0].BusyNS == 0 || r.Steps[1].Step != 8 || r.Steps[3].DurationNS != 950000 {
		t.Errorf("steps are %+v", r.Steps)
	}
	for _, c := range []struct {
		name string
		want report.TraceChange
	}{{"only here", report.TraceChange{State: "new", ChangeNS: 7000, Calls: 1, TotalNS: 7000}},
		{"gemm\x1b[31m", report.TraceChange{ChangeNS: 90000, Calls: 4, BaseCalls: 2, TotalNS: 230000, BaseTotalNS: 140000, P50NS: 50000}}} {
		i := slices.IndexFunc(r.Changed, func(x report.TraceChange) bool { return x.Name == c.name })
		if i < 0 || r.Changed[i].State != c.want.State || r.Changed[i].ChangeNS != c.want.ChangeNS || r.Changed[i].Calls != c.want.Calls ||
			r.Changed[i].BaseCalls != c.want.BaseCalls || r.Changed[i].BaseTotalNS != c.want.BaseTotalNS {
			t.Errorf("%s changed to %+v", c.name, r.Changed)
		}
	}
	for name, style := range map[string]report.Style{"trace-wide": {Width: 100}, "trace-narrow": {Width: 60}, "trace-forty": {Width: 40}} {
		var out bytes.Buffer
		if err := r.Print(&out, style); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".golden.txt", out.Bytes())
		for line := range strings.Lines(out.String()) {
			if n := uniseg.StringWidth(strings.TrimRight(line, "\n")); n > style.Width {
				t.Errorf("%s: line of %d cells: %s", name, n, line)
			}
		}
		if strings.ContainsRune(out.String(), '\x1b') {
			t.Errorf("%s: an escape sequence of a trace got through", name)
		}
	}
	js, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "trace.golden.json", append(js, '\n'))
}

const topOps = "and in no op within op calls kernels copies on GPUs a call aten::mm 2 2 0 100 µs 50.0 µs"

func traceReportOfSome(t *testing.T, conn driver.Conn, database string) {
	for name, c := range map[string]struct {
		q    report.TraceQuery
		say  []string
		hide string
	}{
		"a list":           {report.TraceQuery{Top: 3}, []string{"latest 3 of 4", "trace --session ID", "trace:night-1"}, "Top kernels"},
		"a rank":           {report.TraceQuery{Session: "night-1"}, []string{"--job night", topOps, "ProfilerStep#7"}, "What changed"},
		"slices are gone":  {report.TraceQuery{Session: "trace:old"}, []string{"have expired", "gemm", "cudaLaunchKernel"}, "Queues"},
		"no work of GPUs":  {report.TraceQuery{Session: "host"}, []string{"ProfilerActivity.CUDA", "aten::mm"}, "Top kernels"},
		"gone from a rank": {report.TraceQuery{Session: "night-1", Against: "night-0"}, []string{"only here kernel −7.00 µs gone"}, "new"},
		"with itself":      {report.TraceQuery{Session: "night-1", Against: "night-1"}, []string{"Nothing: all names"}, "gone"},
		"without traces":   {report.TraceQuery{Tenant: "other"}, []string{"No traces", "warpline send"}, "Top kernels"},
	} {
		c.q.Database = database
		r, err := report.ReadTrace(t.Context(), conn, c.q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var out bytes.Buffer
		if err := r.Print(&out, report.Style{Width: 200}); err != nil {
			t.Fatal(err)
		}
		words := strings.Join(strings.Fields(out.String()), " ")
		for _, want := range c.say {
			if !strings.Contains(words, want) {
				t.Errorf("%s: it does not say %q:\n%s", name, want, out.String())
			}
		}
		if strings.Contains(words, c.hide) {
			t.Errorf("%s: it says %q:\n%s", name, c.hide, out.String())
		}
	}
	general, err := report.Read(t.Context(), conn, report.Query{Database: database, Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := general.Print(&out, report.Style{Width: 200}); err != nil || !strings.Contains(out.String(), "4 Chrome traces of them: "+
		`"warpline report trace --session trace:old"`) || !strings.Contains(out.String(), "trace_slices 43") {
		t.Errorf("%v: the general report does not say how to go on:\n%s", err, out.String())
	}
	out.Reset()
	large := &report.Trace{Query: report.TraceQuery{Session: "x"}, Traces: []report.TraceSession{{Session: "trace:x"}},
		Skipped: []string{"ops"}}
	if err := large.Print(&out, report.Style{}); err != nil || !strings.Contains(out.String(), "ops, at least of one trace: more than") {
		t.Errorf("%v: it does not say what was left out:\n%s", err, out.String())
	}
	for _, c := range []struct {
		q   report.TraceQuery
		say []string
	}{
		{report.TraceQuery{Session: "nigt-1"}, []string{`session "nigt-1"`, "near it are trace:night-1, trace:night-0",
			"warpline report trace"}},
		{report.TraceQuery{Job: "nite"}, []string{`job "nite"`, "near it are night:"}},
		{report.TraceQuery{Session: "old", Against: "older"}, []string{`session "older"`, "trace:old"}},
		{report.TraceQuery{Session: "11111111"}, []string{"of source gpu-flight", "warpline report --session"}},
		{report.TraceQuery{Session: "x", Tenant: "other"}, []string{`tenant "other"`, "warpline send"}},
	} {
		c.q.Database = database
		_, err := report.ReadTrace(t.Context(), conn, c.q)
		var unknown *report.UnknownTraceError
		if !errors.As(err, &unknown) {
			t.Errorf("%+v: %v", c.q, err)
			continue
		}
		for _, want := range c.say {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v does not say %q", c.q, err, want)
			}
		}
	}
}

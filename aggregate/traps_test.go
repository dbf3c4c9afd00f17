package aggregate_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// Each trap of the wire has a test that is named after it. The lines are in the client's manner.

// foldLines folds bodies as windows of one session, in their order, each as one part, and returns what they are in SQL.
func foldLines(t *testing.T, session string, bodies ...string) *database {
	t.Helper()
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, aggregate.Config{RawWait: 200 * time.Millisecond, DetailWait: 200 * time.Millisecond})
	var events uint64
	for i, body := range bodies {
		publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprint("w", i)}, []byte(body))
		for line := range bytes.Lines([]byte(body)) {
			events += uint64(gpuflight.CountEvents(line))
		}
	}
	waitFor(t, s, "all folded", func(sum totals) bool { return sum["usage_data.events"] == events })
	stop()
	return loadViews(t, s)
}

const trapBase = int64(1795175929000000000) // 2026-11-20 11:58:49 UTC

// kernelBatch has rows of start (ns behind trapBase), kernel, duration and corr id.
func kernelBatch(session string, id int, rows ...[4]int64) string {
	var cells []string
	for _, r := range rows {
		cells = append(cells, fmt.Sprintf("[%d,%d,7,%d,%d,0,32,0,0,0]", r[0], r[1], r[2], r[3]))
	}
	return fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":%q,"batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
		`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details","external_kind","external_id"],"rows":[%s]}`+"\n",
		session, id, trapBase, strings.Join(cells, ","))
}

func kernelNames(session string) string {
	return lifeLine("dictionary_update", session, `"kernel_dict":{"1":"gemm","2":"scan"}`)
}

func capabilities(session, mode string) string {
	return lifeLine("capture_capabilities", session, fmt.Sprintf(`"ts_ns":%d,"requested_engine":"nvidia.pc_sampling",`+
		`"selected_engine":"nvidia.pc_sampling","capabilities":[{"feature":"kernel_events","requested":true,"status":"fallback","mode":%q,`+
		`"reason_code":"activity_unavailable","message":"no activity beside sampling"},{"feature":"pc_sampling","requested":true,`+
		`"status":"collected","mode":"","reason_code":"","message":""}]`, trapBase+5e9, mode))
}

func TestTrapSyntheticDurationsAreKeptOutOfStatistics(t *testing.T) {
	rows := kernelBatch("s", 1, [4]int64{0, 1, 100, 1}, [4]int64{10, 1, 300, 2})
	fact := capabilities("s", "launch_callbacks_synthetic")
	for _, bodies := range [][]string{{kernelNames("s"), rows, fact}, {fact, rows, kernelNames("s")}, {kernelNames("s") + rows + fact + fact,
		fact}} {
		d := foldLines(t, "s", bodies...)
		d.want("SELECT corr_id, duration_ns, synthetic, disturbed FROM kernels ORDER BY corr_id", "1\t100\t1\t0\n2\t300\t1\t0")
		d.want("SELECT kernel, calls, total_ns, min_ns, max_ns, p50_ns, p99_ns, synthetic_calls, disturbed_calls FROM kernel_stats",
			"gemm\t0\t0\t0\t0\t0\t0\t2\t0")
		d.want("SELECT feature, requested_engine, selected_engine, requested, status, mode, reason_code, message FROM capture_capabilities "+
			"ORDER BY feature",
			"kernel_events\tnvidia.pc_sampling\tnvidia.pc_sampling\t1\tfallback\tlaunch_callbacks_synthetic\tactivity_unavailable\tno activity "+
				"beside sampling\n"+
				"pc_sampling\tnvidia.pc_sampling\tnvidia.pc_sampling\t1\tcollected\t\t\t")
		d.want("SELECT synthetic_durations, kernels FROM sessions", "1\t2")
	}
	d := foldLines(t, "s", rows+capabilities("s", "cupti_activity"))
	d.want("SELECT sum(calls), sum(synthetic_calls) FROM kernel_stats", "2\t0")
	d.want("SELECT synthetic_durations FROM sessions", "0")
}

func TestTrapDeepWindowDisturbsTheKernelsInIt(t *testing.T) {
	window := fmt.Sprintf(`{"type":"deep_window_event","pid":4242,"app":"a","session_id":"s","name":"deep","close_reason":"deadline",`+
		`"engines":["nvidia.pm_sampling","nvidia.sass_metrics"],"start_ns":%d,"end_ns":%d,"duration_ns":1000,"launches_covered":3,`+
		`"requested_duration_ms":5,"requested_max_launches":9,"trigger":{"rule_id":"r1","metric":"gpu_util","op":"<","threshold":30,`+
		`"rearm_threshold":40,"observed":12.5,"rate_window_ms":1000,"sustained_ms":2000,"first_true_ns":%d,"fired_ns":%d}}`+"\n",
		trapBase+1000, trapBase+2000, trapBase-1000, trapBase-500)
	rows := kernelBatch("s", 1, [4]int64{0, 1, 999, 1}, [4]int64{0, 1, 1000, 2}, [4]int64{1500, 1, 10, 3}, [4]int64{2000, 2, 10, 4},
		[4]int64{2001, 2, 10, 5})
	for _, bodies := range [][]string{{kernelNames("s"), rows, window}, {window, rows, kernelNames("s")}} {
		d := foldLines(t, "s", bodies...)
		d.want("SELECT corr_id, disturbed FROM kernels ORDER BY corr_id", "1\t0\n2\t1\n3\t1\n4\t1\n5\t0")
		d.want("SELECT kernel, calls, total_ns, min_ns, max_ns, disturbed_calls, disturbed FROM kernel_stats ORDER BY kernel",
			"gemm\t1\t999\t999\t999\t2\t1\nscan\t1\t10\t10\t10\t1\t1")
		d.want("SELECT name, close_reason, engines, toUnixTimestamp64Nano(started_at), toUnixTimestamp64Nano(ended_at), duration_ns, "+
			"launches_covered, requested_duration_ms, requested_max_launches, trigger_rule_id, trigger_metric, trigger_op, threshold, "+
			"rearm_threshold, observed, rate_window_ms, sustained_ms, toUnixTimestamp64Nano(first_true_at), toUnixTimestamp64Nano(fired_at) "+
			"FROM deep_windows",
			fmt.Sprintf("deep\tdeadline\t['nvidia.pm_sampling',"+
				"'nvidia.sass_metrics']\t%d\t%d\t1000\t3\t5\t9\tr1\tgpu_util\t<\t30\t40\t12.5\t1000\t2000\t%d\t%d", trapBase+1000, trapBase+2000,
				trapBase-1000, trapBase-500))
	}
	// What is no window is a reject, and disturbs nothing.
	d := foldLines(t, "s", kernelNames("s")+rows+strings.Replace(window, `"end_ns":`, `"end_ns":1,"was":`, 1)+strings.Replace(window,
		fmt.Sprint(trapBase+2000), fmt.Sprint(trapBase+2e13), 1)+strings.Replace(window, `"start_ns"`, `"begin_ns"`, 1))
	d.want("SELECT reason FROM rejects ORDER BY reason", "bad_time\nnegative_duration\nout_of_range")
	d.want("SELECT sum(calls), sum(disturbed_calls), (SELECT count() FROM deep_windows) FROM kernel_stats", "5\t0\t0")
}

// The client writes lines of the session's life to four channels, rows of the source map among them.
func TestTrapFourfoldLinesCountOnce(t *testing.T) {
	d := foldToViews(t, vectorWindows(t, "trace_default"), nil)
	d.want("SELECT count(), count(DISTINCT dict, id) = count() FROM dictionaries", strings.TrimSpace(d.post("SELECT count(DISTINCT dict, "+
		"id) FROM dictionaries", nil))+"\t1")
	d.want("SELECT (SELECT count() FROM devices_data), (SELECT count() FROM session_ends), (SELECT count() FROM capture_capabilities), "+
		"(SELECT count() FROM deep_windows)", "2\t1\t2\t1")
	d.want("SELECT DISTINCT hits FROM source_map", "1")
	d.want("SELECT count() > 0 FROM source_map", "1")
}

// A sampler that starts again numbers its batches from 1 again: they are other batches.
func TestTrapBatchIDsRepeat(t *testing.T) {
	windows := vectorWindows(t, "scoped")
	rows, first := 0, 0
	for _, w := range windows {
		for line := range bytes.Lines(w.lines) {
			if bytes.Contains(line, []byte(`"type":"device_metric_batch"`)) {
				rows += gpuflight.CountEvents(line)
				first += bytes.Count(line, []byte(`"batch_id":1,`))
			}
		}
	}
	if first < 2 {
		t.Fatalf("only %d batches are numbered 1: the vectors do not show the trap", first)
	}
	d := foldToViews(t, append(windows, windows...), nil)
	d.want("SELECT count() FROM device_metrics", fmt.Sprint(rows))
}

// A batch counts from its first row, which need not be the earliest.
func TestTrapNegativeDt(t *testing.T) {
	d := foldLines(t, "s", kernelNames("s")+kernelBatch("s", 1, [4]int64{0, 1, 5, 1}, [4]int64{-250, 1, 5, 2}, [4]int64{-2 * trapBase, 1, 5,
		3}))
	d.want("SELECT corr_id, toUnixTimestamp64Nano(started_at) FROM kernels ORDER BY started_at", fmt.Sprintf("2\t%d\n1\t%d", trapBase-250,
		trapBase))
	d.want("SELECT reason, events FROM rejects", "bad_time\t1") // before 1970
	d.want("SELECT toUnixTimestamp64Nano(started_at) FROM sessions", fmt.Sprint(trapBase-250))
}

// Window 4 of a channel uses names that only window 1 told, and the worker was another one then.
func TestTrapDictionariesOnlyInEarlyWindows(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "s", Identity: "device.1"}, []byte(kernelNames("s")+kernelBatch("s", 1, [4]int64{0, 1, 5, 1})))
	waitFor(t, s, "the first window", func(sum totals) bool { return sum["kernels_data"] == 1 })
	stop()
	stop = start(t, s, fast)
	publish(t, s, stream.Envelope{Session: "s", Identity: "device.4"}, []byte(kernelBatch("s", 9, [4]int64{7, 2, 5, 2}, [4]int64{9, 1, 5, 3})))
	waitFor(t, s, "the last window", func(sum totals) bool { return sum["kernels_data"] == 3 && sum["kernel_stats_data.calls"] == 3 })
	stop()
	d := loadViews(t, s)
	d.want("SELECT corr_id, kernel FROM kernels ORDER BY corr_id", "1\tgemm\n2\tscan\n3\tgemm")
	d.want("SELECT kernel, sum(calls) FROM kernel_stats GROUP BY kernel ORDER BY kernel", "gemm\t2\nscan\t1")
	d.want("SELECT DISTINCT kernel FROM kernel_stats_data ORDER BY kernel", "gemm\nscan") // known when they were counted
}

// No kernel row says on which device it ran: with one device it is that one, with two nobody knows.
func TestTrapNoDeviceIDOnKernelRows(t *testing.T) {
	job := func(ids ...int) string {
		var devices []string
		for _, id := range ids {
			devices = append(devices, fmt.Sprintf(`{"id":%d,"name":"H100","uuid":"GPU-%d","vendor":"NVIDIA","total_mib":81559}`, id, id))
		}
		return lifeLine("job_start", "s", fmt.Sprintf(`"pid":1,"app":"a","ts_ns":%d,"hostname":"h","ip_addr":"192.0.2.1","devices":[%s],`+
			`"gpu_static_devices":[]`, trapBase, strings.Join(devices, ",")))
	}
	for _, c := range []struct {
		job, want string
	}{{job(3), "3"}, {job(0, 1), "-1"}, {"", "-1"}} {
		foldLines(t, "s", c.job+kernelBatch("s", 1, [4]int64{0, 1, 5, 1})).want("SELECT device_id FROM kernels", c.want)
	}
}

// Rows of the source map are no samples and no counters, and their clock is none of this world.
func TestTrapISASourceMapRows(t *testing.T) {
	names := lifeLine("dictionary_update", "s", `"function_dict":{"1":"gemm@gemm.cu"},"metric_dict":{"8":"isa_inst_present"},`+
		`"source_file_dict":{"1":"/src/gemm.cu"}`)
	rows := `{"version":1,"type":"profile_sample_batch","session_id":"s","batch_id":1000001,"base_time_ns":1378593822305,` +
		`"columns":["dt_ns","corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind",` +
		`"scope_name_id","source_file_id","source_line"],"rows":[[0,0,0,1,0,8,1,0,2,0,1,2],[0,0,0,1,16,8,1,0,2,0,1,3]]}` + "\n"
	d := foldLines(t, "s", names+rows, names+rows, names+rows+kernelBatch("s", 1, [4]int64{0, 1, 5, 1}))
	d.want("SELECT function, pc_offset, file, line, hits FROM source_map ORDER BY pc_offset",
		"gemm\t0\t/src/gemm.cu\t2\t1\ngemm\t16\t/src/gemm.cu\t3\t1")
	d.want("SELECT (SELECT count() FROM pc_samples), (SELECT count() FROM profile_metrics)", "0\t0")
	d.want("SELECT toUnixTimestamp64Nano(started_at), samples FROM sessions", fmt.Sprintf("%d\t0", trapBase))
}

// Ids and counters use all 64 bits.
func TestTrapUint64Values(t *testing.T) {
	const big = "17452669531790757359"
	kernel := strings.Replace(kernelBatch("s", 1, [4]int64{0, 1, 5, 1}), "0,32,0,0,0]", "0,32,0,4,"+big+"]", 1)
	counter := fmt.Sprintf(`{"version":1,"type":"profile_sample_batch","session_id":"s","batch_id":1,"base_time_ns":%d,"columns":["dt_ns",`+
		`"corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind","scope_name_id",`+
		`"source_file_id","source_line"],"rows":[[0,0,0,1,18446744073709551615,8,%s,0,1,0,0,0]]}`+"\n", trapBase, big)
	d := foldLines(t, "s", kernel+counter)
	d.want("SELECT external_kind, external_id FROM kernels", "4\t"+big)
	d.want("SELECT pc_offset, metric_value FROM profile_metrics", "18446744073709551615\t"+big)
}

// A process that crashed leaves a last line that is torn; the lines before it count.
func TestTrapTornLastLine(t *testing.T) {
	whole := kernelBatch("s", 1, [4]int64{0, 1, 5, 1})
	torn := kernelBatch("s", 2, [4]int64{9, 1, 5, 2}, [4]int64{19, 1, 5, 3})
	d := foldLines(t, "s", kernelNames("s")+whole+torn[:len(torn)-20])
	d.want("SELECT count() FROM kernels", "1")
	d.want("SELECT reason, type, sum(events), min(startsWith(payload, '{\"version\":1')) FROM rejects GROUP BY reason, type",
		"bad_json\tkernel_event_batch\t2\t1")
}

// Two counters number scopes, both from 1: a pair is told by its name too.
func TestTrapScopeInstancesCollide(t *testing.T) {
	names := lifeLine("dictionary_update", "s", `"scope_name_dict":{"1":"step","2":"deep_window"}`)
	// Columns of today; the end of the deep window carries its own end as original start.
	rows := fmt.Sprintf(`{"version":3,"type":"scope_event_batch","session_id":"s","batch_id":1,"base_time_ns":%d,"columns":["dt_ns",`+
		`"scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"],"rows":[[0,1,1,0,0,0,0,%[1]d],[10,1,2,0,0,`+
		`0,0,%[2]d],[100,1,1,1,0,0,0,%[1]d],[310,1,2,1,0,0,0,%[3]d]]}`+"\n", trapBase, trapBase+10, trapBase+310)
	d := foldLines(t, "s", names+rows)
	d.want("SELECT name, instance_id, duration_ns, matched FROM scopes ORDER BY name", "deep_window\t1\t300\t1\nstep\t1\t100\t1")
	d.want("SELECT scope, calls, total_ns, unmatched_begin, unmatched_end FROM scope_stats ORDER BY scope",
		"deep_window\t1\t300\t0\t0\nstep\t1\t100\t0\t0")
}

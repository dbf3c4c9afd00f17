package aggregate_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

const epoch = int64(1795175929972803352)

// olderLines makes a session of older lines of every type, in the order a client would write them.
func olderLines(n int) []string {
	r := rand.New(rand.NewPCG(7, 7))
	lines := []string{fmt.Sprintf(`{"type":"init","pid":42,"app":"resnet","session_id":"s","ts_ns":%d,"hostname":"h","system_rate_ms":100,`+
		`"devices":[{"id":0,"uuid":"u0"},{"id":1,"uuid":"u1"}],"cuda_static_devices":[{"id":0,"multi_processor_count":132,"compute_major":"9",`+
		`"compute_minor":"0"}]}`, epoch)}
	at := epoch
	depth := []string{}
	head := `"pid":42,"app":"resnet","session_id":"s"`
	for i := range n {
		at += r.Int64N(2e9) // over some minutes
		scope := "global"
		if len(depth) > 0 {
			scope = strings.Join(depth, "|")
		}
		switch r.IntN(10) {
		case 0, 1, 2:
			lines = append(lines, fmt.Sprintf(`{"type":"kernel_event",%s,"name":"void k%d<\"x\">()","platform":"CUDA","has_details":true,`+
				`"device_id":%d,"stream_id":"%d","start_ns":%d,"end_ns":%d,"grid":"(%d,1,1)","block":"(128,1,1)","num_regs":32,"occupancy":0.5,`+
				`"limiting_resource":"REGISTERS","corr_id":%d,"user_scope":"%s","stack_trace":""}`,
				head, r.IntN(20), r.IntN(2), 7+r.IntN(3), at, at+r.Int64N(1e6), 1+r.IntN(4), i, scope))
		case 3:
			kind := []string{`"HtoD"`, `"Device to Host"`, `"cudaMemcpyDeviceToDevice"`, `"sideways"`, `1`}[r.IntN(5)]
			lines = append(lines, fmt.Sprintf(`{"type":"memcpy_event",%s,"name":"memcpy","device_id":0,"stream_id":9,"start_ns":%d,"end_ns":%d,`+
				`"corr_id":%d,"bytes":%d,"copy_kind":%s,"src_kind":"pageable"}`, head, at, at+r.Int64N(1e6), i, r.IntN(1<<20), kind))
		case 4:
			if len(depth) < 4 {
				depth = append(depth, []string{"train", "step"}[r.IntN(2)]) // a scope within one of its own name, too
				lines = append(lines, fmt.Sprintf(`{"type":"scope_begin",%s,"name":"%s","tag":"","ts_ns":%d,"user_scope":"%s","scope_depth":%d}`, head,
					depth[len(depth)-1], at, strings.Join(depth, "|"), len(depth)-1))
			}
		case 5:
			if k := len(depth); k > 0 {
				lines = append(lines, fmt.Sprintf(`{"type":"scope_end",%s,"name":"%s","ts_ns":%d,"user_scope":"%s","scope_depth":%d}`, head, depth[k-1],
					at, scope, k-1))
				depth = depth[:k-1]
			}
		case 6:
			pc := fmt.Sprintf(`"sample_count":%d,"stall_reason":%s`, r.IntN(9), []string{`4`, `"MEM_DEPENDENCY"`,
				`3,"reason_name":"smsp__pcsamp_warps_issue_stalled_wait"`}[r.IntN(3)])
			metric := fmt.Sprintf(`"metric_name":"smsp__sass_inst_executed","metric_value":%d`, r.IntN(1e6))
			lines = append(lines, fmt.Sprintf(`{"type":"profile_sample",%s,"ts_ns":%d,"device_id":0,"corr_id":1,%s,"pc_offset":"0x%x",`+
				`"source_file":"a.cu","function_name":"f@a.cu","source_line":%d}`, head, at, []string{pc, metric, pc + "," + metric}[r.IntN(3)],
				r.IntN(64)*16, r.IntN(9)))
		case 7:
			lines = append(lines, fmt.Sprintf(`{"type":"system_sample",%s,"name":"tick","ts_ns":%d,"host":{"cpu_pct":%d.5,"ram_used_mib":%d,`+
				`"ram_total_mib":1024},"devices":[{"id":0,"used_mib":%d,"free_mib":1,"util_gpu":%d,"power_mw":1000},{"id":1,"total_mib":9,`+
				`"util_gpu_pct":7,"clk_sm_mhz":5}]}`, head, at, r.IntN(90), r.IntN(1000), r.IntN(1000), r.IntN(100)))
		case 9:
			lines = append(lines, fmt.Sprintf(`{"type":"memory_alloc_event",%s,"start_ns":%d,"duration_ns":0,"memory_op":1,"memory_kind":3,`+
				`"address":%d,"bytes":%d,"device_id":0,"stream_id":0,"corr_id":5}`, head, at, uint64(1)<<63+uint64(i), r.IntN(1<<20)))
		case 8:
			lines = append(lines, fmt.Sprintf(`{"type":"synchronization_event",%s,"start_ns":%d,"end_ns":%d,"sync_type":"stream",`+
				`"stack_trace":"main|sync"}`, head, at, at+5))
		}
	}
	return lines
}

// oracle is what the tables have to add up to, read off the lines with encoding/json.
func oracle(t *testing.T, lines []string) totals {
	t.Helper()
	want := totals{}
	open := map[string]int64{}
	for _, line := range lines {
		var v struct {
			Type, Name, Grid string
			Start            uint64 `json:"start_ns"`
			End              uint64 `json:"end_ns"`
			At               int64  `json:"ts_ns"`
			Scope            string `json:"user_scope"`
			Corr             uint64 `json:"corr_id"`
			Bytes, Device    uint64
			Kind             any     `json:"copy_kind"`
			Stall            any     `json:"stall_reason"`
			Reason           string  `json:"reason_name"`
			Count            *uint64 `json:"sample_count"`
			Value            *uint64 `json:"metric_value"`
			Host             map[string]float64
			Devices          []map[string]any
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatal(err, line)
		}
		want["usage_data.events"]++
		switch v.Type {
		case "kernel_event":
			want["kernels_data"]++
			want["kernel_stats_data.calls"]++
			want["sessions_data.kernels"]++
			want["kernels_data.kernel="+v.Name]++
			want["kernels_data.scope="+v.Scope]++
			want["kernels_data.corr_id"] += v.Corr
			want["kernels_data.started_at"] += v.Start
			want["kernels_data.duration_ns"] += v.End - v.Start
			want["kernel_stats_data.total_ns"] += v.End - v.Start
		case "memcpy_event":
			want["memcpys_data"]++
			want["memcpy_stats_data.calls"]++
			want["memcpy_stats_data.bytes"] += v.Bytes
			want["memcpy_stats_data.total_ns"] += v.End - v.Start
			want["memcpys_data.bytes"] += v.Bytes
			want["memcpys_data.duration_ns"] += v.End - v.Start
			kind := map[any]string{"HtoD": "HtoD", "Device to Host": "DtoH", "cudaMemcpyDeviceToDevice": "DtoD", "sideways": "sideways",
				1.0: "HtoD"}[v.Kind]
			want["memcpys_data.copy_kind="+kind]++
		case "scope_begin":
			open[v.Scope] = v.At
		case "scope_end":
			want["scopes_data"]++
			want["scopes_data.matched"]++
			want["scope_stats_data.calls"]++
			want["scopes_data.path="+v.Scope]++
			want["scopes_data.duration_ns"] += uint64(v.At - open[v.Scope])
			want["scope_stats_data.total_ns"] += uint64(v.At - open[v.Scope])
			delete(open, v.Scope)
		case "profile_sample":
			if v.Count != nil {
				want["pc_samples_data.samples"] += *v.Count
				want["pc_samples_data.hits"]++
				want["sessions_data.samples"] += *v.Count
			}
			if v.Value != nil {
				want["profile_metrics_data.metric_value"] += *v.Value
				want["profile_metrics_data.hits"]++
			}
		case "system_sample":
			want["host_metrics_data"]++
			want["host_metrics_1m_data.samples"]++
			want["host_metrics_data.ram_used_bytes"] += uint64(v.Host["ram_used_mib"]) << 20
			want["device_metrics_data"] += uint64(len(v.Devices))
			want["device_metrics_1m_data.samples"] += uint64(len(v.Devices))
			for _, d := range v.Devices {
				used, _ := d["used_mib"].(float64)
				free, _ := d["free_mib"].(float64)
				total, _ := d["total_mib"].(float64)
				want["device_metrics_data.used_bytes"] += uint64(used) << 20
				want["device_metrics_data.total_bytes"] += uint64(total+used+free) << 20
			}
		case "synchronization_event":
			want["syncs_data"]++
			want["syncs_data.duration_ns"] += v.End - v.Start
			want["sync_stats_data.calls"]++
			want["sync_stats_data.total_ns"] += v.End - v.Start
		case "memory_alloc_event":
			want["allocations_data"]++
			want["allocations_data.bytes"] += v.Bytes
		}
	}
	for path := range open {
		want["scopes_data"]++
		want["scopes_data.path="+path]++
		want["scope_stats_data.unmatched_begin"]++
	}
	return want
}

// Old lines and today's in one session: every table adds up to what the lines say, whatever the parts are, when everything comes twice,
// and when the worker is replaced half-way.
func TestOlderLinesBesideTodays(t *testing.T) {
	lines := olderLines(3000)
	want := oracle(t, lines)
	today := fmt.Sprintf(`{"version":1,"type":"dictionary_update","session_id":"s","kernel_dict":{"1":"today"}}
{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":1,"base_time_ns":%d,"columns":["dt_ns","kernel_id","stream_id",`+
		`"duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,900001,0,32,0],[9,1,7,5,900002,0,32,1]]}
{"version":1,"type":"kernel_detail","session_id":"s","pid":1,"app":"resnet","corr_id":900002,"grid":"(1,1,1)","user_scope":"train"}
`, epoch)
	for key, n := range map[string]uint64{
		"usage_data.events": 4, "kernels_data": 2, "kernel_stats_data.calls": 2, "sessions_data.kernels": 2, "kernels_data.kernel=today": 2,
		"kernels_data.scope=train": 1,
		"kernels_data.corr_id":     1800003, "kernels_data.duration_ns": 10, "kernel_stats_data.total_ns": 10,
		"kernels_data.started_at": 2*uint64(epoch) + 9,
	} {
		want[key] += n
	}
	if want["pc_samples_data.hits"] == 0 || want["profile_metrics_data.hits"] == 0 || want["scopes_data"] < 100 ||
		want["host_metrics_data"] == 0 {
		t.Fatalf("the lines are too few: %v", want)
	}
	for _, perPart := range []int{1, 70, 5000} {
		t.Run(fmt.Sprint(perPart), func(t *testing.T) {
			t.Parallel()
			s := brokertest.Start(t, broker.Layout{Partitions: 1})
			stop := start(t, s, patient)
			parts := func(from, to int, name string) {
				for i := from; i < to; i += perPart {
					publish(t, s, stream.Envelope{Session: "s", Identity: name, Part: i}, []byte(strings.Join(lines[i:min(i+perPart, to)], "\n")+"\n"))
				}
			}
			half := len(lines) / 2
			parts(0, half, "w")
			publish(t, s, stream.Envelope{Session: "s", Identity: "today"}, []byte(today))
			waitFor(t, s, "the first half", func(sum totals) bool { return sum["usage_data.events"] >= uint64(half) })
			stop()
			start(t, s, patient)
			parts(half, len(lines), "w")
			parts(0, half, "again") // in other clothes
			parts(half, len(lines), "again")
			publish(t, s, stream.Envelope{Session: "s", Kind: stream.KindComplete, Source: "gpu-flight", Identity: "complete"}, nil)
			got := waitFor(t, s, "everything", func(sum totals) bool {
				return sum["usage_data.duplicates"] == uint64(len(lines)) && sum["scope_stats_data.unmatched_begin"] == want["scope_stats_data.unmat"+
					"ched_begin"] &&
					sum["kernel_stats_data.calls"] == want["kernel_stats_data.calls"]
			})
			got["usage_data.events"] -= got["usage_data.duplicates"]
			for key, n := range want {
				if got[key] != n {
					t.Errorf("%s = %d, want %d", key, got[key], n)
				}
			}
			for key, n := range got { // and nothing else: no name, kind or reject that no line has
				tab, _, _ := strings.Cut(key, "=")
				if strings.Contains(key, "=") && (strings.HasSuffix(tab, ".kernel") && !strings.Contains(tab, "stats") || strings.HasSuffix(tab,
					"copy_kind") || strings.HasSuffix(tab, ".reason")) && want[key] != n {
					t.Errorf("%s = %d, want %d", key, n, want[key])
				}
			}
			if d := got["devices_data"]; d != 2 {
				t.Errorf("%d devices", d)
			}
			if got["sessions_data.app=resnet"] == 0 || got["pc_samples_data.stall_reason=MEM_DEPENDENCY"] == 0 ||
				got["pc_samples_data.stall_reason="] != 0 {
				t.Errorf("app or reasons: %v", got)
			}
			if n := got["scopes_data.instance_id"]; n != 0 {
				t.Errorf("instance ids %d, where no line has one", n)
			}
		})
	}
}

// Trap: AMD's copy kinds mean other things from 3 on, and its activity times are a clock of the device. Kernels and copies land where
// they were received, with the distances they had, and a new owner goes on with the same offset.
func TestAMDCopyKindsAndClocks(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	const boot = int64(5_000_000_000_000)
	received := epoch
	send := func(session, identity, body string) {
		publish(t, s, stream.Envelope{Session: session, Identity: identity, ReceivedAt: received}, []byte(body))
		received += 3_600e9
	}
	batch := func(session string, id int, base int64, corr int) string {
		return fmt.Sprintf(`{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,%d,0,32,0],[-250,1,7,5,%d,0,`+
			`32,0]]}
{"version":1,"type":"memcpy_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","stream_id","duration_ns",`+
			`"bytes","copy_kind","corr_id"],"rows":[[40,7,5,10,3,1],[41,7,5,10,4,1],[42,7,5,10,1,1]]}
`, session, id, base, corr, corr+1, session, id, base)
	}
	job := `{"type":"job_start","session_id":"%s","pid":1,"app":"a","ts_ns":%d,"devices":[{"id":0,"vendor":"%s"}]}` + "\n"
	send("amd", "0", fmt.Sprintf(job, "amd", epoch, "AMD"))
	first := received // of the part with the first activity
	send("amd", "1", batch("amd", 1, boot, 1))
	send("nvidia", "0", fmt.Sprintf(job, "nvidia", epoch, "NVIDIA")+batch("nvidia", 1, boot, 1))
	send("unknown", "0", batch("unknown", 1, boot, 1))
	waitFor(t, s, "the first kernels", func(sum totals) bool { return sum["kernels_data"] == 6 })
	stop()
	start(t, s, fast)
	// seven seconds on, however late it came
	send("amd", "2", batch("amd", 2, boot+7_000_000_000, 3))
	// a time that is an epoch stays
	send("amd", "3", batch("amd", 3, epoch, 5))
	// older lines, too
	send("amd", "4", fmt.Sprintf(`{"type":"kernel_event","session_id":"amd","name":"k","start_ns":%d,"end_ns":%d}`, boot-1000, boot)+"\n")
	sum := waitFor(t, s, "all kernels", func(sum totals) bool {
		return sum["kernels_data"] == 11 && sum["memcpys_data"] == 15 && sum["kernel_stats_data.calls"] == 11
	})

	shift := uint64(first - boot)
	wire := uint64(boot)*4 + 2*uint64(boot+7_000_000_000) + 2*uint64(boot) + 2*uint64(epoch) + uint64(boot-1000) - 5*250
	if got, want := sum["kernels_data.started_at"], wire+5*shift; got != want {
		t.Errorf("kernels began at %d in all, want %d", got, want)
	}
	wire = 4*uint64(boot) + uint64(boot+7_000_000_000) + uint64(epoch)
	wire = 3*(wire-uint64(boot)) + 5*(40+41+42)
	if got, want := sum["memcpys_data.started_at"], wire+6*shift; got != want {
		t.Errorf("copies began at %d in all, want %d", got, want)
	}
	for kind, n := range map[string]uint64{"HtoD": 5, "HtoH": 3, "HtoA": 1, "AtoH": 1, "DtoD": 3, "": 2} {
		if got := sum["memcpys_data.copy_kind="+kind]; got != n {
			t.Errorf("%d copies of kind %q, want %d", got, kind, n)
		}
	}
}

// One bad line costs itself: every older type refuses what it cannot read, once, and keeps it.
func TestOlderLinesThatAreBad(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	body := fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"k","start_ns":%[1]d,"end_ns":1}
{"type":"kernel_event","session_id":"s","name":"k","start_ns":-1,"end_ns":1}
{"type":"memcpy_event","session_id":"s","bytes":1}
{"type":"memcpy_event","session_id":"s","start_ns":1,"end_ns":2,"bytes":{}}
{"type":"scope_begin","session_id":"s","name":"","ts_ns":%[1]d}
{"type":"profile_sample","session_id":"s","ts_ns":%[1]d}
{"type":"init","session_id":"s","app":"%[2]s"}
{"type":"kernel_event","session_id":"s","name":"k","start_ns":%[1]d,"end_ns":%[1]d}
`, epoch, strings.Repeat("x", 300<<10))
	publish(t, s, stream.Envelope{Session: "s", Identity: "w"}, []byte(body))
	publish(t, s, stream.Envelope{Session: "s", Identity: "again"}, []byte(body))
	sum := waitFor(t, s, "all", func(sum totals) bool { return sum["usage_data.events"] == 16 && sum["kernel_stats_data.calls"] == 1 })
	for key, n := range map[string]uint64{
		"rejects_data": 7, "rejects_data.reason=negative_duration": 1, "rejects_data.reason=bad_time": 1, "rejects_data.reason=missing_field": 3,
		"rejects_data.reason=bad_value":     1,
		"rejects_data.reason=line_too_long": 1, "kernels_data": 1, "usage_data.rejected": 7, "usage_data.duplicates": 8,
	} {
		if sum[key] != n {
			t.Errorf("%s = %d, want %d", key, sum[key], n)
		}
	}
}

package aggregate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

const memsetOf = `{"type":"memset_event","session_id":"x","device_id":"0","stream_id":"7","start_ns":1795175929972801292,` +
	`"end_ns":1795175929972803292,"corr_id":%d,"bytes":1}`

// A bad line costs that line, never its neighbours, and the books balance.
func TestBadSinglesAreRejects(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	start(t, s, fast)
	good := func(corr int) string { return fmt.Sprintf(memsetOf, corr) }
	lines := []string{
		good(1),
		strings.Replace(good(2), `"bytes":1`, `"bytes":nan`, 1),
		good(3),
		strings.Replace(good(4), `"bytes":1`, `"bytes":"1"`, 1),
		strings.Replace(good(5), `"corr_id":5,`, ``, 1),
		strings.Replace(good(6), `3292`, `1000`, 1),
		`{"type":"perf_metric_event","session_id":"x","start_ns":-1,"end_ns":2}`,
		good(7), good(7), // the same time and the same call: one event
		`{"type":"job_start","session_id":"x","ts_ns":1795175929972801292,"app":"` + strings.Repeat("a", 300<<10) + `"}`,
	}
	body := []byte(strings.Join(lines, "\n") + "\n")
	for _, identity := range []string{"w", "again", "and again"} {
		publish(t, s, stream.Envelope{Session: "x", Identity: identity}, body)
	}
	for i, line := range []int{0, 2, 7} { // and in pieces
		publish(t, s, stream.Envelope{Session: "x", Identity: "pieces", Part: i}, []byte(lines[line]+"\n"))
	}
	sum := waitFor(t, s, "all accounted", func(sum totals) bool { return sum["usage_data.events"] == 3*uint64(len(lines))+3 })
	for key, want := range map[string]uint64{
		"memsets_data": 3, "memsets_data.corr_id": 1 + 3 + 7, "memsets_data.duration_ns": 6000, "rejects_data": 6,
		"rejects_data.reason=bad_json": 1, "rejects_data.reason=bad_value": 1,
		"rejects_data.reason=missing_field": 1, "rejects_data.reason=negative_duration": 1, "rejects_data.reason=bad_time": 1,
		"rejects_data.reason=line_too_long": 1,
		"usage_data.rejected":               6, "usage_data.duplicates": 2*uint64(len(lines)) + 1 + 3,
	} {
		if sum[key] != want {
			t.Errorf("%s is %d, want %d", key, sum[key], want)
		}
	}
}

// What this version does not know is kept and counted.
func TestUnknownColumnsAndKeysAreKept(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	reg := prometheus.NewRegistry()
	cfg := fast
	cfg.Registerer = reg
	stop := start(t, s, cfg)
	many := strings.TrimSuffix(fmt.Sprintf(memsetOf, 9), "}")
	for i := range 40 {
		many += fmt.Sprintf(`,"k%02d":%d`, i, i)
	}
	lines := []string{
		`{"type":"host_metric_batch","session_id":"x","batch_id":5,"base_time_ns":1795175929972801292,"columns":["dt_ns","cpu_pct_x100",` +
			`"swap","ram_used_mib","ram_total_mib","note"],"rows":[[0,1,71,2,3,"a"],[1,1],[2,1,73,2,3,null]]}`,
		strings.Replace(fmt.Sprintf(memsetOf, 1), `"bytes"`, `"pattern":{"x":[1]},"bytes"`, 1),
		many + "}",
		`{"type":"job_start","session_id":"x","ts_ns":1795175929972801292,"nvlink":[{"a":1}]}`,
		`{"type":"system_start","session_id":"x","ts_ns":1795175929972801292,"devices":[{"id":0,"fan":40}]}`,
	}
	publish(t, s, stream.Envelope{Session: "x", Identity: "w"}, []byte(strings.Join(lines, "\n")))
	waitFor(t, s, "all accounted", func(sum totals) bool { return sum["usage_data.events"] == 7 })
	stop()
	d := newDatabase(t)
	d.load(s)
	want := strings.Join([]string{
		"0\thost_metric_batch\t5\tnote\t2\t[\"a\",null]", "0\thost_metric_batch\t5\tswap\t2\t[71,73]", "1\tjob_start\t0\tnvlink\t1\t[{\"a\":1}]",
		"1\tmemset_event\t0\tpattern\t1\t{\"x\":[1]}", "1\tsystem_start\t0\tdevices.fan\t1\t40", "",
	}, "\n")
	if got := d.post("SELECT at = 0, type, batch_id, field, rows, values FROM extra_fields WHERE NOT startsWith(field, 'k') ORDER BY type, "+
		"field", nil); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
	if got := d.post("SELECT count(), min(field), max(field), max(values) FROM extra_fields WHERE startsWith(field, 'k')",
		nil); got != "32\tk00\tk31\t9\n" {
		t.Errorf("got %q", got)
	}
	if got := d.post("SELECT arraySum(JSONExtract(values, 'Array(UInt64)')) FROM extra_fields WHERE field = 'swap'", nil); got != "144\n" {
		t.Errorf("got %q", got)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := 0.0
	for _, family := range families {
		if family.GetName() == "warpline_worker_unknown_columns_total" {
			counted = family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	if counted != 45 {
		t.Errorf("%v columns and keys are counted, want 45", counted)
	}
}

// A tenant without raw rows keeps its rollups and facts.
func TestRollupsWithoutRawRows(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	stop := start(t, s, fast)
	lines := []string{
		`{"type":"memcpy_event_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972801292,"columns":["dt_ns","stream_id",` +
			`"duration_ns","bytes","copy_kind","corr_id"],"rows":[[0,7,15,4096,8,101],[5,7,25,4096,8,102]]}`,
		`{"type":"synchronization_event_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972801292,"columns":["dt_ns",` +
			`"duration_ns","sync_type","stream_id","event_id","context_id","corr_id"],"rows":[[0,120,4,7,0,1,103]]}`,
		`{"type":"pm_sample_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972801292,"columns":["sample_index","dt_ns",` +
			`"device_id","metric_id","value"],"rows":[[0,0,0,3,2.5],[1,5,0,3,-1.5]]}`,
		`{"type":"memory_alloc_event_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972801292,"columns":["dt_ns","duration_ns",` +
			`"memory_op","memory_kind","address","bytes","device_id","stream_id","corr_id"],"rows":[[0,0,1,3,140024523784192,1048576,0,0,131]]}`,
		fmt.Sprintf(memsetOf, 1),
		`{"type":"graph_node_definition","session_id":"x","graph_exec_key":"0x1","node_index":3}`,
	}
	publish(t, s, stream.Envelope{Session: "x", Identity: "w", NoRaw: true}, []byte(strings.Join(lines, "\n")))
	// The vendor comes last: copy kinds are text all the same.
	publish(t, s, stream.Envelope{Session: "x", Identity: "v", NoRaw: true}, []byte(`{"type":"job_start","session_id":"x",`+
		`"ts_ns":1795175929972801292,"devices":[{"id":0,"vendor":"NVIDIA"}]}`))
	waitFor(t, s, "all accounted", func(sum totals) bool { return sum["usage_data.events"] == 9 && sum["sessions_data"] > 0 })
	stop()
	d := newDatabase(t)
	d.load(s)
	for sql, want := range map[string]string{
		"SELECT copy_kind, calls, bytes, total_ns, min_ns, max_ns FROM memcpy_stats": "DtoD\t2\t8192\t40\t15\t25\n",
		"SELECT sync_type, stack_trace, calls, total_ns, max_ns FROM sync_stats":     "context\t\t1\t120\t120\n",
		"SELECT samples, sum_value, mean_value, min_value, max_value FROM pm_stats":  "2\t1\t0.5\t-1.5\t2.5\n",
		"SELECT node_index FROM graph_nodes":                                         "3\n",
		"SELECT sum(c) FROM (SELECT count() AS c FROM memsets UNION ALL SELECT count() FROM syncs UNION ALL SELECT count() FROM allocations " +
			"UNION ALL SELECT count() FROM pm_samples UNION ALL SELECT count() FROM memcpys)": "0\n",
	} {
		if got := d.post(sql, nil); got != want {
			t.Errorf("%s\n got %q\nwant %q", sql, got, want)
		}
	}
}

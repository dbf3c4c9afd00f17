package gpuflight_test

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

const memsetLine = `{"type":"memset_event","pid":7570,"app":"wire_probe","session_id":"dbca9991-838e-4545-b1e3-570e3dac0e39",` +
	`"name":"memset","platform":"unknown","device_id":"0","stream_id":"7","stack_trace":"","user_scope":"","scope_depth":0,` +
	`"start_ns":1795175929972801292,"end_ns":1795175929972803292,"api_start_ns":0,"api_exit_ns":0,"corr_id":102,"bytes":65536}`

const markerLine = `{"type":"nvtx_marker_event","pid":7570,"app":"wire_probe","session_id":"dbca9991-838e-4545-b1e3-570e3dac0e39",` +
	`"name":"torch::aten::mm@train.py:42","domain":"","start_ns":1795175929972441937,"end_ns":1795175929972941937,"duration_ns":500000,` +
	`"marker_id":0}`

// decodeEvent calls the method for the line's type.
func decodeEvent(d *gpuflight.EventDecoder, line []byte) (event any, err error) {
	typ, _ := gpuflight.Peek(line)
	switch typ {
	case gpuflight.MemsetEvent:
		return d.Memset(line)
	case gpuflight.NvtxMarkerEvent:
		return d.Marker(line)
	case gpuflight.GraphLaunchEvent:
		return d.GraphLaunch(line)
	case gpuflight.GraphNodeDefinition:
		return d.GraphNode(line)
	case gpuflight.PerfMetricEvent:
		return d.Perf(line)
	case gpuflight.KernelPerfMetricEvent:
		return d.KernelPerf(line)
	case gpuflight.PMSamplingConfig:
		return d.PMConfig(line)
	case gpuflight.SassConfig:
		return d.SassSetup(line)
	case gpuflight.ExecutionSignature:
		return d.Signature(line)
	case gpuflight.DeepWindowRuleSummary:
		return d.RuleSummary(line)
	case gpuflight.CounterDataQualitySummary:
		return d.CounterQuality(line)
	case gpuflight.SystemStart, gpuflight.SystemStop:
		return d.System(line)
	}
	return nil, nil
}

// Every example decodes, and none has a key that the tables of fields lack. That each value goes to its place is shown where rows are made.
func TestEventsOfExamples(t *testing.T) {
	var d gpuflight.EventDecoder
	n := 0
	for _, line := range append(exampleLines(t), sessionLines(t)...) {
		event, err := decodeEvent(&d, line)
		if event == nil {
			continue
		}
		n++
		if err != nil || d.Unknown != 0 || len(d.Extras) != 0 {
			t.Errorf("%v, %d unknown keys: %s", err, d.Unknown, line)
		}
	}
	if n < 14 {
		t.Errorf("%d events", n)
	}
}

func TestMemset(t *testing.T) {
	var d gpuflight.EventDecoder
	got, err := d.Memset([]byte(`{"bytes":18446744073709551615,"corr_id":4294967295,"corr_id":1,"new":{"a":[1]},"start_ns":1000,` +
		`"end_ns":3000,"api_start_ns":900,"api_exit_ns":990,"device_id":"3","stream_id":"18446744073709551615","name":"mem\u0073et",` +
		`"stack_trace":"a|b` + "\xff" + `","user_scope":"train|\"x\"","scope_depth":2,"platform":null,"pid":5,"app":"A\n"} `))
	want := &gpuflight.Memset{PID: 5, App: []byte("A\n"), Name: []byte("memset"), DeviceID: 3,
		StreamID: 1<<64 - 1, StackTrace: []byte("a|b\ufffd"), UserScope: []byte(`train|"x"`),
		ScopeDepth: 2, StartNS: 1000, EndNS: 3000, APIStartNS: 900, APIExitNS: 990, CorrID: 4294967295, Bytes: 1<<64 - 1}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if d.Unknown != 1 || len(d.Extras) != 1 || string(d.Extras[0].Name) != "new" || string(d.Extras[0].Value) != `{"a":[1]}` ||
		d.Extras[0].Rows != 1 {
		t.Errorf("extras %+v", d.Extras)
	}
	for device, id := range map[string]int32{`"x"`: -1, `""`: -1, `"7"`: 7, `7`: 7, `"-2"`: -2, `"99999999999"`: -1, `"07"`: -1, `null`: -1} {
		m, err := d.Memset([]byte(strings.Replace(memsetLine, `"device_id":"0"`, `"device_id":`+device, 1)))
		if err != nil || m.DeviceID != id {
			t.Errorf("device %s is %d, %v; want %d", device, m.DeviceID, err, id)
		}
	}
}

func TestEventDefaults(t *testing.T) {
	var d gpuflight.EventDecoder
	if m, err := d.Marker([]byte(`{"start_ns":5,"end_ns":12}`)); err != nil || m.DurationNS != 7 {
		t.Errorf("%+v, %v", m, err)
	}
	if m, err := d.Marker([]byte(`{"start_ns":5,"end_ns":12,"duration_ns":0}`)); err != nil || m.DurationNS != 0 {
		t.Errorf("%+v, %v", m, err)
	}
	if g, err := d.GraphLaunch([]byte(`{"start_ns":5,"end_ns":12,"graph_id":1,"corr_id":2}`)); err != nil || g.DurationNS != 7 ||
		len(g.ExecKey) != 0 {
		t.Errorf("%+v, %v", g, err)
	}
	if p, err := d.KernelPerf([]byte(`{"kernel_name":"k","launch_ordinal":3,"l1_hit_rate_pct":0.0}`)); err != nil || p.SMThroughputPct != -1 ||
		p.DRAMReadBytes != -1 || p.SharedConflictNway != -1 || p.L1HitRatePct != 0 || p.RangeIndex != -1 {
		t.Errorf("%+v, %v", p, err)
	}
	if r, err := d.RuleSummary([]byte(`{"rule_id":"r","emitted_ns":1}`)); err != nil || r.HasLast {
		t.Errorf("%+v, %v", r, err)
	}
	if c, err := d.PMConfig([]byte(`{"ts_ns":1,"metrics":[]}`)); err != nil || len(c.Metrics) != 0 {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := d.SassSetup([]byte(`{"ts_ns":1,"configured_metrics":[ "a" , "\u0062" ],"skipped_metrics":null}`)); err != nil ||
		fmt.Sprint(c.Configured) != "[a b]" || c.Skipped != nil {
		t.Errorf("%+v, %v", c, err)
	}
	many := `{"ts_ns":1,"devices":[` + strings.Repeat(`{},`, 3000) + `{"id":1}]}`
	if s, err := d.System([]byte(many)); err != nil || len(s.Devices) != 1024 {
		t.Errorf("%d devices, %v", len(s.Devices), err)
	}
	s, err := d.System([]byte(`{"ts_ns":1,"host":{"cpu_pct":1.5,"load":[7]},"devices":[{"id":1,"fan":40,"name":"x"},{"fan":41}],"more":"m"}`))
	if err != nil || len(s.Devices) != 2 || s.Devices[0].Name != "x" || s.Host.CPUPct != 1.5 {
		t.Errorf("%+v, %v", s, err)
	}
	var extras []string
	for _, e := range d.Extras {
		extras = append(extras, string(e.Name)+"="+string(e.Value))
	}
	if got := strings.Join(extras, " "); got != `host.load=[7] devices.fan=40 devices.fan=41 more="m"` || d.Unknown != 4 {
		t.Errorf("%s, %d", got, d.Unknown)
	}
}

func TestEventsRefuse(t *testing.T) {
	var d gpuflight.EventDecoder
	for _, c := range []struct{ name, line, old, new, reason string }{
		{"nan", memsetLine, `65536`, `nan`, "bad_json"},
		{"torn", memsetLine, `"bytes":65536}`, `"by`, "bad_json"},
		{"junk behind", memsetLine, `65536}`, `65536}}`, "bad_json"},
		{"no corr_id", memsetLine, `"corr_id":102,`, ``, "missing_field"},
		{"no start", memsetLine, `"start_ns":1795175929972801292,`, ``, "missing_field"},
		{"null start", memsetLine, `1795175929972801292`, `null`, "missing_field"},
		{"bytes text", memsetLine, `65536`, `"65536"`, "bad_value"},
		{"bytes fraction", memsetLine, `65536`, `1.5`, "bad_value"},
		{"bytes negative", memsetLine, `65536`, `-1`, "out_of_range"},
		{"name number", memsetLine, `"name":"memset"`, `"name":7`, "bad_value"},
		{"device list", memsetLine, `"device_id":"0"`, `"device_id":[0]`, "bad_value"},
		{"ends first", memsetLine, `1795175929972803292`, `1795175929972801291`, "negative_duration"},
		{"before 1970", memsetLine, `1795175929972801292`, `-5`, "bad_time"},
		{"negative duration", markerLine, `500000`, `-1`, "negative_duration"},
		{"no end", markerLine, `"end_ns":1795175929972941937,`, ``, "missing_field"},
		{"signature", `{"type":"execution_signature","ts_ns":1,"signature":"8"}`, `"8"`, `"x"`, "bad_value"},
		{"signature number", `{"type":"execution_signature","ts_ns":1,"signature":"8"}`, `"8"`, `8`, "bad_value"},
		{"no signature", `{"type":"execution_signature","ts_ns":1,"signature":"8"}`, `,"signature":"8"`, ``, "missing_field"},
		{"metrics object", `{"type":"pm_sampling_config","ts_ns":1,"metrics":[]}`, `[]`, `{}`, "bad_value"},
		{"metric number", `{"type":"pm_sampling_config","ts_ns":1,"metrics":[]}`, `[]`, `["a",7]`, "bad_value"},
		{"metrics torn", `{"type":"pm_sampling_config","ts_ns":1,"metrics":[]}`, `[]`, `["a",]`, "bad_json"},
		{"metrics comma", `{"type":"pm_sampling_config","ts_ns":1,"metrics":[]}`, `[]`, `["a" "b"]`, "bad_json"},
		{"host list", `{"type":"system_start","ts_ns":1,"host":{},"devices":[]}`, `{}`, `[]`, "bad_value"},
		{"device text", `{"type":"system_start","ts_ns":1,"host":{},"devices":[]}`, `[]`, `["a"]`, "bad_value"},
		{"devices torn", `{"type":"system_start","ts_ns":1,"host":{},"devices":[]}`, `[]`, `[{},]`, "bad_json"},
		{"device nan", `{"type":"system_start","ts_ns":1,"host":{},"devices":[]}`, `[]`, `[{"used_mib":nan}]`, "bad_json"},
		{"device name", `{"type":"system_start","ts_ns":1,"host":{},"devices":[]}`, `[]`, `[{"name":1}]`, "bad_value"},
		{"system without time", `{"type":"system_stop","ts_ns":1}`, `,"ts_ns":1`, ``, "missing_field"},
		{"pct text", `{"type":"perf_metric_event","start_ns":1,"end_ns":2,"sm_throughput_pct":1}`, `pct":1`, `pct":"1"`, "bad_value"},
		{"no kernel", `{"type":"kernel_perf_metric_event","kernel_name":"k","launch_ordinal":1}`, `"kernel_name":"k",`, ``, "missing_field"},
		{"no node", `{"type":"graph_node_definition","graph_exec_key":"k","node_index":1}`, `,"node_index":1`, ``, "missing_field"},
		{"no rule", `{"type":"deep_window_rule_summary","rule_id":"k","emitted_ns":1}`, `"rule_id":"k",`, ``, "missing_field"},
	} {
		if _, err := decodeEvent(&d, []byte(c.line)); err != nil {
			t.Errorf("%s: refused before: %v", c.name, err)
		}
		line := strings.Replace(c.line, c.old, c.new, 1)
		_, err := decodeEvent(&d, []byte(line))
		if le, _ := err.(*gpuflight.LineError); le == nil || le.Reason != c.reason {
			t.Errorf("%s: %v, want %s: %s", c.name, err, c.reason, line)
		}
	}
}

// Unknown keys are kept up to a bound, and all of them counted.
func TestExtrasAreBounded(t *testing.T) {
	var d gpuflight.EventDecoder
	var b strings.Builder
	b.WriteString(strings.TrimSuffix(memsetLine, "}"))
	for i := range 40 {
		fmt.Fprintf(&b, `,"new_%d":%d`, i, i)
	}
	b.WriteByte('}')
	if _, err := d.Memset([]byte(b.String())); err != nil || d.Unknown != 40 || len(d.Extras) != 32 ||
		string(d.Extras[31].Name) != "new_31" || string(d.Extras[31].Value) != "31" {
		t.Errorf("%d of %d, %v", len(d.Extras), d.Unknown, err)
	}
}

func TestExtraColumns(t *testing.T) {
	const columns = `"dt_ns","cpu_pct_x100","ram_used_mib","ram_total_mib"`
	var d gpuflight.Decoder
	for _, c := range []struct{ columns, rows, want string }{
		{columns, `[0,1,2,3]`, ""},
		{columns + `,"gpu\u0031","list"`, `[0,1,2,3,"a",[1,2]],[1,1,2,3, null ,{"x":"]"}]`, `gpu1 2 ["a",null]; list 2 [[1,2],{"x":"]"}]; `},
		// Cells of refused rows are not among them: those bytes are in the reject.
		{`"new",` + columns, `["a",0,1,2,3],["b",0],["c",0,-1,2,3],7,["d",0,1,2,3]`, `new 2 ["a","d"]; `},
		{`"new",` + columns, ``, `new 0 []; `},
	} {
		line, err := d.Decode([]byte(`{"type":"host_metric_batch","base_time_ns":1,"columns":[` + c.columns + `],"rows":[` + c.rows + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, e := range gpuflight.ExtraColumns(line) {
			got += fmt.Sprintf("%s %d %s; ", e.Name, e.Rows, e.Value)
			if e.Rows != line.Batch.Rows() {
				t.Errorf("%d cells of %d rows", e.Rows, line.Batch.Rows())
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.columns, got, c.want)
		}
	}
}

func TestActivityKinds(t *testing.T) {
	for got, want := range map[string]string{
		gpuflight.SyncTypeName(0): "unknown", gpuflight.SyncTypeName(3): "stream", gpuflight.SyncTypeName(5): "type_5",
		gpuflight.MemoryOpName(1): "alloc", gpuflight.MemoryOpName(2): "free", gpuflight.MemoryOpName(0): "op_0",
		gpuflight.MemoryKindName(3): "device", gpuflight.MemoryKindName(7): "managed_static", gpuflight.MemoryKindName(8): "kind_8",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Lines that come by the hundred thousand cost no memory, escapes and broken UTF-8 included.
func TestEventsDoNotAllocate(t *testing.T) {
	var d gpuflight.EventDecoder
	lines := [][]byte{[]byte(memsetLine), []byte(markerLine),
		[]byte(strings.Replace(strings.Replace(memsetLine, `"memset"`, `"\u006demset"`, 1), `wire_probe`, "wire\xff", 1))}
	for _, line := range lines {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := decodeEvent(&d, line); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations: %s", n, line)
		}
	}
}

func BenchmarkEvents(b *testing.B) {
	for name, line := range map[string]string{"memset": memsetLine, "nvtx": markerLine} {
		b.Run(name, func(b *testing.B) {
			var d gpuflight.EventDecoder
			raw := []byte(line)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := decodeEvent(&d, raw); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// FuzzEvents checks every decoder of small events: it accepts no more than Decode does, changes nothing, hands out clean text, says
// the same about the same line whatever came before, and agrees with encoding/json about what it read.
func FuzzEvents(f *testing.F) {
	for _, line := range []string{memsetLine, markerLine,
		`{"type":"system_start","ts_ns":1,"host":{"cpu_pct":1.5},"devices":[{"id":1,"name":"a\u00e9","x":[]},{}]}`,
		`{"type":"pm_sampling_config","ts_ns":1,"metrics":["a","\ud83d\ude00"],"preset":"\n"}`,
		`{"type":"execution_signature","ts_ns":1,"scope_name":"a","signature":"18446744073709551615"}`,
		`{"type":"kernel_perf_metric_event","kernel_name":"k","launch_ordinal":1,"sm_throughput_pct":-1.0e0}`,
		`{"type":"graph_node_definition","graph_exec_key":"0x1","node_index":0,"node_index":7}`,
		`{"type":"deep_window_rule_summary","rule_id":"r","emitted_ns":1,"last_value":55,"last_observed_ns":3}`,
		`{"type":"host_metric_batch","base_time_ns":1,"columns":["dt_ns","cpu_pct_x100","ram_used_mib","ram_total_mib","new"],"rows":[[0,1,2,3,` +
			`{"a":[]}],[1],[0,1,2,3,"x"]]}`,
	} {
		f.Add([]byte(line))
	}
	for _, line := range exampleLines(f) {
		if event, _ := decodeEvent(&gpuflight.EventDecoder{}, line); event != nil {
			f.Add(line)
		}
	}
	var used gpuflight.EventDecoder
	f.Fuzz(func(t *testing.T, line []byte) {
		kept := bytes.Clone(line)
		var dec gpuflight.Decoder
		l, lineErr := dec.Decode(line)
		if l.Batch != nil {
			for _, e := range gpuflight.ExtraColumns(l) {
				if e.Rows != l.Batch.Rows() || !isArray(e.Value, e.Rows) {
					t.Fatalf("%d cells, %d rows: %s", e.Rows, l.Batch.Rows(), e.Value)
				}
			}
		}
		if left := gpuflight.LeftoversOf(l); len(left.Extras) > left.Unknown+left.Bad || len(left.Extras) > 64 {
			t.Fatalf("%+v", left)
		}
		var fresh gpuflight.EventDecoder
		a, errA := decodeEvent(&fresh, line)
		if a == nil {
			return
		}
		b, errB := decodeEvent(&used, line)
		if fmt.Sprint(errA) != fmt.Sprint(errB) || errA == nil && (fmt.Sprintf("%q", a) != fmt.Sprintf("%q", b) ||
			fresh.Unknown != used.Unknown) {
			t.Fatalf("%q %v at first, %q %v later", a, errA, b, errB)
		}
		if !bytes.Equal(kept, line) {
			t.Fatal("the input was changed")
		}
		syntax := func(err error) bool {
			le, _ := err.(*gpuflight.LineError)
			return le != nil && le.Reason == gpuflight.ReasonBadJSON
		}
		// The line's depth counts from the line, that of a device's value from the device.
		if syntax(errA) != syntax(lineErr) && bytes.Count(line, []byte("["))+bytes.Count(line, []byte("{")) < gpuflight.MaxDepth {
			t.Fatalf("%v, but Decode says %v", errA, lineErr)
		}
		if errA == nil {
			agree(t, line, a)
		}
	})
}

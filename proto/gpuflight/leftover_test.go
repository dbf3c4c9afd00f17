package gpuflight_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// leftovers writes what is left over of a line as text, bad fields with a mark.
func leftovers(t *testing.T, text string) (got string, l gpuflight.Leftovers) {
	t.Helper()
	var d gpuflight.Decoder
	line, _ := d.Decode([]byte(text)) // a batch without columns is a fault, but a line
	l = gpuflight.LeftoversOf(line)
	var parts []string
	for _, e := range l.Extras {
		mark := ""
		if e.Bad {
			mark = "!"
		}
		parts = append(parts, fmt.Sprintf("%s%s=%s", mark, e.Name, e.Value))
	}
	return strings.Join(parts, " "), l
}

// Nothing is left over of the lines that real clients write.
func TestNothingIsLeftOver(t *testing.T) {
	seen := map[gpuflight.Type]int{}
	for _, raw := range exampleLines(t) {
		var d gpuflight.Decoder
		l, err := d.Decode(raw)
		if err != nil {
			continue
		}
		seen[l.Type]++
		if l.Batch != nil && l.Batch.UnknownKeys > 0 {
			t.Errorf("%v has %d unknown keys", l.Type, l.Batch.UnknownKeys)
		}
		if left := gpuflight.LeftoversOf(l); left.Unknown+left.Bad > 0 {
			t.Errorf("%v: %+v", l.Type, left)
		}
	}
	for _, typ := range []gpuflight.Type{gpuflight.JobStart, gpuflight.Shutdown, gpuflight.SegmentStart, gpuflight.SegmentEnd,
		gpuflight.RunEnd, gpuflight.CaptureCapabilities, gpuflight.DeepWindowEvent} {
		if seen[typ] == 0 {
			t.Errorf("no example of %v", typ)
		}
	}
}

// A field that does not fit is told with its bytes, wherever it stands; so is a key of the future.
func TestLeftovers(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"type":"job_start","session_id":"s","pid":"seven","app":7,"ts_ns":1.5,"part_index":null,"run_id":{"a":1}}`,
			`!pid="seven" !app=7 !ts_ns=1.5 !run_id={"a":1}`},
		{`{"type":"job_start","session_id":"s","pid":4294967296,"pass_index":-1,"segment_index":9223372036854775808}`,
			`!pid=4294967296 !pass_index=-1 !segment_index=9223372036854775808`},
		{`{"type":"job_start","session_id":"s","version":"x","nvlink":[1],"host":{"cpu_pct":"9","swap":3,"ram_used_mib":-1,` +
			`"ram_total_mib":17592186044416}}`,
			`nvlink=[1] host.swap=3 !host.cpu_pct="9" !host.ram_used_mib=-1 !host.ram_total_mib=17592186044416`},
		{`{"type":"job_start","session_id":"s","host":[],"devices":{"id":1},"gpu_static_devices":[{"id":0},3,{"id":-1,"warp_size":"32"},[]],` +
			`"cuda_static_devices":7}`,
			`!host=[] !devices={"id":1} !gpu_static_devices=3 !gpu_static_devices.id=-1 !gpu_static_devices.warp_size="32" !gpu_static_devices=[]`},
		{`{"type":"init","session_id":"s","devices":[{"id":0,"util_gpu":3,"clk_sm":"x"}],"cuda_static_devices":[{"id":0,"compute_major":"8",` +
			`"compute_minor":"six","sm_count":-2}]}`,
			`!devices.clk_sm="x" !cuda_static_devices.compute_minor="six" !cuda_static_devices.sm_count=-2`},
		{`{"type":"shutdown","session_id":"s","ts_ns":"1","crashed":1,"exit_code":true,"cause":"oom"}`,
			`cause="oom" !ts_ns="1" !crashed=1 !exit_code=true`},
		{`{"type":"segment_start","session_id":"s","run_id":"r","previous_session_id":null,"requested_boundary_ns":null,"boundary_delay_ns":-5,` +
			`"next":1}`, `next=1 !boundary_delay_ns=-5`},
		{`{"type":"segment_end","session_id":"s","run_id":"r","actual_end_ns":"soon","end_reason":[],"synthetic":"true"}`,
			`!actual_end_ns="soon" !end_reason=[] !synthetic="true"`},
		{`{"type":"run_end","session_id":"s","run_id":"r","final_segment_index":1e2}`, `!final_segment_index=1e2`},
		{`{"type":"capture_capabilities","session_id":"s","capabilities":[{"feature":"a","requested":1,"level":2},"b"]}`,
			`capabilities.level=2 !capabilities.requested=1 !capabilities="b"`},
		{`{"type":"deep_window_event","session_id":"s","start_ns":1,"end_ns":2,"engines":["a",5],"trigger":{"threshold":"30","observed":1e999,` +
			`"op":"<"}}`,
			`!engines=5 !trigger.threshold="30" !trigger.observed=1e999`},
		{`{"type":"memset_event","session_id":"s","what":1}`, ``},
		{`{"type":"kernel_detail","session_id":"s","corr_id":7,"grid":"(1,1,1)","cluster":"(2,1,1)"}`, `cluster="(2,1,1)"`},
		{`{"type":"dictionary_update","session_id":"s","kernel_dict":{"1":"a"},"host_dict":{"1":"h"}}`, `host_dict={"1":"h"}`},
		{`{"type":"source_file_content","session_id":"s","source_file_id":1,"lines":[],"language":"cuda"}`, `language="cuda"`},
		{`{"device_id":3,"type":"kernel_event_batch","session_id":"s","batch_id":1,"base_time_ns":1,"columns":[],"rows":[],"clock":{"hz":1}}`,
			`device_id=3 clock={"hz":1}`},
	} {
		if got, _ := leftovers(t, c.line); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.line, got, c.want)
		}
	}
}

// Keys of the future do not push out fields that do not fit, and neither are kept without end.
func TestLeftoversAreBounded(t *testing.T) {
	line := `{"type":"job_start","session_id":"s","devices":[` + strings.Repeat(`{"new":1,"temp_c":"hot"},`, 1030) + `{"id":1}]}`
	_, l := leftovers(t, line)
	if l.Unknown != 1024 || l.Bad != 1024+7 || len(l.Extras) != 64 || l.Extras[31].Bad || !l.Extras[32].Bad {
		t.Errorf("%d unknown, %d bad, %d kept", l.Unknown, l.Bad, len(l.Extras))
	}
}

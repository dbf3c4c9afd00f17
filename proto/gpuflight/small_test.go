package gpuflight_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

func TestCountEvents(t *testing.T) {
	batch := kernels(`[1,2,3,4,5,6,7,1],[1,2,3,4,5,6,7,1]`)
	for _, c := range []struct {
		line string
		want int
	}{
		{"", 0}, {" \r\n", 0}, {"garbage", 1}, {`{`, 1}, {detailLine, 1}, {batch, 2}, {batch + "\r\n", 2}, {kernels(""), 0}, {kernels(" "), 0},
		{strings.Replace(batch, `"rows":`, `"rows" : `, 1), 2},
		{strings.Replace(batch, `kernel_event_batch`, `new_event_batch`, 1), 1},
		{`{"type":"host_metric_batch","rows":[[1],[2],[3]],"columns":["a"]}`, 3},
		{`{"rows":[[1],[2],[3]],"columns":["a"],"type":"host_metric_batch"}`, 3},
		{`{"type":"host_metric_batch","rows":[[1],["["],[3]]}`, 3},
		{`{"type":"host_metric_batch","rows":[]}`, 0},
		{`{"type":"host_metric_batch","rows":7}`, 1},
		{`{"type":"host_metric_batch"}`, 1},
		{`{"type":"host_metric_batch","rows":[7,8]}`, 2}, {`{"type":"host_metric_batch","rows":[[1],7]}`, 2},
		{`{"type":"host_metric_batch","rows":[[7,[],8]]}`, 1},
		{`{"type":"host_metric_batch","rows":[[7,[[],[]],8],[[1],2]]} `, 2},
		{batch[:len(batch)-8], 2}, {`{"type":"host_metric_batch","rows":[`, 1}, {`{"type":"host_metric_batch","rows":`, 1},
		{`{"type":"host_metric_batch","ro`, 1},
		{`{"type":"host_metric_batch","rows":[[1],[2],["`, 3},
	} {
		if got := gpuflight.CountEvents([]byte(c.line)); got != c.want {
			t.Errorf("%d, want %d: %s", got, c.want, c.line)
		}
	}
}

func TestPeek(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{detailLine, "kernel_detail dbca9991-838e-4545-b1e3-570e3dac0e39"},
		{`{"type":"shutdown","pid":7,"app":"x","session_id":"Y","ts_ns":1}`, "shutdown Y"},
		{`{"session_id":"Y","type":"shutdown"}`, "shutdown Y"},
		{`{"version":1,"type":"shutdown","session_id":"a\u0062"}`, "shutdown ab"},
		{`{"version":1,"type":"shutdown","session_id":"torn`, "shutdown "},
		{`{"version":1,"type":"shutdown","session_id"`, "shutdown "},
		{`{"version":1,"type":"sh`, "unknown "},
		{`{"version":1,"type":"new","session_id":"Y"}`, "unknown Y"},
		{``, "unknown "}, {`[]`, "unknown "}, {`{"a":nan,"type":"shutdown"}`, "unknown "},
	} {
		typ, session := gpuflight.Peek([]byte(c.line))
		if got := fmt.Sprintf("%v %s", typ, session); got != c.want {
			t.Errorf("%q, want %q: %s", got, c.want, c.line)
		}
	}
}

func TestDictionary(t *testing.T) {
	raw := `{"type":"dictionary_update","session_id":"s","kernel_dict":{"1":"a\u00e9","2":"b` + "\xff" + `","0":"zero","01":"x","-1":"x",` +
		`"4294967296":"x","4294967295":"top","k":"x","3":4},"metric_dict":[],"new_dict":{"1":"y"},"func_symbol_dict":{"1":""}}`
	var dec gpuflight.Decoder
	line, err := dec.Decode([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	skipped, err := gpuflight.DecodeDictionary(line, func(d gpuflight.Dict, id uint32, v []byte) {
		got = append(got, fmt.Sprint(d, id, string(v)))
	})
	want := "kernel_dict 1aé,kernel_dict 2b\ufffd,kernel_dict 4294967295top,func_symbol_dict 1"
	if err != nil || skipped != 7 || strings.Join(got, ",") != want {
		t.Fatalf("%v, skipped %d, %q", err, skipped, got)
	}
	for _, torn := range []string{`{"kernel_dict":{"1":"a"`, `{"kernel_dict":{"1":"a"}`, `{"kernel_dict":{"1":nan}}`, `{"kernel_dict":{,}}`} {
		if _, err := gpuflight.DecodeDictionary(&gpuflight.Line{Raw: []byte(torn)}, func(gpuflight.Dict, uint32, []byte) {}); err == nil {
			t.Errorf("accepted %s", torn)
		}
	}
}

func TestJobStart(t *testing.T) {
	decode := func(raw string) (gpuflight.Job, error) {
		return gpuflight.DecodeJobStart(&gpuflight.Line{Raw: []byte(raw)})
	}
	j, err := decode(`{"type":"job_start","pid":"seven","app":"a` + "\xff" + `","run_id":"r","segment_index":2,"roll_chain_id":"c",` +
		`"part_index":1,"gpu_static_devices":[{"id":0,"vendor":"AMD","multi_processor_count":304,"architecture":"gfx942"}]}`)
	if err != nil || !j.Partial || j.PID != 0 || j.App != "a\ufffd" || j.RunID != "r" || j.SegmentIndex != 2 || j.Vendor() != "AMD" ||
		j.StaticDevices[0].MultiProcessorCount != 304 {
		t.Fatalf("%+v, %v", j, err)
	}
	if j, err = decode(`{"devices":[` + strings.Repeat(`{},`, 5000) + `{}]}`); err != nil || !j.Partial || len(j.Devices) != 1024 ||
		j.Vendor() != "" {
		t.Fatal(len(j.Devices), err)
	}
	for raw, reason := range map[string]string{`{"pid":1`: "bad_json", `{"host":{"cpu_pct":nan}}`: "bad_json",
		`{"x":"` + strings.Repeat("x", 300<<10) + `"}`: "line_too_long"} {
		if _, err := decode(raw); err == nil || err.(*gpuflight.LineError).Reason != reason {
			t.Errorf("%v, want %s", err, reason)
		}
	}
	e, err := gpuflight.DecodeShutdown(&gpuflight.Line{Raw: []byte(`{"type":"shutdown","ts_ns":5,"synthetic":true,"exit_code":-1,` +
		`"signaled":true,"signal":9,"crashed":true}`)})
	if want := (gpuflight.JobEnd{TimeNS: 5, Synthetic: true, ExitCode: -1, Signaled: true, Signal: 9, Crashed: true}); err != nil ||
		e != want {
		t.Fatalf("%+v, %v", e, err)
	}
}

func TestKinds(t *testing.T) {
	for _, c := range []struct {
		vendor string
		code   uint32
		want   string
	}{
		{"NVIDIA", 1, "HtoD"}, {"NVIDIA", 3, "HtoA"}, {"NVIDIA", 8, "DtoD"}, {"NVIDIA", 10, "PtoP"}, {"AMD", 3, "DtoD"}, {"AMD", 4, "HtoH"},
		{"amd", 2, "DtoH"},
		{"", 1, "HtoD"}, {"", 2, "DtoH"}, {"", 3, "kind_3"}, {"NVIDIA", 0, "kind_0"}, {"NVIDIA", 11, "kind_11"},
		{"AMD", 4294967295, "kind_4294967295"},
	} {
		if got := gpuflight.CopyKind(c.vendor, c.code); got != c.want {
			t.Errorf("%s %d: %s, want %s", c.vendor, c.code, got, c.want)
		}
	}
}

func TestTypeNames(t *testing.T) {
	seen := map[string]bool{}
	for typ := gpuflight.TypeUnknown + 1; typ <= gpuflight.SystemSample; typ++ {
		if name := typ.String(); name == "" || seen[name] || gpuflight.TypeOf([]byte(name)) != typ {
			t.Errorf("%d: %q", typ, name)
		} else {
			seen[name] = true
		}
		if typ.IsBatch() != strings.HasSuffix(typ.String(), "_batch") {
			t.Errorf("%v: IsBatch %v", typ, typ.IsBatch())
		}
	}
	if gpuflight.Type(250).String() != "unknown" || gpuflight.TypeOf([]byte("unknown")) != gpuflight.TypeUnknown {
		t.Error("values outside the list")
	}
}

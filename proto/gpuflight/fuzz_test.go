package gpuflight_test

import (
	"bytes"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

// FuzzDecode compares every line with the reference on encoding/json: what one accepts the other accepts, with the same numbers.
// A decoder that has seen other lines must not answer differently.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(kernels(`[1,2,3,4,5,6,7,1],[1,2],[-1,2,18446744073709551615,-4,5,6,7,1]`)))
	f.Add([]byte(" {\"rows\":[[0,1.5,2,\"x\"],[0,1,2,3]],\"columns\":[\"dt_ns\",\"cpu_pct_x100\",\"ram_used_mib\",\"ram_total_mib\"]," +
		"\"base_time_ns\":1,\"type\":\"host_metric_batch\"}"))
	f.Add([]byte(`{"type":"pm_sample_batch","base_time_ns":1,"columns":["sample_index","dt_ns","device_id","metric_id","value"],"rows":[[0,` +
		`0,0,3,1e+06],[0,0,0,3,-0.1E-5]]}`))
	f.Add([]byte(`{"type":"x\ud83d\ude00` + "\xff" + `","session_id":null,"a":[{"b":[]},true,false,null,-0.5e7]}`))
	f.Add([]byte(detailLine))
	var used gpuflight.Decoder
	f.Fuzz(func(t *testing.T, line []byte) {
		kept := bytes.Clone(line)
		var fresh gpuflight.Decoder
		compare(t, &fresh, line)
		compare(t, &used, line)
		if !bytes.Equal(kept, line) {
			t.Fatal("the input was changed")
		}
		skipped := 0
		l, err := used.Decode(line)
		if _, dictErr := gpuflight.DecodeDictionary(l, func(gpuflight.Dict, uint32, []byte) { skipped++ }); err == nil && dictErr != nil {
			t.Fatalf("Decode accepts, DecodeDictionary says %v", dictErr)
		}
		gpuflight.DecodeJobStart(l)
		gpuflight.DecodeShutdown(l)
		if n := gpuflight.CountEvents(line); n < 0 || n > len(line) {
			t.Fatalf("%d events in %d bytes", n, len(line))
		}
	})
}

// FuzzDetailKey checks the promise of DetailKey: a tail accepted on one line is good on every line, with the same result.
func FuzzDetailKey(f *testing.F) {
	f.Add([]byte(detailLine))
	f.Add([]byte(`{"version":1,"type":"kernel_detail","session_id":"","pid":-1,"app":"","corr_id":0,"grid":"","corr_id":"7","pid":8,` +
		`"type":1}`))
	f.Add([]byte(`{"version":1,"type":"kernel_detail","session_id":"","pid":1,"app":"\u0041","corr_id":0,"grid":nan}`))
	const other = `{"version":1,"type":"kernel_detail","session_id":"other","pid":99,"app":"b","corr_id":4294967295,`
	f.Fuzz(func(t *testing.T, line []byte) {
		id, tail, ok := gpuflight.DetailKey(line)
		d, err := gpuflight.DecodeDetail(line)
		var dec gpuflight.Decoder
		if _, lineErr := dec.Decode(line); err == nil && lineErr != nil && lineErr.(*gpuflight.LineError).Reason == gpuflight.ReasonBadJSON {
			t.Fatalf("DecodeDetail accepts what Decode calls %v", lineErr)
		}
		if !ok {
			return
		}
		if typ, _ := gpuflight.Peek(line); typ != gpuflight.KernelDetail {
			t.Fatalf("Peek says %v", typ)
		}
		moved, movedErr := gpuflight.DecodeDetail([]byte(other + string(tail)))
		if (err == nil) != (movedErr == nil) {
			t.Fatalf("%v here, %v on another line", err, movedErr)
		}
		if err != nil {
			return
		}
		if d.CorrID != id || moved.CorrID != 4294967295 || moved.PID != 99 || moved.App != "b" {
			t.Fatalf("key %d, detail %+v, moved %+v", id, d, moved)
		}
		moved.CorrID, moved.PID, moved.App = d.CorrID, d.PID, d.App
		if moved != d {
			t.Fatalf("%+v here, %+v on another line", d, moved)
		}
	})
}

package gpuflight_test

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/gpuflight"
)

func TestDetail(t *testing.T) {
	id, tail, ok := gpuflight.DetailKey([]byte(detailLine + " \r\n"))
	if !ok || id != 100 || string(tail) != detailLine[strings.Index(detailLine, `"grid"`):] {
		t.Fatal(id, ok, string(tail))
	}
	d, err := gpuflight.DecodeDetail([]byte(detailLine))
	want := gpuflight.Detail{
		PID: 7570, App: "wire_probe", CorrID: 100, Grid: "(256,1,1)", Block: "(128,1,1)", StaticSharedBytes: 8192,
		Occupancy: 0.5, RegOccupancy: 0.5, SmemOccupancy: 0.75, WarpOccupancy: 1, BlockOccupancy: 1, LimitingResource: "registers",
		MaxActiveBlocks: 8, SharedMemExecuted: 16384, UserScope: "train|fwd",
	}
	if err != nil || d != want || d.ScopePath() != "train|fwd" {
		t.Fatalf("%+v, %v", d, err)
	}
	// The rest of the fields, in another order, with a repeated and an unknown key.
	d, err = gpuflight.DecodeDetail([]byte(`{"stack_trace":"a|b\u0021","corr_id":4294967295,"corr_id":1,"new":[{}],"user_scope":"global",` +
		`"local_bytes":1,"const_bytes":2,"local_mem_total_bytes":3,"local_mem_per_thread_bytes":4,"cache_config_requested":5,` +
		`"cache_config_executed":6}`))
	want = gpuflight.Detail{CorrID: 4294967295, StackTrace: "a|b!", UserScope: "global", LocalBytes: 1, ConstBytes: 2, LocalMemTotalBytes: 3,
		LocalMemPerThread: 4, CacheConfigRequested: 5, CacheConfigExecuted: 6}
	if err != nil || d != want || d.ScopePath() != "" {
		t.Fatalf("%+v, %v", d, err)
	}
}

func TestDetailRefuses(t *testing.T) {
	for _, c := range []struct {
		name, old, new, reason string
		key                    bool // DetailKey accepts, for it does not look at the tail
	}{
		{"nan", `0.750000`, `nan`, "bad_json", true},
		{"torn", `"train|fwd","stack_trace":""}`, `"train`, "bad_json", true},
		{"junk behind", `""}`, `""}}`, "bad_json", true},
		{"no corr_id", `"corr_id":100,`, ``, "missing_field", false},
		{"corr_id text", `"corr_id":100,`, `"corr_id":"100",`, "bad_value", false},
		{"corr_id too large", `"corr_id":100,`, `"corr_id":4294967296,`, "out_of_range", false},
		{"corr_id negative", `"corr_id":100,`, `"corr_id":-1,`, "out_of_range", false},
		{"corr_id leading zero", `"corr_id":100,`, `"corr_id":0100,`, "bad_json", false},
		{"grid number", `"(256,1,1)"`, `256`, "bad_value", true},
		{"occupancy text", `0.750000`, `"x"`, "bad_value", true},
		{"occupancy huge", `0.750000`, `1e999`, "out_of_range", true},
		{"shared fraction", `8192`, `1.5`, "bad_value", true},
		{"control character", `wire_probe`, "wire\tprobe", "bad_json", false},
		{"pid too large", `7570`, `99999999999999999999`, "out_of_range", false},
	} {
		line := []byte(strings.Replace(detailLine, c.old, c.new, 1))
		_, err := gpuflight.DecodeDetail(line)
		if le, _ := err.(*gpuflight.LineError); le == nil || le.Reason != c.reason {
			t.Errorf("%s: %v, want %s", c.name, err, c.reason)
		}
		if _, _, ok := gpuflight.DetailKey(line); ok != c.key {
			t.Errorf("%s: DetailKey %v", c.name, ok)
		}
	}
	// Good lines the key does not cover.
	for _, line := range []string{
		strings.Replace(detailLine, `"version":1,`, ``, 1),
		strings.Replace(detailLine, `wire_probe`, `wire\u005fprobe`, 1),
		strings.Replace(detailLine, `"pid":7570,"app":"wire_probe",`, `"app":"wire_probe","pid":7570,`, 1),
		strings.Replace(detailLine, `"corr_id":100,"grid":"(256,1,1)",`, `"grid":"(256,1,1)","corr_id":100,`, 1),
		strings.Replace(detailLine, `,`, `, `, 1),
	} {
		if _, err := gpuflight.DecodeDetail([]byte(line)); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		if _, _, ok := gpuflight.DetailKey([]byte(line)); ok {
			t.Errorf("DetailKey accepts %s", line)
		}
	}
}

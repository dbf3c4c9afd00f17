package e2e_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// Real exports of stormlog 0.4.3 in every form, in any order, twice, with a worker killed between: each event counts once, in its
// session, and the sums are those that stormlog itself finds. A sink that grows is sent again and again.
func TestTelemetryExports(t *testing.T) {
	c := newCluster(t, 1)
	root, err := filepath.Abs(filepath.Join("..", "..", "..", "testdata", "telemetry", "v4", "exports"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var expected map[string]any
	decodeJSON(t, text, &expected)
	want := map[string][]uint64{}
	for _, v := range expected {
		list, ok := v.([]any)
		if !ok {
			continue // its loader cannot read that one
		}
		for _, s := range list {
			m := s.(map[string]any)
			n := func(key string) uint64 {
				var v int64
				fmt.Sscan(fmt.Sprint(m[key]), &v)
				return uint64(max(v, -v))
			}
			want["mem:"+m["session_id"].(string)] = []uint64{n("events"), n("allocation_bytes"), n("deallocation_bytes"), n("peak_allocated")}
		}
	}
	if len(want) != 5 {
		t.Fatalf("%d sessions are expected", len(want))
	}
	// A sink that is torn in the middle of a line, at each of ten moments of its growth.
	sink := filepath.Join(root, "cpu_sink_killed")
	growing := t.TempDir()
	grow := func(part, of int) {
		t.Helper()
		names, err := filepath.Glob(filepath.Join(sink, "segment-*.jsonl"))
		if err != nil || len(names) != 4 {
			t.Fatal(names, err)
		}
		var whole [][]byte
		total := 0
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			whole = append(whole, b)
			total += len(b)
		}
		left := total * part / of
		for i, b := range whole {
			b = b[:min(len(b), left)]
			left -= len(b)
			if err := os.WriteFile(filepath.Join(growing, filepath.Base(names[i])), bytes.Clone(b), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}

	key, other := c.makeKey("exports"), c.makeKey("growing")
	first, second := []string{"cpu_tracker_events.csv", "oom_bundle", "cpu_sink", "tf_track.json"}, []string{"cpu_tracker_events.ndjson", "."}
	for _, name := range first {
		c.sendTelemetry(t, key, filepath.Join(root, name))
	}
	for i := range 5 {
		grow(i+1, 10)
		c.sendTelemetry(t, other, growing)
	}
	c.kill("worker0")
	for _, name := range append(second, first...) {
		c.sendTelemetry(t, key, filepath.Join(root, name))
	}
	c.start("worker0")
	for i := range 5 {
		grow(i+6, 10)
		c.sendTelemetry(t, other, growing)
	}
	for tenant, sessions := range map[string][]string{
		"exports": nil, "growing": {"mem:29df3a28-8005-4d5b-8b0d-b8a1e85577f7"},
	} {
		expect := map[string][]uint64{}
		for id, sums := range want {
			if sessions == nil || id == sessions[0] {
				expect[id] = sums
			}
		}
		for name, query := range map[string]string{
			"events": "SELECT session_id, count(), toUInt64(ifNull(abs(sumIf(allocator_change_bytes, event_type = 'allocation')), 0)), toUInt64(ifNull(abs(sumIf(allocator_change_bytes, event_type = 'deallocation')), 0)), toUInt64(ifNull(max(allocator_allocated_bytes), 0)) " +
				"FROM memory_events WHERE tenant = ? AND session_id NOT LIKE 'mem:unknown:%' GROUP BY session_id",
			"minutes": "SELECT session_id, sum(events), sum(allocation_bytes), sum(deallocation_bytes), toUInt64(max(assumeNotNull(peak_allocated_bytes))) " +
				"FROM memory_stats WHERE tenant = ? AND session_id NOT LIKE 'mem:unknown:%' GROUP BY session_id",
		} {
			var got map[string][]uint64
			eventually(t, 90*time.Second, tenant+", "+name, func() (bool, string) {
				var err error
				if got, err = c.tryRows(query, tenant); err != nil { // the tables may not be there yet
					return false, err.Error()
				}
				return reflect.DeepEqual(got, expect), fmt.Sprintf("%v, want %v", got, expect)
			})
		}
		// What came again is known as that, and nothing else is amiss.
		books := c.rows("SELECT '', sum(rejected), sum(duplicates) FROM usage WHERE tenant = ? AND source = 'telemetry'", tenant)[""]
		if len(books) != 2 || books[0] != 0 || books[1] == 0 {
			t.Errorf("%s: rejected and duplicates are %v", tenant, books)
		}
	}
	if n := c.one("SELECT countIf(sent_schema_version = 3) FROM memory_events WHERE tenant = 'exports' AND supports_device_used IS NOT NULL"); n != 49 {
		t.Errorf("%d events of version 3", n)
	}
}

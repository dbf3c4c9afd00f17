package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

// twin is a record of version 3, of which other copies may come.
func twin(session string, at string, metadata string) string {
	id, _ := json.Marshal(session)
	return fmt.Sprintf(`{"schema_version":3,"session_id":%s,"timestamp_ns":%s,"event_type":"allocation","collector":"stormlog.cuda_tracker",`+
		`"sampling_interval_ms":1,"pid":7,"host":"h",`+
		`"device_id":0,"allocator_allocated_bytes":100,"allocator_reserved_bytes":200,"allocator_active_bytes":null,`+
		`"allocator_inactive_bytes":null,"allocator_change_bytes":10,`+
		`"device_used_bytes":300,"device_free_bytes":null,"device_total_bytes":1000,"context":null,"metadata":%s}`, id, at, metadata)
}

// postTelemetry posts a body and returns the answer.
func (c *cluster) postTelemetry(t *testing.T, key, query, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+c.gatewayAddr+"/api/v1/telemetry?"+query,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, text)
}

// Copies of an event that say less or more, by several keys, in any order and over a worker's death, are one event, the fullest; times at
// the ends of what a column holds, ids that look like other sessions', and metadata of any size and depth do not change that. Another
// tenant's events are its own.
func TestTelemetryTwins(t *testing.T) {
	c := newCluster(t, 1)
	first, second, other := c.makeKey("twins"), c.makeKey("twins"), c.makeKey("others")
	const at, last = "1795000000123456789", "9223372036854775807"
	rich := `{"step":1,"phase_scope":{"name":"train"},"a":1}`
	huge := `{"text":"` + strings.Repeat("x", 900<<10) + `"}`
	deep := `{"a":` + strings.Repeat("[", 800) + strings.Repeat("]", 800) + `}`
	process := `{"schema_version":2,` + twin("", at, "{}")[len(`{"schema_version":3,"session_id":"",`):]
	post := func(key, query, body, want string) {
		t.Helper()
		if got := c.postTelemetry(t, key, query, body); !strings.HasPrefix(got, want) {
			t.Errorf("%.300s: %.400s, want %s", body, got, want)
		}
	}
	ok := func(n int) string { return fmt.Sprintf(`200 {"accepted":%d,"rejected":0,"duplicate":false`, n) }

	post(first, "", twin("s", at, "{}"), ok(1))
	post(first, "", twin("s", at, `{"step":1}`), ok(1))
	post(second, "format=ndjson", twin("s", at, "{}")+"\n"+twin("s", at, "{}"), ok(2))
	c.kill("worker0")
	post(second, "", "["+twin("s", at, rich)+"]", ok(1))
	c.start("worker0")
	post(first, "format=sink", twin("s", at, `{"step":1}`)+"\n{", ok(1))
	post(second, "", twin("s", at, "{}"), `200 {"accepted":1,"rejected":0,"duplicate":true`) // the first one's words, by another key
	post(other, "", twin("s", at, "{}"), ok(1))

	post(first, "", "["+twin("ends", "0", "{}")+","+twin("ends", last, "{}")+","+twin("ends", "-1", "{}")+","+
		twin("ends", "9223372036854775808", "{}")+"]", `200 {"accepted":2,"rejected":2`)
	post(first, "", "["+process+","+twin("h:7:-:0", at, "{}")+","+twin("h%3A7%3A-%3A0", at, "{}")+","+
		twin("unknown", at, "{}")+","+twin("sha256-00", at, "{}")+","+twin("é b\u00a0", at, "{}")+"]", ok(6))
	post(first, "", "["+twin("huge", at, huge)+","+twin("huge", "5", deep)+"]", ok(2))
	post(second, "format=ndjson", twin("huge", at, "{}")+"\n"+twin("huge", "5", "{}"), ok(2))

	want := map[string][]uint64{"s": {1, 10, 3}, "ends": {2, 20, 0}, "huge": {2, 20, 1}}
	for _, id := range []string{"h:7:-:0", "h%3A7%3A-%3A0", "h%253A7%253A-%253A0", "sha256", "é b\u00a0"} {
		want[id] = []uint64{1, 10, 0}
	}
	want["sha256"] = []uint64{2, 20, 0} // of two sessions, both hashed
	query := "SELECT if(startsWith(session_id, 'mem:sha256-'), 'sha256', substring(session_id, 5)) AS s, count(), " +
		"toUInt64(sum(allocator_change_bytes)), toUInt64(max(length(JSONExtractKeys(metadata)))) " +
		"FROM memory_events WHERE tenant = 'twins' GROUP BY s"
	minutes := "SELECT if(startsWith(session_id, 'mem:sha256-'), 'sha256', substring(session_id, 5)) AS s, sum(events), " +
		"sum(allocation_bytes) FROM memory_stats WHERE tenant = 'twins' GROUP BY s"
	var got map[string][]uint64
	eventually(t, 3*time.Minute, "events", func() (bool, string) {
		var err error
		if got, err = c.tryRows(query); err != nil {
			return false, err.Error()
		}
		return reflect.DeepEqual(got, want) && c.one("SELECT sum(events) FROM usage WHERE tenant = 'twins'") == 21,
			fmt.Sprintf("%v, want %v", got, want)
	})
	eventually(t, 3*time.Minute, "minutes", func() (bool, string) {
		sums, err := c.tryRows(minutes)
		for id, w := range want {
			if !reflect.DeepEqual(sums[id], w[:2]) {
				return false, fmt.Sprintf("%s: %v, want %v (%v)", id, sums[id], w[:2], err)
			}
		}
		return err == nil, fmt.Sprint(err)
	})
	eventually(t, 3*time.Minute, "the other tenant's event", func() (bool, string) {
		n := c.one("SELECT count() FROM memory_events WHERE tenant = 'others'")
		return n == 1, fmt.Sprint(n)
	})
	if n := c.one("SELECT uniqExact(session_id) FROM memory_events WHERE tenant = 'twins'"); n != 9 {
		t.Errorf("%d sessions", n)
	}
	if n := c.one("SELECT max(length(metadata)) FROM memory_events WHERE tenant = 'twins'"); n != uint64(len(huge)) {
		t.Errorf("the longest metadata has %d bytes, want %d", n, len(huge))
	}
	eventually(t, 3*time.Minute, "the session of the ends of time", func() (bool, string) {
		n := c.one("SELECT sum(samples) FROM sessions WHERE tenant = 'twins' AND session_id = 'mem:ends'")
		return n == 2, fmt.Sprintf("%d samples", n)
	})
	eventually(t, 3*time.Minute, "events, rejected and duplicates", func() (bool, string) {
		books, err := c.tryRows("SELECT '', sum(events), sum(rejected), sum(duplicates) FROM usage WHERE tenant = 'twins'")
		return err == nil && reflect.DeepEqual(books[""], []uint64{21, 2, 8}), fmt.Sprint(books, err)
	})
	if out, err := exec.Command(binary, append([]string{"report", "memory", "--tenant", "twins"}, c.asking()...)...).
		CombinedOutput(); err != nil {
		t.Errorf("report memory: %v\n%.2000s", err, out)
	}
}

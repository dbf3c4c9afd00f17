package ingest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/telemetry"
)

// v4 is a record as stormlog 0.4.3 writes it; change may alter it.
func v4(i int, session any, change func(map[string]any)) map[string]any {
	m := v2(i, nil)
	m["schema_version"], m["session_id"] = 4, session
	able := map[string]any{"backend": "cuda", "telemetry_collector": "stormlog.cuda_tracker", "sampling_source": "nvml"}
	for _, name := range strings.Fields("allocator_allocated allocator_reserved allocator_active allocator_inactive device_used " +
		"device_free device_total " +
		"native_allocator_history fragmentation_analysis allocator_attribution bounded_profiling") {
		able["supports_"+name] = true
	}
	m["metadata"] = map[string]any{"memory_capabilities": able}
	if change != nil {
		change(m)
	}
	return m
}

// A session that a record names is its session, whatever the version; nothing that it calls itself makes it another's.
func TestTelemetryNamedSessions(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	cases := []struct {
		record map[string]any
		want   string
	}{
		{v4(0, "0b0e7a52-7d5e", nil), "mem:0b0e7a52-7d5e"},
		{v4(0, "h:7:-:0", nil), "mem:h%3A7%3A-%3A0"},
		{v4(0, "unknown", nil), "mem:sha256-"},
		{v4(0, "sha256-00", nil), "mem:sha256-"},
		{v4(0, strings.Repeat("s", 400), nil), "mem:sha256-"},
		{v4(0, "a\nb", nil), "mem:sha256-"},
		{v4(0, nil, func(m map[string]any) { m["metadata"].(map[string]any)["session_id"] = "in metadata" }), "mem:in metadata"},
		{v4(0, 5, nil), "mem:sha256-"},
		{v2(0, nil), "mem:h:7:-:0"},
		{v2(1, func(m map[string]any) { m["metadata"] = map[string]any{"session_id": "two"} }), "mem:two"},
		{map[string]any{"timestamp": 5, "host": "h", "pid": 8}, "mem:h:8:-:0"},
		{map[string]any{"timestamp": 5, "host": "h", "pid": 8, "session_id": "one"}, "mem:one"},
	}
	var records []any
	for _, c := range cases {
		records = append(records, c.record)
	}
	if got := r.send("", jsonOf(t, records)); got.Sessions != len(cases) || got.Rejected != 0 {
		t.Fatalf("%s", got.raw)
	}
	seen := map[string]bool{}
	for i, m := range r.published() {
		want := cases[i].want
		if m.Session != want && !(strings.HasSuffix(want, "-") && strings.HasPrefix(m.Session, want)) || m.Session == "mem:sha256-00" ||
			seen[m.Session] {
			t.Errorf("session %q, want %q", m.Session, want)
		}
		seen[m.Session] = true
	}
}

// The older peer refuses what it does not know; of what both take the rows are the same.
func TestTelemetryPeers(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	records := []any{v2(0, nil), v4(1, "s", nil),
		v2(2, func(m map[string]any) { m["metadata"] = map[string]any{"memory_capabilities": nil} }),
		v2(3, func(m map[string]any) { m["schema_version"] = 3; m["session_id"] = "s" }),
		map[string]any{"timestamp": 5, "memory_mb": 1, "metadata": map[string]any{"session_id": "x"}}}
	older := r.send("peer=0.2.9", jsonOf(t, records))
	if older.Accepted != 3 || older.Rejected != 2 || older.Refused[0].Message != "Unsupported schema_version: 4" {
		t.Errorf("as 0.2.9: %s", older.raw)
	}
	newer := r.send("peer=0.4.3", jsonOf(t, records))
	if newer.Accepted != 4 || newer.Rejected != 1 || newer.Duplicate ||
		newer.Refused[0].Message != "metadata.memory_capabilities must be an object" {
		t.Errorf("as 0.4.3: %s", newer.raw)
	}
	if same := r.send("", jsonOf(t, records)); !same.Duplicate {
		t.Errorf("0.4.3 is not what is asked by default: %s", same.raw)
	}
	events, _ := r.stored()
	byTime := map[int64][]telemetry.Event{}
	for _, e := range events {
		byTime[e.TimestampNS] = append(byTime[e.TimestampNS], e)
	}
	twice := 0
	for _, list := range byTime {
		if len(list) == 2 {
			twice++
			a, b := telemetry.AppendFrame(nil, 0, &list[0]), telemetry.AppendFrame(nil, 0, &list[1])
			if string(a) != string(b) {
				t.Errorf("stored for 0.2.9 and 0.4.3:\n%s%s", a, b)
			}
		}
	}
	if len(events) != 7 || twice != 2 {
		t.Errorf("%d events, %d of them by both", len(events), twice)
	}
	for _, query := range []string{"peer=0.3.9", "peer=x", "default_session_id=%20", "default_session_id=%00"} {
		if got := r.send(query, jsonOf(t, records)); got.status != http.StatusBadRequest || !strings.Contains(got.raw, "bad_option") {
			t.Errorf("%s: %d %s", query, got.status, got.raw)
		}
	}
}

// The default is the session of records that name none, of every version.
func TestTelemetryDefaultSession(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	got := r.send("default_session_id=d:1", jsonOf(t, []any{v2(0, nil), v4(1, nil, nil), v4(2, "own", nil),
		map[string]any{"timestamp": 5}}))
	if got.Accepted != 4 || got.Sessions != 2 {
		t.Fatalf("%s", got.raw)
	}
	for _, m := range r.published() {
		if m.Session != "mem:d%3A1" && m.Session != "mem:own" {
			t.Errorf("session %q", m.Session)
		}
	}
}

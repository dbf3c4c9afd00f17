package ingest_test

import (
	"net/http"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// A document's session_summary goes to the workers for the session that its records are of, once, with records or without.
func TestTelemetrySummary(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	summary := func(status string, ended any) map[string]any {
		return map[string]any{"session_id": "a:b", "status": status, "started_at_ns": 5, "ended_at_ns": ended, "host": "h", "pid": 7,
			"source": "stormlog.tracker"}
	}
	v3 := v2(0, func(m map[string]any) { m["schema_version"], m["session_id"], m["event_type"] = 3, "a:b", "stop" })
	documents := [][]byte{
		jsonOf(t, map[string]any{"telemetry_events": []any{v3}, "session_summary": summary("Interrupted ", 9)}),
		jsonOf(t, map[string]any{"telemetry_events": []any{}, "session_summary": summary("running", nil)}),
		jsonOf(t, map[string]any{"telemetry_events": []any{}, "session_summary": summary("completed", "12")}),
		jsonOf(t, []any{v3}),
	}
	for i, body := range documents {
		for n, again := range [][]byte{body, gz(t, body)} {
			got := r.send("", again)
			if got.status != http.StatusOK || got.Duplicate != (n == 1) || got.Sessions != 1 || got.Rejected != 0 {
				t.Errorf("document %d, time %d: %d %s", i, n, got.status, got.raw)
			}
		}
	}
	var said []telemetry.SessionSummary
	summarized := map[bool]int{}
	for _, m := range folded(r.published()) {
		if m.Session != "mem:a%3Ab" || m.Source != "telemetry" {
			t.Errorf("a part of %s, source %s", m.Session, m.Source)
		}
		switch m.Kind {
		case stream.KindSummary:
			s, err := telemetry.ParseSummary(m.body)
			if err != nil || m.Events != 0 {
				t.Fatalf("%s: %v, %d events", m.body, err, m.Events)
			}
			said = append(said, *s)
		case stream.KindTelemetry:
			summarized[m.Summarized]++
		}
	}
	want := telemetry.SessionSummary{SessionID: "a:b", Status: "interrupted", StartedAtNS: 5, EndedAtNS: 9, Host: "h", PID: 7,
		Source: "stormlog.tracker"}
	if len(said) != 3 || said[0] != want || said[1].Status != "running" || said[1].EndedAtNS != 0 || said[2].Status != "completed" ||
		said[2].EndedAtNS != 12 {
		t.Errorf("%+v", said)
	}
	if summarized[true] != 1 || summarized[false] != 1 {
		t.Errorf("parts of summarized uploads: %v", summarized)
	}
	if got := r.send("peer=0.2.9", documents[1]); got.status == http.StatusOK {
		t.Errorf("0.2.9 knows no such document: %s", got.raw)
	}
	if got := r.send("", jsonOf(t, map[string]any{"telemetry_events": []any{},
		"session_summary": summary("dead", nil)})); got.status != http.StatusBadRequest || got.Code != "bad_summary" {
		t.Errorf("%d %s", got.status, got.raw)
	}
	r.balanced()
}

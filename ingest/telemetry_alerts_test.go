package ingest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// The alerts that a track file has beside its events go to the workers with the session, rank and device of those; they are no events.
func TestTrackFileAlerts(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	text, err := os.ReadFile("../testdata/telemetry/v4/exports/tf_track.json")
	if err != nil {
		t.Fatal(err)
	}
	for n, body := range [][]byte{text, gz(t, text)} {
		got := r.send("format=tf", body)
		if got.status != http.StatusOK || got.Accepted != 28 || got.Rejected != 0 || got.Sessions != 1 || got.Duplicate != (n == 1) {
			t.Errorf("time %d: %d %s", n, got.status, got.raw)
		}
	}
	if got := r.send("", text); got.Accepted != 28 { // the same events, of a JSON document
		t.Errorf("%s", got.raw)
	}
	parts := 0
	for _, m := range folded(r.published()) {
		if m.Kind != stream.KindAlerts {
			continue
		}
		parts++
		owner, list, alerts := alertsIn(t, m.body)
		if m.Session != "mem:c80d5583-7098-41e5-ba9d-78da10109b61" || m.Events != 0 || m.Part != -2 || len(list) != 26 ||
			owner != (telemetry.AlertOwner{Host: "node-b", JobID: "tf-2", DeviceID: -1}) ||
			!strings.Contains(list[0], `"timestamp_ns":1795313053396470784,"memory_mb":585.79296875,"threshold_mb":300,`) || alerts[25].TimestampNS != 1795313059731206656 {
			t.Errorf("%+v: %+v, %d alerts: %.300q", m.Envelope, owner, len(list), list)
		}
	}
	if parts != 1 {
		t.Errorf("%d parts of alerts", parts)
	}
	r.balanced()
}

// alertsIn reads a part of alerts.
func alertsIn(t *testing.T, body []byte) (owner telemetry.AlertOwner, lines []string, alerts []telemetry.Alert) {
	t.Helper()
	head, rest, _ := bytes.Cut(body, []byte{'\n'})
	if err := json.Unmarshal(head, &owner); err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(rest) {
		var a telemetry.Alert
		if err := telemetry.ParseAlert(line, &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		lines, alerts = append(lines, string(line)), append(alerts, a)
	}
	return owner, lines, alerts
}

// What is no alert is refused like a record, and the events stand; so are alerts of which nobody knows whose they are. A long list is cut.
func TestOddTrackFileAlerts(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	alert := func(at int) string {
		return fmt.Sprintf(`{"timestamp": %d, "memory_mb": 2.5, "threshold_mb": 1, "message": "%s"}`, at, strings.Repeat("m", 500))
	}
	file := func(alerts string, records ...map[string]any) []byte {
		return []byte(`{"alerts":[` + alerts + `],"memory_usage":[1],"timestamps":[1],"events":` +
			string(jsonOf(t, append([]map[string]any{}, records...))) + `}`)
	}
	one, two := v4(0, "one", nil), v4(1, "two", nil)
	var many, odd []string
	for i := range 5000 {
		many, odd = append(many, alert(i)), append(odd, fmt.Sprint(i))
	}
	odd[7] = alert(7)
	for name, c := range map[string]struct {
		body               []byte
		accepted, rejected uint64
		alerts, parts      int
	}{
		"many":            {file(strings.Join(many, ","), one), 1, 0, 5000, 3},
		"odd":             {file(strings.Join(odd, ","), v4(2, "odd", nil)), 1, 4999, 1, 1},
		"of two sessions": {file(alert(1)+","+alert(2), one, two), 2, 2, 0, 0},
		"of two devices":  {file(alert(1), one, v4(3, "one", func(m map[string]any) { m["device_id"] = 1 })), 2, 1, 0, 0},
		"of nothing":      {file(alert(1)), 0, 1, 0, 0},
		"of what is bad":  {file(alert(1), map[string]any{"schema_version": 4}), 0, 2, 0, 0},
		"a number":        {bytes.Replace(file("", v4(4, "n", nil)), []byte(`[]`), []byte(`5`), 1), 1, 0, 0, 0},
	} {
		before := len(folded(r.published()))
		for n := range 2 {
			got := r.send("format=tf", c.body)
			if got.status != http.StatusOK || got.Accepted != c.accepted || got.Rejected != c.rejected || got.Duplicate != (n == 1) {
				t.Errorf("%s: %d %.500s", name, got.status, got.raw)
			}
			if c.rejected > 0 && !strings.Contains(got.raw, `"code":"bad_alert"`) {
				t.Errorf("%s: %.500s", name, got.raw)
			}
		}
		alerts, parts := 0, 0
		for _, m := range folded(r.published())[before:] {
			if m.Kind == stream.KindAlerts {
				_, list, _ := alertsIn(t, m.body)
				alerts, parts = alerts+len(list), parts+1
			}
		}
		if alerts != c.alerts || parts != c.parts {
			t.Errorf("%s: %d alerts in %d parts", name, alerts, parts)
		}
	}
	r.balanced()
}

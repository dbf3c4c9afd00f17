package telemetry_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

// The JSON, CSV, NDJSON and sink exports of one run of stormlog 0.4.3 hold the same events, digit by digit.
func TestV4ExportsAgree(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(vectors + "v4/exports/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	events := func(in telemetry.Reader) []string {
		out := readAll(t, in)
		slices.Sort(out)
		return out
	}
	want := events(telemetry.NewDecoder(bytes.NewReader(read("cpu_tracker_events.json")), telemetry.Options{}))
	rows, err := telemetry.NewTable(bytes.NewReader(read("cpu_tracker_events.csv")), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	sink := slices.Concat(read("cpu_sink/segment-000001.jsonl"), read("cpu_sink/segment-000002.jsonl"), read("cpu_sink/segment-000003.jsonl"),
		read("cpu_sink/segment-000004.jsonl"))
	for name, got := range map[string][]string{
		"csv":    events(rows),
		"ndjson": events(telemetry.NewDecoder(bytes.NewReader(read("cpu_tracker_events.ndjson")), telemetry.Options{Lines: true})),
		"sink":   events(telemetry.NewDecoder(bytes.NewReader(sink), telemetry.Options{Lines: true})),
	} {
		if len(want) != 50 || !slices.Equal(got, want) {
			t.Errorf("%s: %d events, json has %d:\n%.2000s\n%.2000s", name, len(got), len(want), got, want)
		}
	}
}

// A monitor's file gives its samples and its alerts; in another tracker's file alerts are a number.
func TestTrackAlerts(t *testing.T) {
	text, err := os.ReadFile(vectors + "v4/exports/tf_monitor.json")
	if err != nil {
		t.Fatal(err)
	}
	track, err := telemetry.NewTrack(bytes.NewReader(text), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := readAll(t, track)
	if len(out) != 12 || !strings.Contains(out[5], `"event_type":"sample"`) || !strings.Contains(out[6], `"event_type":"warning"`) ||
		!strings.Contains(out[6], `"context":"Memory usage 585.9 MB exceeds threshold 300.0 MB"`) ||
		!strings.Contains(out[6], `"threshold_mb":300.0`) {
		t.Errorf("%d records: %q", len(out), out)
	}
	for _, alerts := range []string{`3`, `[]`, `[5,null,"]",{"timestamp":3,"memory_mb":1,"message":"a ] \" b"}]`, `{"timestamp":3}`} {
		track, err := telemetry.NewTrack(strings.NewReader(`{"alerts":`+alerts+`,"memory_usage":[1,2],"timestamps":[1,2],"duration":1}`),
			telemetry.Options{})
		if err != nil {
			t.Fatal(err)
		}
		want := 2
		if strings.Contains(alerts, "memory_mb") {
			want = 3
		}
		if out := readAll(t, track); len(out) != want || strings.Contains(strings.Join(out, ""), "!") {
			t.Errorf("%s: %q", alerts, out)
		}
	}
}

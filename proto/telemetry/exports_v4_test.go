package telemetry_test

import (
	"bytes"
	"os"
	"slices"
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
	sink := slices.Concat(read("cpu_sink/segment-000001.jsonl"), read("cpu_sink/segment-000002.jsonl"), read("cpu_sink/segment-000003.jsonl"), read("cpu_sink/segment-000004.jsonl"))
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

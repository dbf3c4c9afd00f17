package telemetry_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/telemetry"
)

// alertsOf reads the alerts of a document; of one that is refused its code and message.
func alertsOf(t testing.TB, text []byte, o telemetry.Options) (alerts []telemetry.Alert, refused []string) {
	t.Helper()
	l, err := telemetry.Survey(bytes.NewReader(text), telemetry.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for in := l.Alerts(bytes.NewReader(text), o); ; {
		r, a, err := in.Next()
		if err == io.EOF {
			return alerts, refused
		}
		if err != nil || r.Index != len(alerts)+len(refused) || (a == nil) != (r.Refusal != nil) || r.Event != nil {
			t.Fatal(r, a, err)
		}
		if a == nil {
			refused = append(refused, string(r.Refusal.Code)+": "+r.Refusal.Message)
			continue
		}
		same := *a
		same.Message = bytes.Clone(a.Message)
		alerts = append(alerts, same)
	}
}

// Of real track files each alert is at a sample, to the nanosecond, and repeats what that says is used.
func TestAlertsOfExports(t *testing.T) {
	for name, want := range map[string]int{"v4/exports/tf_track.json": 26, "exports/tf_track_output.json": 1,
		"v4/exports/cpu_tracker_events.json": 0} {
		text, err := os.ReadFile(vectors + name)
		if err != nil {
			t.Fatal(err)
		}
		alerts, refused := alertsOf(t, text, telemetry.Options{})
		if len(alerts) != want || len(refused) != 0 {
			t.Errorf("%s: %d alerts, want %d, %q", name, len(alerts), want, refused)
		}
		var file struct {
			Events []struct {
				At   int64  `json:"timestamp_ns"`
				Type string `json:"event_type"`
				Used int64  `json:"device_used_bytes"`
			}
		}
		if want > 0 {
			if err := json.Unmarshal(text, &file); err != nil {
				t.Fatal(err)
			}
		}
		used := map[int64]int64{}
		for _, e := range file.Events {
			if e.Type == "sample" {
				used[e.At] = e.Used
			}
		}
		for _, a := range alerts {
			if used[a.TimestampNS] != int64(a.MemoryMB*(1<<20)) || a.MemoryMB <= a.ThresholdMB ||
				!strings.HasPrefix(string(a.Message), "Memory usage ") {
				t.Errorf("%s: %+v %q", name, a, a.Message)
			}
		}
	}
}

// What is not an alert is refused alone, and a list of anything is no reason to refuse the events.
func TestOddAlerts(t *testing.T) {
	good := `{"timestamp":1.5,"memory_mb":2,"threshold_mb":1.0,"message":"a\u0000\ud83d\ude00","other":[{}]}`
	document := func(alerts string) []byte { return []byte(`{"alerts":` + alerts + `,"events":[{"timestamp":1}]}`) }
	for _, none := range []string{`3`, `null`, `{}`, `"[5]"`, `[]`, ` [ ] `, good} {
		if alerts, refused := alertsOf(t, document(none), telemetry.Options{}); len(alerts)+len(refused) != 0 {
			t.Errorf("%s: %v %q", none, alerts, refused)
		}
	}
	for _, odd := range []string{`5`, `null`, `"x"`, `[]`, `[` + good + `]`, `{}`, `{"timestamp":true,"memory_mb":2,"threshold_mb":1}`,
		`{"timestamp":"1","memory_mb":2,"threshold_mb":1}`,
		`{"timestamp":NaN,"memory_mb":2,"threshold_mb":1}`, `{"timestamp":-1,"memory_mb":2,"threshold_mb":1}`,
		`{"timestamp":1e10,"memory_mb":2,"threshold_mb":1}`,
		`{"timestamp":1e999,"memory_mb":2,"threshold_mb":1}`, `{"timestamp_ns":1.5,"memory_mb":2,"threshold_mb":1}`,
		`{"timestamp_ns":9223372036854775808,"memory_mb":2,"threshold_mb":1}`,
		`{"timestamp":1,"threshold_mb":1}`, `{"timestamp":1,"memory_mb":Infinity,"threshold_mb":1}`,
		`{"timestamp":1,"memory_mb":-2,"threshold_mb":1}`, `{"timestamp":1,"memory_mb":[2],"threshold_mb":1}`,
		`{"timestamp":1,"memory_mb":2}`, `{"timestamp":1,"memory_mb":2,"threshold_mb":null}`,
		`{"timestamp":1,"memory_mb":2,"threshold_mb":1,"message":5}`,
		strings.Repeat("[", 950) + strings.Repeat("]", 950), `{"timestamp":1,"memory_mb":2,"threshold_mb":1,"message":"` +
			strings.Repeat("x", 5000) + `"}`} {
		alerts, refused := alertsOf(t, document(`[`+good+`,`+odd+` , `+good+`]`), telemetry.Options{MaxRecordBytes: 4096})
		if len(alerts) != 2 || len(refused) != 1 || !strings.HasPrefix(refused[0], "bad_alert: ") || alerts[0].TimestampNS != 1_500_000_000 ||
			string(alerts[1].Message) != "a\x00😀" {
			t.Errorf("%.90s: %+v %q", odd, alerts, refused)
		}
	}
	// The last list counts, as the last value of every key does.
	text := []byte(`{"alerts":[` + good + `],"events":[{"timestamp":1}],"alerts":[` + good + `,` + good + `]}`)
	if alerts, _ := alertsOf(t, text, telemetry.Options{}); len(alerts) != 2 {
		t.Errorf("%d alerts", len(alerts))
	}
	text = []byte(`{"alerts":[` + good + `],"events":[{"timestamp":1}],"alerts":2}`)
	if alerts, _ := alertsOf(t, text, telemetry.Options{}); len(alerts) != 0 {
		t.Errorf("%d alerts", len(alerts))
	}
	// A long message ends with a whole character.
	for n := range 4 {
		alerts, _ := alertsOf(t, document(`[{"timestamp":1,"memory_mb":2,"threshold_mb":1,"message":"`+
			strings.Repeat("x", n)+strings.Repeat("😀", 500)+`"}]`), telemetry.Options{})
		if len(alerts) != 1 || len(alerts[0].Message) > telemetry.MaxAlertMessage || len(alerts[0].Message) < telemetry.MaxAlertMessage-3 ||
			!utf8.Valid(alerts[0].Message) {
			t.Errorf("%d: %+v", n, alerts)
		}
	}
}

// sameAlert fails unless what was read of text is read again of what is written of it.
func sameAlert(t *testing.T, text []byte) {
	var a, again telemetry.Alert
	if telemetry.ParseAlert(text, &a) != nil {
		return
	}
	line := telemetry.AppendAlert(nil, &a)
	if bytes.IndexByte(line, '\n') != len(line)-1 || len(line) > 8*telemetry.MaxAlertMessage {
		t.Fatalf("%q: %q is not a line", text, line)
	}
	if err := telemetry.ParseAlert(line, &again); err != nil {
		t.Fatalf("%q: %q: %v", text, line, err)
	}
	if len(a.Message) == 0 && len(again.Message) == 0 {
		a.Message, again.Message = nil, nil
	}
	if !reflect.DeepEqual(a, again) {
		t.Fatalf("%q: %+v, and then %+v", text, a, again)
	}
}

func FuzzAlert(f *testing.F) {
	f.Add([]byte(`{"timestamp":1795313053.3964708,"memory_mb":585.79296875,"threshold_mb":300.0,"message":"Memory usage 585.8 MB exceeds ` +
		`threshold 300.0 MB"}`))
	f.Add([]byte(` {"timestamp_ns":7,"memory_mb":-0.0,"threshold_mb":1e-7,"message":"\ud800\n","timestamp":null,"a":{"b":[]}} `))
	f.Add([]byte(`{"message":"` + strings.Repeat("é", 600) + `","timestamp":0,"memory_mb":0,"threshold_mb":0}`))
	f.Add([]byte(`{"message":"` + strings.Repeat(`\ud800`, 600) + `","timestamp":0,"memory_mb":1e308,"threshold_mb":0}`))
	f.Fuzz(sameAlert)
}

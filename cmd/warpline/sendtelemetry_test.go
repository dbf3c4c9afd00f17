package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// door is a gateway that keeps what it was sent and answers as it is told.
type door struct {
	*httptest.Server
	mu     sync.Mutex
	posts  []string // path, query and encoding
	bodies [][]byte
	answer func(n int) (int, string)
}

func newDoor(t *testing.T, answer func(n int) (int, string)) *door {
	d := &door{answer: answer}
	d.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.posts = append(d.posts, r.URL.Path+"?"+r.URL.RawQuery+" "+r.Header.Get("Content-Encoding"))
		d.bodies = append(d.bodies, body)
		status, text := d.answer(len(d.posts))
		w.WriteHeader(status)
		io.WriteString(w, text)
	}))
	t.Cleanup(d.Close)
	return d
}

func taken(int) (int, string) {
	return 200, `{"accepted":5,"rejected":0,"duplicate":false,"sessions":1,"errors":[],"errors_omitted":0}`
}

// Each kind of file goes to its own door in its own format, in one call.
func TestSendTellsFilesApart(t *testing.T) {
	d := newDoor(t, taken)
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := `{"timestamp":1700000000,"memory_mb":2}`
	write("a.json", "["+record+"]")
	write("b.ndjson", record+"\n")
	write("c.csv", "timestamp,memory_mb\n1,2\n")
	write("d/track.json", `{"memory_usage":[1],"timestamps":[1]}`)
	write("e/oom_dump_1/manifest.json", `{"bundle_name":"oom_dump_1"}`)
	write("e/oom_dump_1/events.json", "["+record+"]")
	write("session/device.1.log", `{"version":1,"type":"kernel_detail","session_id":"session","corr_id":1}`+"\n")
	// None of these is telemetry, and nobody has named them.
	write("f/trace.json", `{"traceEvents":[{"ph":"X"}]}`)
	write("f/settings.json", `{"a":1}`)
	write("f/list.json", `[1,2]`)
	write("f/telemetry_timeline.json", `{"timestamps":[1],"allocated":[2],"reserved":[3]}`) // of a diagnose bundle
	write("f/table.csv", "host,pid\nh,1\n")
	write("f/log.ndjson", `{"session_id":"s"}`+"\n")
	write("f/.hidden.json", "["+record+"]")
	// A folder with the buffers of a launch is one upload, with what lies beside them; a trace alone is another.
	write("g/input.json", `{}`)
	write("g/events.bin.gz", "x")
	write("g/counters.bin", "x")
	const regions = `{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","name":"process_name","pid":3,"tid":0,"args":{"name":"sm 3"}}]}`
	write("g/out/trace.json", regions)
	write("h/trace.json", regions)
	got := runIn(t, nil, "send", dir, "--url", d.URL, "--key", "k", "--default-collector", "mine",
		"--permissive-legacy=false", "--default-sampling-interval-ms", "7", "--events-key", "rows")
	if got.code != exitOK {
		t.Fatalf("%+v", got)
	}
	for _, want := range []string{
		"/api/v1/events/stream? ", "/api/v1/events/session-complete? ",
		"/api/v1/telemetry?default_collector=mine&default_sampling_interval_ms=7&format=oom&permissive_legacy=false ",
	} {
		if !strings.Contains(strings.Join(d.posts, "\n"), want) {
			t.Errorf("nothing was posted to %s: %q", want, d.posts)
		}
	}
	if n := strings.Count(strings.Join(d.posts, "\n"), "/api/v1/intrakernel"); n != 2 {
		t.Errorf("%d captures were posted, want 2: %q", n, d.posts)
	}
	// --permissive-legacy=false makes the others' first records no telemetry that is worth sending unasked.
	d.posts = nil
	got = runIn(t, nil, "send", dir, "--url", d.URL, "--key", "k")
	if n := strings.Count(strings.Join(d.posts, "\n"), "/api/v1/telemetry?"); got.code != exitOK || n != 5 {
		t.Errorf("%d files of telemetry: %q, %+v", n, d.posts, got)
	}
	for _, format := range []string{"json", "ndjson", "csv", "tf", "oom"} {
		if !strings.Contains(strings.Join(d.posts, "\n"), "format="+format+" ") {
			t.Errorf("no file of format %s: %q", format, d.posts)
		}
	}
	if !strings.Contains(got.stderr, "5 records of 1 session stored, 0 refused") {
		t.Error(got.stderr)
	}
}

// What the gateway refuses whole costs one file, is told, and is seen in the exit code.
func TestSendTelemetryRefused(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"1.json", "2.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	d := newDoor(t, func(n int) (int, string) {
		if n == 1 {
			return 400, `{"detail":"Expecting value: line 1 column 1 (char 0)","error":"bad_json"}`
		}
		return 200, `{"accepted":1,"rejected":5,"duplicate":true,"sessions":1,"errors":[{"index":2,"code":"not_integer","message":"pid must be ` +
			`an integer"},{},{},{}],"errors_omitted":1}`
	})
	got := runIn(t, nil, "send", filepath.Join(dir, "1.json"), filepath.Join(dir, "2.json"), "--url", d.URL, "--key", "k")
	if got.code != exitFailed || len(d.posts) != 2 {
		t.Errorf("%+v after %q", got, d.posts)
	}
	for _, want := range []string{"1.json (json): refused: 400 Bad Request: Expecting value",
		"1 record of 1 session stored, 5 refused; all of it was stored before", "record 2: pid must be an integer (not_integer)", "and 2 more",
		"1 file refused whole"} {
		if !strings.Contains(got.stderr, want) {
			t.Errorf("it does not say %q: %s", want, got.stderr)
		}
	}
	// A wrong key ends it at once; a gateway that is busy is asked again.
	d = newDoor(t, func(int) (int, string) { return 401, `{"detail":"no"}` })
	if got := runIn(t, nil, "send", filepath.Join(dir, "1.json"), "--url", d.URL, "--key", "k"); got.code != exitRefused || len(d.posts) != 1 {
		t.Errorf("%+v after %d tries", got, len(d.posts))
	}
	d = newDoor(t, func(n int) (int, string) {
		if n < 3 {
			return 503, `{"detail":"busy"}`
		}
		return taken(n)
	})
	if got := runIn(t, nil, "send", filepath.Join(dir, "1.json"), "--url", d.URL, "--key", "k", "--retry", "1ms"); got.code != exitOK ||
		len(d.posts) != 3 {
		t.Errorf("%+v after %d tries", got, len(d.posts))
	}
}

// A bundle's events say what its other files know.
func TestBundleBody(t *testing.T) {
	dir := filepath.Join("..", "..", "testdata", "telemetry", "exports", "oom_bundle")
	body, err := bundleBody(dir, "node-b")
	if err != nil {
		t.Fatal(err)
	}
	var events []struct {
		Type     string `json:"event_type"`
		Host     string
		PID      int
		Interval int `json:"sampling_interval_ms"`
		Rank     int
		Metadata struct {
			Bundle string `json:"oom_bundle"`
			OOM    struct {
				Message string         `json:"exception_message"`
				Custom  map[string]any `json:"custom_metadata"`
			}
		}
	}
	if err := json.Unmarshal(body, &events); err != nil || len(events) != 28 {
		t.Fatal(len(events), err)
	}
	told := 0
	for _, e := range events {
		if e.Host != "node-b" || e.PID != 3975 || e.Interval != 50 || e.Rank != 1 ||
			e.Metadata.Bundle != "oom_dump_20261120T115433Z_3975_cuda_1" {
			t.Errorf("%+v", e)
		}
		if e.Metadata.OOM.Message != "" {
			if told++; e.Type != "error" || fmt.Sprint(e.Metadata.OOM.Custom["step"]) != "17" {
				t.Errorf("%+v tells what went wrong", e)
			}
		}
	}
	if told != 1 {
		t.Errorf("%d events tell what went wrong", told)
	}
	// What encoding/json cannot read goes as it is.
	odd := t.TempDir()
	text := `[{"timestamp":1,"memory_allocated":NaN}]`
	if err := os.WriteFile(filepath.Join(odd, "events.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := bundleBody(odd, "h"); err != nil || string(b) != text {
		t.Errorf("%q, %v", b, err)
	}
}

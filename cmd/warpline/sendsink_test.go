package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A sink's segments go to the telemetry door as what they are, each with the session that the manifest names; what is beside them does
// not go, and a name that leads out of the folder is refused.
func TestSendSink(t *testing.T) {
	exports := filepath.Join("..", "..", "testdata", "telemetry", "v4", "exports")
	const id = "29df3a28-8005-4d5b-8b0d-b8a1e85577f7"
	post := func(n int) string { return "/api/v1/telemetry?default_session_id=" + id + "&format=sink " }
	for name, want := range map[string]int{"cpu_sink_killed": 4, "cpu_sink_killed/manifest.json": 4,
		"cpu_sink_killed/segment-000004.jsonl": 1} {
		d := newDoor(t, taken)
		got := runIn(t, nil, "send", filepath.Join(exports, filepath.FromSlash(name)), "--url", d.URL, "--key", "k")
		summaries := strings.Count(got.stderr, "session "+id+" is running")
		if got.code != exitOK || len(d.posts) != want+summaries || d.posts[0] != post(0) ||
			strings.Count(got.stderr, "(sink): 5 records of 1 session stored") != want || summaries != want/4 {
			t.Errorf("%s: %q\n%+v", name, d.posts, got)
		}
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// No manifest, or one that is not to be read: the segments tell. One that was torn in its first line is a segment all the same.
	write("a/segment-000001.jsonl", `{"schema`)
	write("b/manifest.json", `{"sessions`)
	write("b/segment-000007.jsonl", "{}\n")
	write("b/rollups.json", `[{"timestamp":1}]`)
	write("c/manifest.json", `{"format":"stormlog.append_only_telemetry_sink","segments":[5,{},{"filename":"gone.jsonl"},`+
		`{"filename":"x.jsonl","session_id":7}]}`)
	write("c/x.jsonl", "{}\n")
	d := newDoor(t, taken)
	got := runIn(t, nil, "send", dir, "--url", d.URL, "--key", "k")
	if got.code != exitOK || len(d.posts) != 3 || strings.Join(d.posts, "") != strings.Repeat("/api/v1/telemetry?format=sink ", 3) {
		t.Errorf("%q\n%+v", d.posts, got)
	}
	for _, bad := range []string{"../a/segment-000001.jsonl", "/etc/passwd", "sub/x.jsonl", "..", "a\\\\b"} {
		write("d/manifest.json", `{"format":"stormlog.append_only_telemetry_sink","segments":[{"filename":"`+bad+`"}]}`)
		d := newDoor(t, taken)
		if got := runIn(t, nil, "send", filepath.Join(dir, "d"), "--url", d.URL, "--key", "k"); got.code != exitUsage || len(d.posts) != 0 ||
			!strings.Contains(got.stderr, "path") {
			t.Errorf("%s: %q %+v", bad, d.posts, got)
		}
	}
}

// A bundle of today says itself which session and process it is of.
func TestBundleBodyWithSession(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"manifest.json":    `{"bundle_name":"b","schema_version":2,"session":{"session_id":"s-1","host":"node-a","pid":4242,"rank":null}}`,
		"events.json":      `[{"timestamp":1,"memory_allocated":1},{"timestamp":2,"memory_allocated":1,"session_id":"own"}]`,
		"environment.json": `{"pid":30077}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	body, err := bundleBody(dir, "here")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"session_id":"s-1"`, `"session_id":"own"`, `"host":"node-a"`, `"pid":4242`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%s lacks %s", body, want)
		}
	}
}

// A segment that has grown since it was found goes as it is now, as far as it says it is long.
func TestSendGrowingSink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "segment-000001.jsonl")
	if err := os.WriteFile(path, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDoor(t, func(n int) (int, string) {
		if n > 1 {
			return taken(n)
		}
		if err := os.WriteFile(path, []byte("{}\n{}\n{}"), 0o600); err != nil {
			t.Error(err)
		}
		return 503, `{"detail":"busy"}`
	})
	got := runIn(t, nil, "send", dir, "--url", d.URL, "--key", "k", "--retry", "1ms", "--attempts", "3")
	if got.code != exitOK || len(d.bodies) != 2 || string(d.bodies[1]) != "{}\n{}\n{}" {
		t.Errorf("%q\n%+v", d.bodies, got)
	}
}

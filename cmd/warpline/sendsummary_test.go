package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// What manifests say of sessions is sent behind their events, whatever was asked for the events; what says nothing is passed over.
func TestSendSummaries(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const ok = `{"session_id":"s-1","status":"interrupted","started_at_ns":5,"ended_at_ns":9007199254740993,"host":"h","pid":1,"source":"x",` +
		`"future":[1]}`
	const format = `"format":"stormlog.append_only_telemetry_sink",`
	for name, c := range map[string]struct {
		files map[string]string
		want  []string // session and status
		path  string   // what is asked for
	}{
		"sink": {map[string]string{"manifest.json": `{` + format + `"schema_version":2,"sessions":[5,` +
			ok + `,{},{"session_id":"s-2","status":"what"}]}`}, []string{"s-1 interrupted"}, ""},
		"manifest": {map[string]string{"manifest.json": `{` + format + `"schema_version":2,"sessions":[` + ok + `]}`},
			[]string{"s-1 interrupted"}, "manifest.json"},
		"sink of version 1": {map[string]string{"manifest.json": `{` + format + `"schema_version":1,"sessions":[` + ok + `]}`,
			"segment-000001.jsonl": "{}\n"}, nil, ""},
		"no list": {map[string]string{"manifest.json": `{` + format + `"schema_version":2,"sessions":{"a":1}}`,
			"segment-000001.jsonl": "{}\n"}, nil, ""},
		"bundle": {map[string]string{"manifest.json": `{"bundle_name":"b","session":` + ok + `}`, "events.json": "[]"},
			[]string{"s-1 interrupted"}, ""},
		"bundle's events": {map[string]string{"manifest.json": `{"bundle_name":"b","session":` + ok + `}`, "events.json": "[]"},
			[]string{"s-1 interrupted"}, "events.json"},
		"bundle's metadata": {map[string]string{"manifest.json": `{"bundle_name":"b"}`, "metadata.json": `{"session":` + ok + `}`,
			"events.json": "[]"}, []string{"s-1 interrupted"}, ""},
		"status alone": {map[string]string{"manifest.json": `{"bundle_name":"b","session":5,"session_id":"s-3","session_status":"running"}`,
			"events.json": "[]"}, []string{"s-3 running"}, ""},
		"old bundle": {map[string]string{"manifest.json": `{"bundle_name":"b"}`, "events.json": "[]"}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for file, text := range c.files {
				write(filepath.Join(name, file), text)
			}
			d := newDoor(t, taken)
			got := runIn(t, nil, "send", filepath.Join(dir, name, c.path), "--url", d.URL, "--key", "k", "--peer", "0.2.9", "--default-session-id",
				"d", "--events-key", "rows")
			if got.code != exitOK {
				t.Fatalf("%+v", got)
			}
			var said []string
			for i, post := range d.posts {
				if post != "/api/v1/telemetry?format=json " {
					if len(said) > 0 {
						t.Errorf("%s comes behind a summary", post)
					}
					continue
				}
				var body struct {
					Events  []any `json:"telemetry_events"`
					Summary struct {
						ID     string `json:"session_id"`
						Status string
						Ended  json.Number `json:"ended_at_ns"`
					} `json:"session_summary"`
				}
				if err := json.Unmarshal(d.bodies[i], &body); err != nil || body.Events == nil || len(body.Events) > 0 || body.Summary.ID == "s-1" &&
					body.Summary.Ended != "9007199254740993" {
					t.Errorf("%s: %v", d.bodies[i], err)
				}
				said = append(said, body.Summary.ID+" "+body.Summary.Status)
			}
			if len(said) != len(c.want) || len(said) == 1 && said[0] != c.want[0] {
				t.Errorf("said %q, want %q", said, c.want)
			}
		})
	}
}

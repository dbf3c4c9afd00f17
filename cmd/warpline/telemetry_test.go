package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTelemetryCheck(t *testing.T) {
	const first = `{"index":0,"verdict":"accept","event":{"schema_version":2,"timestamp_ns":1000000000,"event_type":"sample","collector":"legacy.unknown",` +
		`"sampling_interval_ms":0,"pid":-1,"host":"\ud800","job_id":null,"rank":0,"local_rank":0,"world_size":1,"device_id":-1,"allocator_allocated_bytes":0,` +
		`"allocator_reserved_bytes":0,"allocator_active_bytes":null,"allocator_inactive_bytes":null,"allocator_change_bytes":0,"device_used_bytes":0,` +
		`"device_free_bytes":null,"device_total_bytes":null,"context":null,"metadata":{"a":NaN,"b":1E2}}}` + "\n"
	const record = `{"timestamp":1,"host":"\ud800","metadata_b":1E2,"metadata":{"a":NaN}}`
	tests := []struct {
		args, input, want string
		code              int
	}{
		{"", record, first, 0},
		{"", "[" + record + ",5]", first + `{"index":1,"verdict":"reject","code":"event_not_object","message":"Event at index 1 must be an object"}` + "\n", 0},
		{"--exit-code", "[" + record + ",5]", first + `{"index":1,"verdict":"reject","code":"event_not_object","message":"Event at index 1 must be an object"}` + "\n", 1},
		{"--permissive-legacy=false", record, `{"index":0,"verdict":"reject","code":"legacy_refused","message":"Legacy record conversion is disabled"}` + "\n", 0},
		{"--events-key=data", `{"data":[` + record + `]}`, first, 0},
		{"--events-key=data", `{"data":{}}`, `{"verdict":"reject","code":"events_not_list","message":"Top-level key 'data' must contain a list of events"}` + "\n", 0},
		{"--ndjson", record + "\n\n{\n", first + `{"index":1,"verdict":"reject","code":"bad_json","message":"Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"}` + "\n", 0},
		{"", "[" + record + "][]", `{"verdict":"reject","code":"bad_json","message":"Extra data: line 1 column 72 (char 71)"}` + "\n", 0},
		{"", "[]", "", 0},
	}
	file := filepath.Join(t.TempDir(), "events.json")
	for _, tt := range tests {
		if err := os.WriteFile(file, []byte(tt.input), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, "-"} {
			var stdout, stderr bytes.Buffer
			p := &program{Stdin: strings.NewReader(tt.input), Stdout: &stdout, Stderr: &stderr}
			code := p.run(append(append([]string{"telemetry", "check"}, strings.Fields(tt.args)...), name))
			if code != tt.code || stdout.String() != tt.want {
				t.Errorf("%s %s < %s: exit code %d\n%swant %d\n%s%s", tt.args, name, tt.input, code, stdout.String(), tt.code, tt.want, stderr.String())
			}
		}
	}
	var stderr bytes.Buffer
	p := &program{Stdin: strings.NewReader(""), Stdout: new(bytes.Buffer), Stderr: &stderr}
	if code := p.run([]string{"telemetry", "check", filepath.Join(t.TempDir(), "none")}); code == 0 || !strings.Contains(stderr.String(), "none") {
		t.Errorf("a file that is not there: exit code %d, %s", code, stderr.String())
	}
}

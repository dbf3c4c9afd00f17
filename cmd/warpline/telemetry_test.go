package main

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/telemetry"
)

func TestTelemetryCheck(t *testing.T) {
	const first = `{"index":0,"verdict":"accept","event":{"schema_version":2,"timestamp_ns":1000000000,"event_type":"sample",` +
		`"collector":"legacy.unknown",` +
		`"sampling_interval_ms":0,"pid":-1,"host":"\ud800","job_id":null,"rank":0,"local_rank":0,"world_size":1,"device_id":-1,` +
		`"allocator_allocated_bytes":0,` +
		`"allocator_reserved_bytes":0,"allocator_active_bytes":null,"allocator_inactive_bytes":null,"allocator_change_bytes":0,` +
		`"device_used_bytes":0,` +
		`"device_free_bytes":null,"device_total_bytes":null,"context":null,"metadata":{"a":NaN,"b":1E2}}}` + "\n"
	const record = `{"timestamp":1,"host":"\ud800","metadata_b":1E2,"metadata":{"a":NaN}}`
	tests := []struct {
		args, input, want string
		code              int
	}{
		{"", record, first, 0},
		{"", "[" + record + ",5]", first + `{"index":1,"verdict":"reject","code":"event_not_object","message":"Event at index 1 must be an ` +
			`object"}` + "\n", 0},
		{"--exit-code", "[" + record + ",5]", first + `{"index":1,"verdict":"reject","code":"event_not_object","message":"Event at index 1 ` +
			`must be an object"}` + "\n", 1},
		{"--permissive-legacy=false", record, `{"index":0,"verdict":"reject","code":"legacy_refused","message":"Legacy record conversion is ` +
			`disabled"}` + "\n", 0},
		{"--events-key=data", `{"data":[` + record + `]}`, first, 0},
		{"--events-key=data", `{"data":{}}`, `{"verdict":"reject","code":"events_not_list","message":"Top-level key 'data' must contain a list ` +
			`of events"}` + "\n", 0},
		{"--ndjson", record + "\n\n{\n", first + `{"index":1,"verdict":"reject","code":"bad_json","message":"Expecting property name enclosed ` +
			`in double quotes: line 1 column 2 (char 1)"}` + "\n", 0},
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
			code := p.run(append(append([]string{"telemetry", "check", "--peer", "0.2.9"}, strings.Fields(tt.args)...), name))
			if code != tt.code || stdout.String() != tt.want {
				t.Errorf("%s %s < %s: exit code %d\n%swant %d\n%s%s", tt.args, name, tt.input, code, stdout.String(), tt.code, tt.want, stderr.String())
			}
		}
	}
	var stderr bytes.Buffer
	p := &program{Stdin: strings.NewReader(""), Stdout: new(bytes.Buffer), Stderr: &stderr}
	if code := p.run([]string{"telemetry", "check", filepath.Join(t.TempDir(), "none")}); code == 0 ||
		!strings.Contains(stderr.String(), "none") {
		t.Errorf("a file that is not there: exit code %d, %s", code, stderr.String())
	}
}

// By default stormlog 0.4.3 judges, and what it accepts is shown as schema version 4, in the session that is named by default if none is.
func TestTelemetryCheckPeers(t *testing.T) {
	const record = `{"timestamp":1795000000.25,"host":"h1","pid":9}`
	check := func(input string, args ...string) (string, int) {
		var out, errs bytes.Buffer
		p := &program{Stdin: strings.NewReader(input), Stdout: &out, Stderr: &errs}
		code := p.run(append([]string{"telemetry", "check", "-"}, args...))
		return out.String() + errs.String(), code
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, `"schema_version":4,"session_id":"legacy-2b7e6361-7e01-59f4-96e6-4bed5d08b9a7",`},
		{[]string{"--peer=0.4.3", "--default-session-id=d-1"}, `"schema_version":4,"session_id":"d-1",`},
		{[]string{"--peer=0.2.9", "--default-session-id=d-1"}, `"event":{"schema_version":2,"timestamp_ns"`},
	} {
		if out, code := check(record, c.args...); code != 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d: %s, want %s", c.args, code, out, c.want)
		}
	}
	if out, code := check(record, "--peer=0.3.9"); code == 0 || !strings.Contains(out, "0.2.9") {
		t.Errorf("an unknown release: exit code %d: %s", code, out)
	}
	if out, _ := check(strings.Replace(record, "{", `{"schema_version":3,`, 1), "--peer=0.2.9"); !strings.Contains(out,
		"Unsupported schema_version: 3") {
		t.Errorf("version 3 before 0.3.0: %s", out)
	}
}

// A tracker's CSV export is told by its name, as send tells it, and gives the lines that the same tracker's JSON export gives.
func TestTelemetryCheckForms(t *testing.T) {
	exports := filepath.Join("..", "..", "testdata", "telemetry", "exports")
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join(exports, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	pack := func(b []byte) []byte {
		var out bytes.Buffer
		z := gzip.NewWriter(&out)
		z.Write(b)
		z.Close()
		return out.Bytes()
	}
	table, list := read("cpu_tracker_events.csv"), read("cpu_tracker_events.json")
	check := func(stdin []byte, args ...string) (stdout, stderr string, code int) {
		var out, errs bytes.Buffer
		p := &program{Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: &errs}
		code = p.run(append([]string{"telemetry", "check"}, args...))
		return out.String(), errs.String(), code
	}
	want, _, code := check(list, "-")
	if n := strings.Count(want, `"verdict":"accept"`); code != 0 || n != 35 {
		t.Fatalf("exit code %d, %d records accepted, want 35", code, n)
	}
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, args := range [][]string{
		{filepath.Join(exports, "cpu_tracker_events.csv")}, {file("packed.csv.gz", pack(table))}, {file("packed.json.gz", pack(list))},
		{"--csv", "-"}, {"--csv", file("table.txt", table)},
	} {
		if got, stderr, code := check(table, args...); code != 0 || got != want {
			t.Errorf("%s: exit code %d, %s\n%.300s\nwant\n%.300s", args, code, stderr, got, want)
		}
	}

	lines := []byte("{\"timestamp\":1}\n{\"timestamp\":2}\n")
	for _, name := range []string{"a.ndjson", "a.jsonl"} {
		if got, stderr, code := check(nil, file(name, lines)); code != 0 || strings.Count(got, `"verdict":"accept"`) != 2 {
			t.Errorf("%s: exit code %d, %s\n%s", name, code, stderr, got)
		}
	}

	// What cannot be read says how it could be.
	for _, tt := range []struct {
		input   []byte
		args    []string
		code    int
		message string
	}{
		{table, []string{"-"}, 0, "--csv"},
		{table, []string{"--ndjson=false", file("table.json", table)}, 0, "--csv"},
		{lines, []string{"-"}, 0, "--ndjson"},
		{pack(table), []string{"-"}, 0, "gzip"},
		{nil, []string{"-"}, 0, "empty"},
		{nil, []string{"--csv", "-"}, 0, "empty"},
		{[]byte("\ufeff[]"), []string{"-"}, 0, "byte order mark"},
		{[]byte("\xff\xfe[\x00"), []string{"-"}, 0, "UTF-16"},
		{nil, []string{file("no.csv.gz", table)}, 2, "gzip"},
		{nil, []string{file("cut.csv.gz", pack(table)[:200])}, 1, "cut short"},
		{nil, []string{dir}, 2, "name one file"},
		{table, []string{"--csv", "--ndjson", "-"}, 2, "can't be used together"},
	} {
		got, stderr, code := check(tt.input, tt.args...)
		if code != tt.code || !strings.Contains(stderr, tt.message) || strings.Contains(got, "accept") {
			t.Errorf("%s < %.20q: exit code %d, want %d and %q\n%s%s", tt.args, tt.input, code, tt.code, tt.message, got, stderr)
		}
		if n := strings.Count(got, "\n"); code == 0 && n != 1 {
			t.Errorf("%s < %.20q: %d lines, want one", tt.args, tt.input, n)
		}
	}
	if _, stderr, _ := check([]byte(`{"a":1`), "-"); strings.Contains(stderr, "--csv") || strings.Contains(stderr, "--ndjson") {
		t.Errorf("broken JSON is not CSV: %s", stderr)
	}
}

// The list is whole, and a person can read it.
func TestTelemetryDivergences(t *testing.T) {
	r := runIn(t, nil, "telemetry", "divergences")
	if r.code != exitOK {
		t.Fatalf("%+v", r)
	}
	for _, d := range telemetry.Divergences() {
		if !strings.Contains(r.stdout, ". "+d.What+"\n   stormlog  "+d.Peer+"\n   warpline  "+d.Here+"\n") {
			t.Errorf("the list lacks %q:\n%s", d.What, r.stdout)
		}
	}
}

package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const ikpVectors = "../../testdata/intrakernel"

// ikpFile is a file of the vectors, unpacked.
func ikpFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		if b, err = os.ReadFile(path + ".gz"); err != nil {
			t.Fatal(err)
		}
		path += ".gz"
	}
	if !strings.HasSuffix(path, ".gz") {
		return b
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

// packed is the path of a file of the vectors, which may be there as gzip alone.
func packed(path string) string {
	if _, err := os.Stat(path); err != nil {
		return path + ".gz"
	}
	return path
}

// below are the files below a folder, unpacked, by path.
func below(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files[strings.TrimSuffix(rel, ".gz")] = string(ikpFile(t, path))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// sameFiles compares two sets of files.
func sameFiles(t *testing.T, got, want map[string]string) {
	t.Helper()
	for path, text := range want {
		if got[path] != text {
			t.Errorf("%s is not what the peer wrote (%d bytes of %d)", path, len(got[path]), len(text))
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s was written, and the peer has none", path)
		}
	}
}

// Every file that the peer wrote, from its buffers, packed and not, and all but the trace from its trace.
func TestIKPWritesEveryVector(t *testing.T) {
	found, err := filepath.Glob(filepath.Join(ikpVectors, "*", "counters.bin"))
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	for i, path := range found {
		dir := filepath.Dir(path)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			want := below(t, filepath.Join(dir, "out"))
			input, events := packed(filepath.Join(dir, "input.json")), filepath.Join(dir, "events.bin.gz")
			if i%2 == 0 {
				events = filepath.Join(t.TempDir(), "events.bin")
				if err := os.WriteFile(events, ikpFile(t, filepath.Join(dir, "events.bin.gz")), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			out := filepath.Join(t.TempDir(), "out")
			got := runIn(t, nil, "ikp", "--input", input, "--events", events, "--counters", path, "-o", out)
			if got.code != 0 || got.stdout != "" || len(want) == 0 && !strings.Contains(got.stderr, "nothing is written") {
				t.Fatalf("exit code %d, %s%s", got.code, got.stdout, got.stderr)
			}
			sameFiles(t, below(t, out), want)
			trace := ""
			for path := range want {
				if !strings.HasSuffix(path, "_summary.json") && !strings.Contains(path, "_dists/") {
					trace = path
				}
			}
			if trace == "" || slices.Contains([]string{"unmatched_begin_end", "ring_overflow_odd"}, filepath.Base(dir)) {
				return // the trace of these does not say what had no partner
			}
			again := t.TempDir()
			got = runIn(t, nil, "ikp", "--input", input, "--trace", filepath.Join(out, trace), "-o", again)
			if got.code != 0 {
				t.Fatalf("exit code %d, %s", got.code, got.stderr)
			}
			delete(want, trace)
			sameFiles(t, below(t, again), want)
		})
	}
}

// A path may go through a folder that is not there, if it stays below: the text of the files has it as it was given.
func TestIKPPathsThatComeBack(t *testing.T) {
	dir := filepath.Join(ikpVectors, "path_nested_json")
	text := strings.Replace(string(ikpFile(t, filepath.Join(dir, "input.json"))), `"sub/dir/t.json"`, `"none/.././sub//t.json"`, 1)
	input := filepath.Join(t.TempDir(), "input.json")
	if err := os.WriteFile(input, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	got := runIn(t, nil, "ikp", "--input", input, "--events", filepath.Join(dir, "events.bin.gz"), "--counters",
		filepath.Join(dir, "counters.bin"), "-o", out)
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	want := map[string]string{}
	for path, text := range below(t, filepath.Join(dir, "out")) {
		want[strings.Replace(path, "sub/dir/", "sub/", 1)] = strings.ReplaceAll(text, "sub/dir/t", "none/.././sub//t")
	}
	sameFiles(t, below(t, out), want)
}

// The real capture, from its packed trace and from stdin.
func TestIKPReadsTheGEMMTrace(t *testing.T) {
	file := filepath.Join(ikpVectors, "samples", "gemm_trace.json.gz")
	want := string(ikpFile(t, filepath.Join(ikpVectors, "samples", "gemm_trace_summary.json")))
	_, regions, _ := strings.Cut(want, "  \"regions\": [\n")
	dir := t.TempDir()
	if got := runIn(t, nil, "ikp", "--trace", file, "-o", dir); got.code != 0 {
		t.Fatal(got.stderr)
	}
	files := below(t, dir)
	if _, got, _ := strings.Cut(files["gemm_trace_summary.json"], "  \"regions\": [\n"); got != regions || len(files) != 1 {
		t.Errorf("%d files, other regions", len(files))
	}
	packedTrace, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	var words bytes.Buffer
	p := &program{Stdin: bytes.NewReader(packedTrace), Stdout: io.Discard, Stderr: &words,
		Env: func(string) (string, bool) { return "", false }}
	if code := p.run([]string{"ikp", "--trace", "-", "-o", dir}); code != 0 {
		t.Fatal(words.String())
	}
	if _, got, _ := strings.Cut(below(t, dir)["trace_summary.json"], "  \"regions\": [\n"); got != regions {
		t.Error("from stdin: other regions")
	}
}

// A trace of records without partners names SMs and warps alone: its summary has no region. An empty list is no record.
func TestIKPTraceWithoutSlices(t *testing.T) {
	for _, c := range []struct{ trace, want string }{
		{`{"displayTimeUnit":"ns","traceEvents":[` + "\n" + `{"ph":"M","name":"process_name","pid":1,"tid":0,"args":{"name":"sm 1"}}` + "\n]}\n",
			"  \"regions\": [\n\n  ],\n"},
		{`{"displayTimeUnit":"ns","traceEvents":[]}`, ""},
	} {
		dir, out := t.TempDir(), t.TempDir()
		path := filepath.Join(dir, "trace.json")
		if err := os.WriteFile(path, []byte(c.trace), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runIn(t, nil, "ikp", "--trace", path, "-o", out)
		files := below(t, out)
		if got.code != 0 || len(files) > 0 != (c.want != "") || !strings.Contains(files["trace_summary.json"], c.want) {
			t.Errorf("exit code %d, %s%v", got.code, got.stderr, files)
		}
	}
}

// What cannot be used is refused with the file, the field and the number, and nothing is written.
func TestIKPRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const session = `"session":{"per_warp_cap":4,"grid_x":1,"threads_per_block":32}`
	good := file("input.json", "{"+session+"}")
	events, counters := file("events.bin", strings.Repeat("\x00", 64)), file("counters.bin", "\x02\x00\x00\x00")
	outside := filepath.Join(dir, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(out, "link")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--input", good, "--events", events}, exitUsage, "--counters"},
		{[]string{"--input", good, "--events", "-", "--counters", "-"}, exitUsage, "only one of the files can be -"},
		{[]string{"--trace", good, "--events", events}, exitUsage, "--trace is instead of --events"},
		{[]string{"--input", good, "--trace", good, "--scale", "2"}, exitUsage, "options.scale"},
		{[]string{"--input", filepath.Join(dir, "none"), "--events", events, "--counters", counters}, exitUsage, "none"},
		{[]string{"--input", good, "--events", dir, "--counters", counters}, exitUsage, "is a folder: name a file"},
		{[]string{"--input", file("up.json", `{`+session+`,"trace_path":"../t.json"}`), "--events", events, "--counters", counters}, exitFailed,
			`up.json: input: trace_path: "../t.json" leaves the output folder`},
		{[]string{"--input", file("link.json", `{`+session+`,"trace_path":"link/t.json"}`), "--events", events, "--counters", counters},
			exitFailed, "escapes"},
		{[]string{"--input", file("cap.json", strings.Replace("{"+session+"}", "4", "5", 1)), "--events", events, "--counters", counters},
			exitFailed, "cap.json: input: session.per_warp_cap: 5 is no power of two"},
		{[]string{"--input", good, "--events", file("cut.bin", strings.Repeat("\x00", 20)), "--counters", counters}, exitFailed,
			"cut.bin: events: ends after 20 bytes, inside a record, and grid_x × warps × per_warp_cap × 16 is 64"},
		{[]string{"--input", good, "--events", file("long.bin.gz", zip(t, strings.Repeat("\x00", 1<<20))), "--counters", counters}, exitFailed,
			"long.bin.gz: events: longer than"},
		{[]string{"--input", good, "--events", file("torn.bin.gz", zip(t, strings.Repeat("\x00", 64))[:20]), "--counters", counters}, exitFailed,
			"torn.bin.gz: events: "},
		{[]string{"--input", good, "--events", file("no.gz", strings.Repeat("text", 9)), "--counters", counters}, exitUsage,
			"no.gz: gzip: invalid header"},
		{[]string{"--trace", file("t.json", `[{"ph":"X"}]`)}, exitFailed, "t.json: trace: event at byte 1: args"},
	} {
		got := runIn(t, nil, append(append([]string{"ikp"}, c.args...), "-o", out)...)
		if got.code != c.code || got.stdout != "" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%v: exit code %d, %s\nwant %d, %s", c.args, got.code, got.stderr, c.code, c.want)
		}
	}
	for _, dir := range []string{out, outside} {
		if files, err := os.ReadDir(dir); err != nil || len(files) > 1 {
			t.Errorf("%v, %v", files, err)
		}
	}
}

// A file that cannot get its name leaves nothing under another one.
func TestIKPLeavesNoParts(t *testing.T) {
	out := t.TempDir()
	if err := os.MkdirAll(filepath.Join(out, "trace.json", "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(ikpVectors, "paired_basic")
	got := runIn(t, nil, "ikp", "--input", packed(filepath.Join(dir, "input.json")), "--events", filepath.Join(dir, "events.bin.gz"),
		"--counters", filepath.Join(dir, "counters.bin"), "-o", out)
	if got.code != exitFailed || !strings.Contains(got.stderr, "write below") {
		t.Errorf("exit code %d, %s", got.code, got.stderr)
	}
	for path := range below(t, out) {
		if strings.HasSuffix(path, ".partial") {
			t.Errorf("%s is left", path)
		}
	}
}

func zip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

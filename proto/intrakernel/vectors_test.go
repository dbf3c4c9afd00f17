package intrakernel_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/intrakernel"
)

const vectors = "../../testdata/intrakernel"

// readFile reads a file, which may be there as gzip alone.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil && !strings.HasSuffix(path, ".gz") {
		return b
	}
	f, err := os.Open(strings.TrimSuffix(path, ".gz") + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err = io.ReadAll(z); err != nil {
		t.Fatal(err)
	}
	return b
}

// cases are the names of all vectors.
func cases(t testing.TB) (names []string) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(vectors, "*", "counters.bin"))
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	for _, path := range found {
		names = append(names, filepath.Base(filepath.Dir(path)))
	}
	return names
}

// wanted are the files that the peer wrote, by path.
func wanted(t testing.TB, name string) map[string]string {
	t.Helper()
	files := map[string]string{}
	dir := filepath.Join(vectors, name, "out")
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if os.IsNotExist(err) && path == dir {
			return nil // the peer wrote nothing
		}
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			files[strings.TrimSuffix(rel, ".gz")] = string(readFile(t, path))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

type file struct{ bytes.Buffer }

func (*file) Close() error { return nil }

// writeAll is all that the options ask for, by path.
func writeAll(t testing.TB, timeline *intrakernel.Timeline, h *intrakernel.Header, trace bool) map[string]string {
	t.Helper()
	files := map[string]*file{}
	create := func(name string) (io.WriteCloser, error) {
		files[name] = &file{}
		return files[name], nil
	}
	write := func(path string, write func(io.Writer) error) {
		f, _ := create(path)
		if err := write(f); err != nil {
			t.Fatal(err)
		}
	}
	if timeline.Survivors > 0 {
		if h.Options.HasSummary() {
			write(intrakernel.SummaryPath(h.Path), timeline.WriteSummary)
		}
		if h.Options.HasBlocks() {
			err := timeline.WriteBlocks(func(name string) (io.WriteCloser, error) {
				return create(intrakernel.BlocksPath(h.Path) + "/" + name)
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if trace {
			write(h.Path, timeline.WriteTrace)
		}
	}
	out := map[string]string{}
	for path, f := range files {
		out[path] = f.String()
	}
	return out
}

// compare says where two sets of files differ first.
func compare(t *testing.T, got, want map[string]string) {
	t.Helper()
	for path, text := range want {
		have, ok := got[path]
		if !ok {
			t.Errorf("%s was not written", path)
			continue
		}
		if have == text {
			continue
		}
		a, b := strings.Split(have, "\n"), strings.Split(text, "\n")
		for i := range min(len(a), len(b)) {
			if a[i] != b[i] {
				t.Errorf("%s line %d\n got %.300s\nwant %.300s", path, i+1, a[i], b[i])
				break
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %d lines, want %d", path, len(a), len(b))
		}
	}
	for path := range got {
		if _, ok := want[path]; !ok {
			t.Errorf("%s was written, and the peer has none", path)
		}
	}
}

// load reads the capture of a case.
func load(t testing.TB, name string) (*intrakernel.Header, *intrakernel.Timeline) {
	t.Helper()
	dir := filepath.Join(vectors, name)
	h, err := intrakernel.ParseHeader(readFile(t, filepath.Join(dir, "input.json")))
	if err != nil {
		t.Fatal(err)
	}
	c, err := intrakernel.Collect(bytes.NewReader(readFile(t, filepath.Join(dir, "events.bin"))),
		bytes.NewReader(readFile(t, filepath.Join(dir, "counters.bin"))), h)
	if err != nil {
		t.Fatal(err)
	}
	timeline, err := c.Timeline(h)
	if err != nil {
		t.Fatal(err)
	}
	return h, timeline
}

// Every file that the peer wrote, byte for byte, from the buffers.
func TestEveryVector(t *testing.T) {
	for _, name := range cases(t) {
		t.Run(name, func(t *testing.T) {
			h, timeline := load(t, name)
			compare(t, writeAll(t, timeline, h, true), wanted(t, name))
		})
	}
}

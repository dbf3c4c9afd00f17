package parca

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func vector(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../testdata/parca", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func wantRows(t testing.TB, names ...string) (rows []WireRow) {
	t.Helper()
	for _, name := range names {
		d := json.NewDecoder(bytes.NewReader(vector(t, name+".wire_rows.ndjson")))
		d.DisallowUnknownFields()
		for d.More() {
			var w WireRow
			if err := d.Decode(&w); err != nil {
				t.Fatal(err)
			}
			rows = append(rows, w)
		}
	}
	return rows
}

func sameRows(t *testing.T, got, want []WireRow) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range got {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("row %d:\n got %+v\nwant %+v", i, got[i], want[i])
		}
	}
}

// ipcOf takes the stream out of a WriteArrowRequest.
func ipcOf(t testing.TB, request []byte) []byte {
	t.Helper()
	w := wire{b: request}
	f, ok := w.next()
	if !ok || f.num != 1 {
		t.Fatal("no ipc_buffer")
	}
	return f.data
}

// Every vector of schema v2 gives exactly its rows, whatever was decoded before.
func TestRowsOfSchemaV2(t *testing.T) {
	var b Batch
	for range 2 {
		for _, c := range []struct{ rows, file string }{
			{"batch1", "batch1.v2.lz4.arrows"}, {"batch2", "batch2.v2.lz4.arrows"}, {"hash_collision", "hash_collision.v2.lz4.arrows"},
		} {
			if err := b.DecodeArrow(vector(t, c.file)); err != nil {
				t.Fatal(c.file, err)
			}
			sameRows(t, slices.Collect(b.Rows()), wantRows(t, c.rows))
		}
	}
	if err := b.DecodeArrow(ipcOf(t, vector(t, "batch1.WriteArrowRequest.pb"))); err != nil {
		t.Fatal(err)
	}
	sameRows(t, slices.Collect(b.Rows()), wantRows(t, "batch1"))
}

// Schema v1 gives the rows of v2, and asks for its locations where they are not there.
func TestRowsOfSchemaV1(t *testing.T) {
	var b Batch
	for _, name := range []string{"batch1", "hash_collision"} {
		samples, locations := vector(t, name+".v1.samples.arrows"), vector(t, name+".v1.locations.arrows")
		var need *NeedLocations
		if err := b.DecodeArrow(samples); !errors.As(err, &need) {
			t.Fatal(err)
		}
		if err := b.DecodeArrowV1(samples, locations); err != nil {
			t.Fatal(err)
		}
		sameRows(t, slices.Collect(b.Rows()), wantRows(t, name))
		answer, err := StacktraceIDs(samples)
		if err != nil {
			t.Fatal(err)
		}
		var m uploadMemory
		m.begin(1 << 20)
		asked := map[string]bool{}
		if err := eachStackID(&m, answer, func(id [16]byte) { asked[string(id[:])] = true }); err != nil {
			t.Fatal(err)
		}
		ids := map[string]bool{}
		for w := range b.Rows() {
			ids[w.StacktraceID] = true
		}
		if len(asked) != len(ids) {
			t.Fatalf("asked for %d stacks of %d", len(asked), len(ids))
		}
	}
}

func padataRows(t *testing.T, file []byte) (rows []WireRow, end error) {
	t.Helper()
	p, err := NewPadata(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	var b Batch
	for {
		ipc, err := p.Next()
		if err != nil {
			return rows, err
		}
		if len(ipc) == 1 {
			err = b.DecodeArrow(ipc[0])
		} else {
			err = b.DecodeArrowV1(ipc[0], ipc[1])
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = slices.AppendSeq(rows, b.Rows())
	}
}

// Offline files give the rows of their batches. One that ends within a batch gives those before, and says where it ends.
func TestRowsOfOfflineFiles(t *testing.T) {
	d, err := zstd.NewReader(bytes.NewReader(vector(t, "offline_v2.padata.zst")))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	for name, file := range map[string][]byte{
		"v1": vector(t, "offline_v1.padata"), "v2": vector(t, "offline_v2.padata"), "v2.zst": unpacked,
	} {
		rows, end := padataRows(t, file)
		if end != io.EOF {
			t.Fatal(name, end)
		}
		want := wantRows(t, "batch1")
		if len(rows) > len(want) {
			want = wantRows(t, "batch1", "batch2")
		}
		t.Log(name, len(rows), "rows")
		sameRows(t, rows, want)
		for cut := 0; cut < len(file); cut += 997 {
			some, end := padataRows(t, file[:cut])
			var torn *TornError
			if end != io.EOF && !errors.As(end, &torn) {
				t.Fatal(name, cut, end)
			}
			sameRows(t, some, rows[:len(some)])
		}
	}
}

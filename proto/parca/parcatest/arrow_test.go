package parcatest

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/ipc"
)

// The encoders give, from the rows, what the agent's own builders gave: equal schemas, and equal columns down to their runs and
// dictionaries.
func TestArrowAsTheAgentBuildsIt(t *testing.T) {
	for _, name := range []string{"batch1", "hash_collision"} {
		rows, err := Rows(vector(t, name+".wire_rows.ndjson"))
		if err != nil {
			t.Fatal(err)
		}
		samples, locations := ArrowV1(rows)
		equalStreams(t, Arrow(rows), vector(t, name+".v2.lz4.arrows"))
		equalStreams(t, ArrowPlain(rows), vector(t, name+".v2.lz4.arrows"))
		equalStreams(t, samples, vector(t, name+".v1.samples.arrows"))
		equalStreams(t, locations, vector(t, name+".v1.locations.arrows"))
	}
}

// An offline file has both batches, one after the other.
func TestPadataAsTheAgentWritesIt(t *testing.T) {
	one, err := Rows(vector(t, "batch1.wire_rows.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Rows(vector(t, "batch2.wire_rows.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	got, want := Padata(one, two), vector(t, "offline_v2.padata")
	if !bytes.Equal(got[:8], want[:8]) {
		t.Fatalf("head % x, want % x", got[:8], want[:8])
	}
	got, want = got[8:], want[8:]
	for range 2 {
		var a, b []byte
		a, got = cutSized(got)
		b, want = cutSized(want)
		equalStreams(t, a, b)
	}
	if len(got)+len(want) > 0 {
		t.Errorf("%d and %d bytes are left", len(got), len(want))
	}
}

func cutSized(b []byte) (ipc, rest []byte) {
	n := binary.BigEndian.Uint32(b)
	return b[4 : 4+n], b[4+n:]
}

func vector(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("../../../testdata/parca", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func equalStreams(t *testing.T, got, want []byte) {
	t.Helper()
	a, err := ipc.NewReader(bytes.NewReader(got))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ipc.NewReader(bytes.NewReader(want))
	if err != nil {
		t.Fatal(err)
	}
	if !a.Schema().Equal(b.Schema()) || a.Schema().Metadata().String() != b.Schema().Metadata().String() {
		t.Fatalf("schema is\n%v\nwant\n%v", a.Schema(), b.Schema())
	}
	if !a.Next() || !b.Next() {
		t.Fatalf("no record: %v, %v", a.Err(), b.Err())
	}
	for i, c := range a.Record().Columns() {
		if got, want := c.String(), b.Record().Column(i).String(); got != want {
			t.Errorf("column %s is\n%.3000s\nwant\n%.3000s", a.Record().ColumnName(i), got, want)
		}
	}
	if a.Next() || b.Next() {
		t.Error("more than one record")
	}
}

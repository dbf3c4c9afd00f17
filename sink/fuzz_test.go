package sink_test

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

var lengths = regexp.MustCompile(`"(?:schema_len|data_len|packed_len|rows)":(\d+)`)

var schemaLen = regexp.MustCompile(`"schema_len":\d+,`)

// Whatever lies in ROWS, taking it apart ends with rows or with an error.
func FuzzLoad(f *testing.F) {
	w := &world{t: f, numbers: make([]uint64, 1), snapshot: make([]uint64, 1), lastSeq: make([]uint64, 1), rng: rand.New(rand.NewPCG(1, 2))}
	c, body := w.chunk(0, 20)
	whole, err := stream.AppendChunk(nil, &c, []byte("state"), body)
	if err != nil {
		f.Fatal(err)
	}
	if rows, batches, err := sink.Load(whole); err != nil || rows != 30 || batches != 5 {
		f.Fatalf("%d rows in %d batches (%v), want 30 in 5", rows, batches, err)
	}
	f.Add(whole)
	for _, damage := range []string{`"schema_len":-1,`, `"schema_len":4611686018427387904,`, `"schema_len":99,`} {
		f.Add(schemaLen.ReplaceAll(whole, []byte(damage)))
	}
	f.Fuzz(func(t *testing.T, msg []byte) { sink.Load(msg) })
}

// The names come out of a schema message as Arrow put them in.
func TestColumnNames(t *testing.T) {
	for _, tab := range tabletest.Schema().Tables() {
		var want []string
		for _, c := range tab.Columns {
			want = append(want, c.Name)
		}
		have, err := sink.ColumnNames(tab.SchemaMessage())
		if err != nil || !slices.Equal(have, want) {
			t.Errorf("%s: %v (%v), want %v", tab.Name, have, err, want)
		}
	}
}

func FuzzColumnNames(f *testing.F) {
	for _, tab := range tabletest.Schema().Tables() {
		f.Add(tab.SchemaMessage())
	}
	f.Fuzz(func(t *testing.T, message []byte) { sink.ColumnNames(message) })
}

// Chunks with damage that is likely to matter, in every test run: bytes changed, cut off, and lengths in the header rewritten.
func TestDamagedChunks(t *testing.T) {
	w := &world{t: t, numbers: make([]uint64, 1), snapshot: make([]uint64, 1), lastSeq: make([]uint64, 1), rng: rand.New(rand.NewPCG(3, 4))}
	refused := 0
	for range 3000 {
		c, body := w.chunk(0, 20)
		msg, err := stream.AppendChunk(nil, &c, nil, body)
		if err != nil {
			t.Fatal(err)
		}
		if w.rng.IntN(2) == 0 { // another number of as many digits in one of the header's lengths
			all := lengths.FindAllSubmatchIndex(msg, -1)
			at := all[w.rng.IntN(len(all))]
			for i := at[2]; i < at[3]; i++ {
				msg[i] = '1' + byte(w.rng.IntN(9))
			}
		}
		if w.rng.IntN(2) == 0 {
			msg[w.rng.IntN(len(msg))] ^= 1 << w.rng.IntN(8)
		}
		if w.rng.IntN(4) == 0 {
			msg = msg[:w.rng.IntN(len(msg))]
		}
		if _, _, err := sink.Load(msg); err != nil {
			refused++
		}
	}
	if refused < 500 {
		t.Errorf("only %d of 3000 were refused", refused)
	}
}

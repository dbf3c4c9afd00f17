package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
	tracetable "github.com/warpline/warpline/sink/table/trace"
)

func init() { rows.Strict = true }

// vectors are the traces of testdata, by name.
func vectors(t testing.TB) map[string][]byte {
	t.Helper()
	found, err := filepath.Glob("../../testdata/traces/real/*.json.gz")
	if err != nil || len(found) < 7 {
		t.Fatalf("%d traces, %v", len(found), err)
	}
	all := map[string][]byte{}
	for _, path := range found {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		if all[filepath.Base(path)], err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	return all
}

// bodies are the parts of a trace.
func bodies(t testing.TB, trace []byte, limit int) (all [][]byte) {
	t.Helper()
	meta, err := kineto.Survey(bytes.NewReader(trace))
	if err != nil {
		t.Fatal(err)
	}
	c := kineto.Cutter{Head: kineto.Head{Complete: meta.Complete, Rank: meta.Rank, Devices: meta.Devices, Vendor: meta.Vendor}, Meta: meta,
		Limit: limit, Refuse: func(r *kineto.Refusal) error { return fmt.Errorf("%+v", r) },
		Send: func(_ *kineto.Head, _ uint64, _ int64, body []byte) error {
			all = append(all, bytes.Clone(body))
			return nil
		}}
	if err := c.Cut(bytes.NewReader(trace)); err != nil {
		t.Fatal(err)
	}
	return all
}

func newFold() *aggregate.Fold {
	return aggregate.NewFold(aggregate.Config{Sources: []aggregate.Source{Source()}})
}

func envelope(session string, part int, events uint64) stream.Envelope {
	return stream.Envelope{Tenant: "t", Session: session, Recurs: true, Kind: stream.KindTrace, Source: "trace",
		Identity: "session-1~2", Part: part, Events: events, Bytes: 100, ReceivedAt: 1795176000e9, RetentionDays: 7, RollupDays: 395}
}

// Every element is received once and then stored; a part that comes again is a duplicate; one that cannot be read is a reject.
func TestEveryElementOnce(t *testing.T) {
	f := newFold()
	for name, trace := range vectors(t) {
		stored, want := uint64(0), uint64(0)
		for i, b := range bodies(t, trace, 1<<18) {
			var part kineto.Part
			if err := part.Decode(b); err != nil {
				t.Fatal(err)
			}
			want += part.Elements()
			for again := range 2 {
				p := &aggregate.Part{Seq: 1, Env: envelope(name, i, part.Elements())}
				f.Take(p, f.Session(p), b)
				c := p.Counted()
				if c.Events != c.Stored+c.Duplicates || c.Events != part.Elements() || again == 0 && c.Stored != c.Events {
					t.Fatalf("%s, part %d, time %d: %d elements: %+v", name, i, again, part.Elements(), c)
				}
				stored += c.Stored
			}
		}
		if stored != want {
			t.Errorf("%s: %d elements stored, want %d", name, stored, want)
		}
	}
	f.Flush(1)
	if f.HeldAccs != 0 {
		t.Errorf("%d accumulators are left", f.HeldAccs)
	}
	p := &aggregate.Part{Seq: 1, Env: envelope("damaged", 0, 7)}
	f.Take(p, f.Session(p), []byte("\x02nonsense"))
	if c := p.Counted(); c.Events != 7 || c.Rejected() != 7 || c.Stored != 0 {
		t.Errorf("a damaged part: %+v", c)
	}
}

// Of a trace of more parts than the core remembers, each part that comes again is found, also by a successor.
func TestMoreThanTheNewestParts(t *testing.T) {
	const n = 9000
	var trace strings.Builder
	trace.WriteString("[")
	for i := range n {
		fmt.Fprintf(&trace, `{"ph":"X","cat":"cpu_op","name":"op","ts":%d,"dur":1},`, i)
	}
	all := bodies(t, []byte(trace.String()[:trace.Len()-1]+"]"), 1)
	if len(all) != n {
		t.Fatalf("%d parts", len(all))
	}
	f := newFold()
	counted := func() (stored, repeated uint64) {
		for i, b := range all {
			p := &aggregate.Part{Seq: uint64(i + 1), Env: envelope("s", i, 1)}
			f.Take(p, f.Session(p), b)
			c := p.Counted()
			stored, repeated = stored+c.Stored, repeated+c.Duplicates
			f.Out.Reset()
		}
		return stored, repeated
	}
	if stored, repeated := counted(); stored != n || repeated != 0 {
		t.Errorf("%d stored and %d repeated of %d", stored, repeated, n)
	}
	if stored, repeated := counted(); stored != 0 || repeated != n {
		t.Errorf("again: %d stored and %d repeated of %d", stored, repeated, n)
	}
}

// However parts come, within the gap that a gateway can leave, each counts once; and a successor knows what its predecessor knew.
func TestPartsCountOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var p parts
		counted := map[uint64]int{}
		for i := 0; i < 20000; i += 1 + r.IntN(3) - r.IntN(2)*r.IntN(5) {
			at := uint64(max(i, 0))
			if p.add("a", at) {
				counted[at]++
			}
			if r.IntN(50) == 0 {
				var w state.Writer
				p.append(&w, r.IntN(2) == 0)
				p.dirty = false
				next := p
				next.read(&state.Reader{Rest: w.Body})
				p = next
			}
		}
		for at, n := range counted {
			if n != 1 {
				t.Fatalf("part %d counts %d times", at, n)
			}
		}
		if len(p.beyond) > maxBeyond {
			t.Errorf("%d are kept", len(p.beyond))
		}
		if !p.add("another trace", 0) {
			t.Error("the first part of another trace does not count")
		}
	}
}

// Rows are as many as events, however the parts are spread over chunks, and names are written once.
func TestRowsOfVectors(t *testing.T) {
	for name, trace := range vectors(t) {
		f := newFold()
		count := map[*table.Table]int{}
		for i, b := range bodies(t, trace, 1<<18) {
			p := &aggregate.Part{Seq: uint64(i + 1), Env: envelope(name, i, 1)}
			f.Take(p, f.Session(p), b)
			f.Flush(int64(i))
			for _, of := range []*table.Table{tracetable.Slices.Table, table.Kernels.Table, table.Dictionaries.Table} {
				part := p.Raw
				if of == table.Dictionaries.Table {
					part = rows.FactDayPartition(p.Env.ReceivedAt, rows.FactDays(p.Env.RetentionDays, p.Env.RollupDays))
				}
				count[of] += f.Out.Batch(of, part).Rows()
			}
			f.Out.Reset()
		}
		if count[tracetable.Slices.Table] == 0 || count[table.Kernels.Table] < count[table.Dictionaries.Table] {
			t.Errorf("%s: %v", name, count)
		}
	}
}

// BenchmarkFold folds a trace with all its kinds: elements a second of one core.
func BenchmarkFold(b *testing.B) {
	for name, trace := range vectors(b) {
		if !strings.Contains(name, "alexnet") {
			continue
		}
		body := bodies(b, trace, 1<<20)[0]
		var part kineto.Part
		if err := part.Decode(body); err != nil {
			b.Fatal(err)
		}
		f := newFold()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			p := &aggregate.Part{Seq: uint64(i + 1), Env: envelope(fmt.Sprint("s", i%100), i, part.Elements())}
			p.Env.Identity = fmt.Sprint(i)
			f.Take(p, f.Session(p), body)
			if i%20 == 19 {
				f.Flush(int64(i))
				f.Out.Reset()
				f.Published()
			}
		}
		b.ReportMetric(float64(b.N)*float64(part.Elements())/b.Elapsed().Seconds(), "events/s")
	}
}

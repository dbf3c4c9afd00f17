package intrakernel

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
	regiontable "github.com/warpline/warpline/sink/table/intrakernel"
)

func init() { rows.Strict = true }

const vectors = "../../testdata/intrakernel"

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	if b, err := os.ReadFile(path); err == nil {
		return b
	}
	b, err := os.ReadFile(path + ".gz")
	if err != nil {
		t.Fatal(err)
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

// timelines are those of all vectors, by name.
func timelines(t testing.TB) map[string]*intrakernel.Timeline {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(vectors, "*", "counters.bin"))
	if err != nil || len(found) < 40 {
		t.Fatalf("%d cases, %v", len(found), err)
	}
	all := map[string]*intrakernel.Timeline{}
	for _, path := range found {
		dir := filepath.Dir(path)
		h, err := intrakernel.ParseHeader(readFile(t, filepath.Join(dir, "input.json")))
		if err != nil {
			t.Fatal(err)
		}
		h.Options.CompleteEvents = true
		c, err := intrakernel.Collect(bytes.NewReader(readFile(t, filepath.Join(dir, "events.bin"))), bytes.NewReader(readFile(t, path)), h)
		if err != nil {
			t.Fatal(err)
		}
		if all[filepath.Base(dir)], err = c.Timeline(h); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// bodies cuts a timeline into parts of at most limit bytes.
func bodies(t testing.TB, line *intrakernel.Timeline, limit int) (all [][]byte) {
	t.Helper()
	head := intrakernel.PartHead{Launch: intrakernel.Launch{Kernel: "k"}, Clock: "globaltimer"}
	err := line.Cut(head, limit, func(_ *intrakernel.PartHead, _ uint64, body []byte) error {
		all = append(all, bytes.Clone(body))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// However a capture is cut, and in whatever order its parts come, its sums are the same.
func TestSumsDoNotDependOnTheCut(t *testing.T) {
	several := 0
	for name, line := range timelines(t) {
		var whole sums
		var p intrakernel.Part
		for _, b := range bodies(t, line, 1<<20) {
			if err := p.Decode(b); err != nil {
				t.Fatal(err)
			}
			whole.add(&p)
		}
		small := bodies(t, line, intrakernel.MaxHeadBytes+2300)
		if len(small) > 1 {
			several++
		}
		rand.Shuffle(len(small), func(i, j int) { small[i], small[j] = small[j], small[i] })
		var cut sums
		for _, b := range small {
			if err := p.Decode(b); err != nil {
				t.Fatal(err)
			}
			cut.add(&p)
		}
		if len(whole.regions) != len(cut.regions) || len(whole.blocks) != len(cut.blocks) {
			t.Errorf("%s: %d regions and %d blocks, cut %d and %d", name, len(whole.regions), len(whole.blocks), len(cut.regions), len(cut.blocks))
		}
		for id, a := range whole.regions {
			b := cut.regions[id]
			if b == nil || a.name != b.name || a.slices != b.slices || a.total != b.total || a.shortest != b.shortest || a.longest != b.longest ||
				a.startedAt != b.startedAt || !sameHist(&a.hist, &b.hist) {
				t.Errorf("%s: region %d is %+v, cut %+v", name, id, a, b)
			}
		}
		for key, a := range whole.blocks {
			if b := cut.blocks[key]; b == nil || a.slices != b.slices || a.total != b.total {
				t.Errorf("%s: block %x is %+v, cut %+v", name, key, a, b)
			}
		}
	}
	if several == 0 {
		t.Error("no capture was cut")
	}
}

func sameHist(a, b *hist.Dense) bool {
	keys, counts := a.AppendTo(nil, nil)
	otherKeys, otherCounts := b.AppendTo(nil, nil)
	return slices.Equal(keys, otherKeys) && slices.Equal(counts, otherCounts)
}

// newFold returns a partition without an owner, and this source in it.
func newFold() *aggregate.Fold {
	return aggregate.NewFold(aggregate.Config{Sources: []aggregate.Source{Source()}})
}

func envelope(session string, part int, events uint64) stream.Envelope {
	return stream.Envelope{Tenant: "t", Session: session, Recurs: true, Kind: stream.KindIntraKernel, Source: "intra-kernel",
		Identity: "session-1~2", Part: part, Events: events, Bytes: 100, ReceivedAt: 1795176000e9, RetentionDays: 7, RollupDays: 395}
}

// Every record is received once and then stored; a part that comes again is a duplicate; one that cannot be read is a reject.
func TestEveryRecordOnce(t *testing.T) {
	f := newFold()
	for name, line := range timelines(t) {
		stored := uint64(0)
		for i, b := range bodies(t, line, intrakernel.MaxHeadBytes+2300) {
			var part intrakernel.Part
			if err := part.Decode(b); err != nil {
				t.Fatal(err)
			}
			for again := range 2 {
				p := &aggregate.Part{Seq: 1, Env: envelope(name, i, part.Records())}
				f.Take(p, f.Session(p), b)
				c := p.Counted()
				if c.Events != c.Stored+c.Duplicates || c.Events != part.Records() || again == 0 && c.Stored != c.Events {
					t.Fatalf("%s, part %d, time %d: %d records: %+v", name, i, again, part.Records(), c)
				}
				stored += c.Stored
			}
		}
		if stored != uint64(line.Survivors) {
			t.Errorf("%s: %d records stored, %d survived", name, stored, line.Survivors)
		}
	}
	p := &aggregate.Part{Seq: 1, Env: envelope("damaged", 0, 7)}
	f.Take(p, f.Session(p), []byte("\x02nonsense"))
	if c := p.Counted(); c.Events != 7 || c.Rejected() != 7 || c.Stored != 0 {
		t.Errorf("a damaged part: %+v", c)
	}
}

// Times that do not fit are the latest possible, and durations stay exact.
func TestTimesThatDoNotFit(t *testing.T) {
	in := &intrakernel.Part{PartHead: intrakernel.PartHead{Launch: intrakernel.Launch{StartedAt: 1 << 60}}}
	for ns, want := range map[uint64]int64{0: 1 << 60, 5: 1<<60 + 5, 1 << 63: 1<<63 - 1, 1<<64 - 1: 1<<63 - 1, 1<<63 - 1: 1<<63 - 1} {
		if got := timeOf(in, ns); got != want {
			t.Errorf("%d ns: %d, want %d", ns, got, want)
		}
	}
	var s sums
	s.add(&intrakernel.Part{PartHead: intrakernel.PartHead{Parts: 1}, Visits: []intrakernel.Visit{{Dur: 1<<64 - 1}, {Dur: 3}}})
	if r := s.regions[0]; r.total != regiontable.MostAdded+3 || r.longest != 1<<64-1 || r.shortest != 3 {
		t.Error(fmt.Sprintf("%+v", r), reflect.TypeOf(r))
	}
}

// BenchmarkFold folds a GEMM-like launch: slices a second of one core.
func BenchmarkFold(b *testing.B) {
	line := timelines(b)["gemm_like"]
	body := bodies(b, line, 1<<20)[0]
	var part intrakernel.Part
	if err := part.Decode(body); err != nil {
		b.Fatal(err)
	}
	f := newFold()
	for i := 0; b.Loop(); i++ {
		p := &aggregate.Part{Seq: uint64(i + 1), Env: envelope("s", i, part.Records())}
		f.Take(p, f.Session(p), body)
		if i%100 == 99 {
			f.Out.Reset()
		}
	}
	b.ReportMetric(float64(b.N*len(part.Visits))/b.Elapsed().Seconds(), "rows/s")
}

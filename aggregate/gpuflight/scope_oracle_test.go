package gpuflight

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/hist"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

const scopeEpoch = int64(1795175929972803352)

// scopeEvent is one row of a scope_event_batch.
type scopeEvent struct {
	at       int64
	instance uint64
	name     uint32
	kind     int
	depth    int
	origin   int64
}

func scopeLine(batch int, events []scopeEvent) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"version":3,"type":"scope_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
		`"scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"],"rows":[`, batch, scopeEpoch)
	for i, e := range events {
		if i > 0 {
			b.WriteByte(',')
		}
		origin := e.origin
		if origin > 0 {
			origin += scopeEpoch
		}
		fmt.Fprintf(&b, "[%d,%d,%d,%d,%d,3,1,%d]", e.at, e.instance, e.name, e.kind, e.depth, origin)
	}
	return b.String() + "]}\n"
}

// scopeNames is a dictionary of n names.
func scopeNames(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, `{"version":1,"type":"dictionary_update","session_id":"s","scope_name_dict":{"%d":"n%d"}}`+"\n", i, i)
	}
	return b.String()
}

// bench of folds without NATS: parts go in, rows come out.
type scopeBench struct {
	t     testing.TB
	id    string
	cfg   *aggregate.Config
	f     *aggregate.Fold
	now   int64
	parts int
	stats map[string]*scopeSums // by n<name id>|minute
	raw   []scopeRaw
}

type scopeSums struct {
	calls, total, low, high, begins, ends, child uint64
	hist                                         map[int16]uint64
}

func (s *scopeSums) String() string {
	return fmt.Sprintf("calls %d total %d min %d max %d begins %d ends %d child %d hist %v", s.calls, s.total, s.low, s.high, s.begins, s.ends,
		s.child, s.hist)
}

type scopeRaw struct {
	name, path              string
	instance, duration      uint64
	start                   int64
	matched, continued, cut uint8
	depth, repeat, warmup   uint32
}

func newScopeBench(t testing.TB) *scopeBench {
	b := &scopeBench{t: t, id: "s", now: 1_800_000_000_000_000_000, stats: map[string]*scopeSums{}}
	b.f = newTestFlight(aggregate.Config{})
	b.cfg = b.f.Config
	return b
}

func (b *scopeBench) own() *session { return flightOf(b.f, b.session()) }

func (b *scopeBench) session() *aggregate.Session { return known(b.f, "t", b.id) }

func (b *scopeBench) fold(body string) { b.foldAs(body, fmt.Sprint("w", b.parts)) }

func (b *scopeBench) foldAs(body, identity string) {
	b.parts++
	p := &aggregate.Part{Seq: uint64(b.parts), Now: b.now, Env: stream.Envelope{Tenant: "t", Session: b.id, Kind: stream.KindGPUFlight,
		Source: "gpu-flight", Identity: identity,
		ReceivedAt: b.now, RetentionDays: 7, RollupDays: 395}}
	b.f.Take(p, b.f.Session(p), []byte(body))
}

// publish closes the chunk and takes its rows.
func (b *scopeBench) publish() (change []byte) {
	b.f.Flush(b.now)
	list, body, err := b.f.Out.Encode(rows.Tails{})
	if err != nil {
		b.t.Fatal(err)
	}
	at := 0
	for _, r := range list {
		piece := body[at : at+r.SchemaLen+r.DataLen]
		at += r.SchemaLen + r.DataLen
		if r.Table == table.Scopes.Table.Name || r.Table == table.ScopeStats.Table.Name {
			b.take(r.Table, append(slices.Clone(piece), table.EOS()...))
		}
	}
	change = b.f.AppendState(nil, false)
	b.f.Published()
	b.f.Out.Reset()
	b.f.OutSerial++
	return change
}

// pass lets time go by.
func (b *scopeBench) pass(d time.Duration) {
	for end := b.now + int64(d); b.now < end; {
		b.now += int64(50 * time.Millisecond)
		b.f.Expire(b.now)
	}
}

// takeOver goes on in a new owner with the state that the chunks left.
func (b *scopeBench) takeOver(states ...[]byte) {
	old := b.session()
	f := newTestFlight(*b.cfg)
	for _, s := range states {
		if err := f.ApplyState(s); err != nil {
			b.t.Fatal(err)
		}
	}
	f.Resume(b.now, b.now, false)
	b.f, b.cfg = f, f.Config
	if s := b.session(); s != nil && old != nil {
		s.TakeNames(old)
	}
}

func (b *scopeBench) take(name string, piece []byte) {
	reader, err := ipc.NewReader(bytes.NewReader(piece))
	if err != nil {
		b.t.Fatal(err)
	}
	defer reader.Release()
	for reader.Next() {
		rec := reader.Record()
		col := func(n string) arrow.Array { return rec.Column(rec.Schema().FieldIndices(n)[0]) }
		u64 := func(n string, i int) uint64 { return col(n).(*array.Uint64).Value(i) }
		u32 := func(n string, i int) uint32 { return col(n).(*array.Uint32).Value(i) }
		u8 := func(n string, i int) uint8 { return col(n).(*array.Uint8).Value(i) }
		at := func(n string, i int) int64 { return int64(col(n).(*array.Timestamp).Value(i)) }
		text := func(n string, i int) string {
			d := col(n).(*array.Dictionary)
			return d.Dictionary().ValueStr(d.GetValueIndex(i))
		}
		for i := range int(rec.NumRows()) {
			if name == table.Scopes.Table.Name {
				b.raw = append(b.raw, scopeRaw{
					name: text("name", i), path: text("path", i), instance: u64("instance_id", i), duration: u64("duration_ns", i), start: at("started_at",
						i) - scopeEpoch,
					matched: u8("matched", i), continued: u8("continued", i), cut: u8("cut", i), depth: u32("depth", i), repeat: u32("repeat", i),
					warmup: u32("warmup", i),
				})
				continue
			}
			key := fmt.Sprintf("n%d|%d", u32("name_id", i), (at("bucket", i)-rows.BucketOf(scopeEpoch))/rows.BucketNS)
			s := b.stats[key]
			if s == nil {
				s = &scopeSums{low: ^uint64(0), hist: map[int16]uint64{}}
				b.stats[key] = s
			}
			s.calls += u64("calls", i)
			s.total += u64("total_ns", i)
			s.low, s.high = min(s.low, u64("min_ns", i)), max(s.high, u64("max_ns", i))
			s.begins += u64("unmatched_begin", i)
			s.ends += u64("unmatched_end", i)
			s.child += u64("child_ns", i)
			m := col("duration_hist").(*array.Map)
			from, to := m.ValueOffsets(i)
			for k := from; k < to; k++ {
				s.hist[m.Keys().(*array.Int16).Value(int(k))] += m.Items().(*array.Uint64).Value(int(k))
			}
		}
	}
	if reader.Err() != nil {
		b.t.Fatal(reader.Err())
	}
}

func (b *scopeBench) rollup() string {
	var out []string
	for k, s := range b.stats {
		out = append(out, k+": "+s.String())
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

func (b *scopeBench) rows() string {
	var out []string
	for _, r := range b.raw {
		out = append(out, fmt.Sprintf("%+v", r))
	}
	slices.Sort(out)
	return strings.Join(out, "\n")
}

// oracleScope is a scope that was entered and left.
type oracleScope struct {
	begin, end int64
	instance   uint64
	name       string
	id         uint32
	depth      int
	parent     *oracleScope // as the program knows it, nil: in none, or not known
}

// oracle says what the rollup must be, looking for parents the slow way.
func oracle(all []*oracleScope) map[string]*scopeSums {
	want := map[string]*scopeSums{}
	sums := func(s *oracleScope) *scopeSums {
		key := fmt.Sprintf("%s|%d", s.name, (rows.BucketOf(scopeEpoch+s.begin)-rows.BucketOf(scopeEpoch))/rows.BucketNS)
		if want[key] == nil {
			want[key] = &scopeSums{low: ^uint64(0), hist: map[int16]uint64{}}
		}
		return want[key]
	}
	for _, s := range all {
		ns := uint64(s.end - s.begin)
		a := sums(s)
		a.calls++
		a.total += ns
		a.low, a.high = min(a.low, ns), max(a.high, ns)
		a.hist[hist.Index(ns)]++
		if p := enclosingScope(all, s); p != nil {
			sums(p).child += ns
		}
	}
	return want
}

func enclosingScope(all []*oracleScope, s *oracleScope) (p *oracleScope) {
	for _, c := range all {
		if c.depth == s.depth-1 && c.begin <= s.begin && c.end >= s.end &&
			(p == nil || cmp.Or(cmp.Compare(c.begin, p.begin), cmp.Compare(c.instance, p.instance), cmp.Compare(c.id, p.id)) > 0) {
			p = c
		}
	}
	return p
}

// program runs threads that enter and leave scopes, and knows what the rollup and the paths must be. With one thread that is the truth;
// with several the parent of a scope is what the rule says.
func program(r *rand.Rand, threads, scopes, names int) (events []scopeEvent, want map[string]*scopeSums, paths map[uint64]string) {
	var all []*oracleScope
	type thread struct {
		stack []*oracleScope
		now   int64
	}
	ts := make([]thread, threads)
	instance := uint64(0)
	for len(all) < scopes || slices.ContainsFunc(ts, func(t thread) bool { return len(t.stack) > 0 }) {
		t := &ts[r.IntN(threads)]
		t.now += 1 + int64(r.ExpFloat64()*float64(200*time.Millisecond))
		if len(all) < scopes && (len(t.stack) == 0 || r.IntN(5) < 3 && len(t.stack) < 7) {
			instance++
			id := uint32(1 + r.IntN(names))
			s := &oracleScope{begin: t.now, instance: instance, name: fmt.Sprint("n", id), id: id, depth: len(t.stack)}
			if len(t.stack) > 0 {
				s.parent = t.stack[len(t.stack)-1]
			}
			t.stack = append(t.stack, s)
			all = append(all, s)
		} else if n := len(t.stack); n > 0 {
			t.stack[n-1].end = t.now
			t.stack = t.stack[:n-1]
		}
	}
	paths = map[uint64]string{}
	for _, s := range all {
		if threads == 1 && enclosingScope(all, s) != s.parent {
			panic("the rule is wrong")
		}
		path := s.name
		for q := s.parent; q != nil; q = q.parent {
			path = q.name + "|" + path
		}
		paths[s.instance] = path
		events = append(events, scopeEvent{s.begin, s.instance, s.id, scopeBegin, s.depth, s.begin}, scopeEvent{s.end, s.instance, s.id, scopeEnd,
			s.depth, s.begin})
	}
	sort.SliceStable(events, func(i, j int) bool { return events[i].at < events[j].at })
	return events, oracle(all), paths
}

// split cuts events into batches of random sizes.
func split(r *rand.Rand, events []scopeEvent, largest int) (lines []string) {
	for len(events) > 0 {
		n := min(1+r.IntN(largest), len(events))
		lines = append(lines, scopeLine(len(lines)+1, events[:n]))
		events = events[n:]
	}
	return lines
}

func rollupOf(m map[string]*scopeSums) string { return (&scopeBench{stats: m}).rollup() }

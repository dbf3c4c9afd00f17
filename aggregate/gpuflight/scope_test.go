package gpuflight

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// The rollup of scopes, self time included, is what the program did, whatever the order of rows and windows, however they are split, when
// windows come twice, whoever takes over meanwhile.
func TestScopeRollupDoesNotDependOnOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		threads := 1 + int(seed%4)
		events, want, paths := program(r, threads, 400, 12)
		for _, how := range []string{"in order", "rows shuffled", "windows reversed", "windows shuffled", "twice", "taken over"} {
			b := newScopeBench(t)
			b.fold(scopeNames(12))
			in := slices.Clone(events)
			if how == "rows shuffled" {
				r.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
			}
			lines := split(r, in, 60)
			switch how {
			case "windows reversed":
				slices.Reverse(lines)
			case "windows shuffled", "taken over":
				r.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			case "twice":
				lines = append(lines, lines...)
			}
			states := [][]byte{b.f.AppendState(nil, true)}
			b.f.Published()
			for i, line := range lines {
				b.fold(line)
				if r.IntN(3) == 0 {
					b.pass(time.Duration(r.IntN(100)) * time.Millisecond)
				}
				if r.IntN(4) == 0 || how == "taken over" && i == len(lines)-1 {
					states = append(states, b.publish())
				}
				if how == "taken over" && i%11 == 10 {
					states = append(states, b.publish())
					b.takeOver(states...)
					if i%2 == 0 {
						states = [][]byte{b.f.AppendState(nil, true)}
					}
				}
			}
			if seed%2 == 0 { // time alone brings the rest, or the session's end
				b.pass(time.Duration(2.6 * float64(b.cfg.DetailWait)))
				if s := b.own(); s.scopes.pending() || len(s.scopes.kept.queue) != int(s.scopes.kept.head-s.scopes.kept.base) {
					t.Fatalf("seed %d, %s: scopes are kept for ever", seed, how)
				}
				for d := range b.own().scopes.levels {
					if l := &b.own().scopes.levels[d]; len(l.open)+len(l.runs) > 0 {
						t.Fatalf("seed %d, %s: level %d is not empty", seed, how, d)
					}
				}
			} else {
				b.f.Close(b.session())
			}
			b.publish()
			if got := b.rollup(); got != rollupOf(want) {
				t.Fatalf("seed %d, %s, %d threads: got\n%s\nwant\n%s", seed, how, threads, got, rollupOf(want))
			}
			if len(b.raw) != 400 {
				t.Errorf("seed %d, %s: %d rows", seed, how, len(b.raw))
			}
			for _, row := range b.raw {
				if row.matched != 1 || !strings.HasSuffix(row.path, row.name) || row.name == "" || row.repeat != 3 || row.warmup != 1 {
					t.Fatalf("seed %d, %s: %+v", seed, how, row)
				}
				if threads == 1 && (how == "in order" || how == "twice") && row.path != paths[row.instance] {
					t.Fatalf("seed %d, %s: scope %d has path %s, want %s", seed, how, row.instance, row.path, paths[row.instance])
				}
			}
		}
	}
}

// User scopes and injected ones count separately, so one id is used twice within a session: also with one name.
func TestTrapScopeInstancesCollide(t *testing.T) {
	events := []scopeEvent{
		// another name: the process scope, whose end says its own time
		{0, 1, 1, scopeBegin, 0, 0}, {10, 1, 2, scopeBegin, 1, 10}, {20, 1, 2, scopeEnd, 1, 10}, {100, 1, 1, scopeEnd, 0, 100},
		{200, 5, 3, scopeBegin, 0, 200}, {210, 5, 3, scopeBegin, 1, 210}, {250, 5, 3, scopeEnd, 1, 210}, {290, 5, 3, scopeEnd, 0, 200}, // nested
		// overlapping
		{300, 6, 3, scopeBegin, 0, 300}, {310, 6, 3, scopeBegin, 0, 310}, {350, 6, 3, scopeEnd, 0, 300}, {399, 6, 3, scopeEnd, 0, 310},
	}
	want := []string{"n1 0 100", "n2 10 10", "n3 200 90", "n3 210 40", "n3 300 50", "n3 310 89"}
	r := rand.New(rand.NewPCG(3, 3))
	for range 200 {
		b := newScopeBench(t)
		b.fold(scopeNames(3))
		for i, e := range events {
			b.fold(scopeLine(i+1, []scopeEvent{e}))
			if r.IntN(4) == 0 {
				b.publish()
				b.takeOver(b.f.AppendState(nil, true))
			}
		}
		b.f.Close(b.session())
		b.publish()
		var got []string
		for _, row := range b.raw {
			if row.matched == 1 {
				got = append(got, fmt.Sprintf("%s %d %d", row.name, row.start, row.duration))
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v, in the order %v", got, want, events)
		}
		r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	}
}

// Ends that do not say when their scope began, of keys that collide, still pair by time when they come in order.
func TestScopesOfOldClientsPairByTime(t *testing.T) {
	b := newScopeBench(t)
	b.fold(scopeNames(1))
	b.fold(scopeLine(1, []scopeEvent{{10, 1, 1, scopeBegin, 0, 0}, {20, 1, 1, scopeBegin, 1, 0}, {30, 1, 1, scopeEnd, 1, 0}, {40, 1, 1,
		scopeEnd, 0, 0}, {50, 1, 1, scopeBegin, 0, 0}}))
	b.fold(scopeLine(2, []scopeEvent{{45, 1, 1, scopeEnd, 0, 0}})) // before the begin that waits: no pair
	b.f.Close(b.session())
	b.publish()
	if got, want := b.rollup(), "n1|0: calls 2 total 40 min 10 max 30 begins 1 ends 1 child 10"; !strings.HasPrefix(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A scope that a segment cuts is one row in each segment, which say so.
func TestScopesContinueOverSegments(t *testing.T) {
	b := newScopeBench(t)
	b.fold(scopeNames(2))
	b.fold(scopeLine(1, []scopeEvent{{100, 1, 1, scopeContinuationOpen, 0, 5}, {100, 2, 2, scopeContinuationOpen, 1, 100}, {150, 2, 2,
		scopeEnd, 1, 6}, {200, 1, 1, scopeContinuationClose, 0, 5}, {160, 3, 2, scopeBegin, 1, 160}}))
	b.f.Close(b.session())
	b.publish()
	for i, want := range []string{"n2 n1|n2 50 1 1 0", "n1 n1 100 1 1 1", "n2 n1|n2 0 0 0 0"} {
		row := b.raw[i]
		if got := fmt.Sprint(row.name, " ", row.path, " ", row.duration, " ", row.matched, " ", row.continued, " ", row.cut); got != want {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	if got := b.stats["n1|0"]; got.child != 50 || got.calls != 1 {
		t.Errorf("n1: %v", got)
	}
	if got := b.stats["n2|0"]; got.begins != 1 || got.calls != 1 {
		t.Errorf("n2: %v", got)
	}
}

// What children took is no part of the rollup while their parent is open, and never when its end is lost.
func TestChildrenOfOpenScopes(t *testing.T) {
	for _, ends := range []bool{true, false} {
		b := newScopeBench(t)
		b.fold(scopeNames(2))
		b.fold(scopeLine(1, []scopeEvent{{10, 1, 1, scopeBegin, 0, 10}, {20, 2, 2, scopeBegin, 1, 20}, {50, 2, 2, scopeEnd, 1, 20}}))
		b.pass(30 * time.Second)
		states := [][]byte{b.publish()}
		if b.stats["n1|0"] != nil {
			t.Fatalf("the open scope has a row: %v", b.stats["n1|0"])
		}
		b.takeOver(states...)
		if ends {
			b.fold(scopeLine(2, []scopeEvent{{100, 1, 1, scopeEnd, 0, 10}}))
		} else {
			b.f.Close(b.session())
		}
		b.publish()
		if got := b.stats["n1|0"]; ends && (got.child != 30 || got.total != 90) || !ends && (got.child != 0 || got.begins != 1) {
			t.Errorf("ended %v: %v", ends, got)
		}
	}
}

// Whatever a session does, what is kept of it is bounded, and each half is counted once.
func TestScopesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	b := newScopeBench(t)
	b.fold(scopeNames(3))
	const n = 3 * maxKept
	var events []scopeEvent
	events = append(events, scopeEvent{0, 1, 1, scopeBegin, 0, 0})
	for i := range int64(n) {
		events = append(events, scopeEvent{1 + i*10, uint64(i) + 2, 2, scopeBegin, 1, 0}, scopeEvent{6 + i*10, uint64(i) + 2, 2, scopeEnd, 1, 0})
	}
	events = append(events, scopeEvent{n * 10, 1, 1, scopeEnd, 0, 0})
	for i, line := range split(rand.New(rand.NewPCG(1, 1)), events, 4000) {
		b.fold(line)
		o := &b.own().scopes
		if kept := o.kept.tail() - o.kept.head; kept > maxKept || o.kept.tail()-o.kept.counted > maxKept/2 || len(o.kept.queue) > 3*maxKept {
			t.Fatalf("after %d batches %d scopes are kept, %d of them uncounted, in a queue of %d", i, kept, o.kept.tail()-o.kept.counted,
				len(o.kept.queue))
		}
	}
	b.f.Close(b.session())
	b.publish()
	if got := b.stats["n1|0"]; got == nil || got.child != 5*n {
		t.Errorf("children of the outer scope took %v, want %d", got, 5*n)
	}
	// One key open too often, then too many keys.
	events = events[:0]
	for i := range int64(maxSameKey + 10) {
		events = append(events, scopeEvent{i, 7, 3, scopeBegin, 0, i})
	}
	for i := range int64(maxOpenScopes) {
		events = append(events, scopeEvent{i, uint64(i) + 100, 3, scopeBegin, 0, i})
	}
	before := b.session().Delta.Rejects
	b.fold(scopeLine(9999, events))
	if got := b.session().Delta.Rejects - before; got != 10+maxSameKey {
		t.Errorf("%d begins are rejected, want %d", got, 10+maxSameKey)
	}
	b.f.Close(b.session())
	b.publish()
	if got := b.stats["n3|0"]; got.begins != maxOpenScopes {
		t.Errorf("%d lone begins, want %d", got.begins, maxOpenScopes)
	}
	if o := &b.own().scopes; o.pending() || len(o.halves.all) > 0 || len(o.levels) > 0 {
		t.Error("the end leaves something behind")
	}
}

// However a session ends, its lone ends are counted: idle, forgotten, ended by its client.
func TestLoneEndsAreCounted(t *testing.T) {
	for name, set := range map[string]func(*scopeBench){
		"forgotten": func(b *scopeBench) { b.cfg.Forget = time.Second },
		"idle":      func(b *scopeBench) { b.cfg.IdleAfter, b.cfg.DropNames = time.Second, time.Second },
		"shutdown": func(b *scopeBench) {
			b.fold(`{"type":"shutdown","pid":1,"app":"a","session_id":"s","ts_ns":1795175929972803352}` + "\n")
		},
	} {
		b := newScopeBench(t)
		b.fold(scopeNames(1) + scopeLine(1, []scopeEvent{{10, 1, 1, scopeBegin, 0, 10}, {20, 2, 1, scopeEnd, 1, 20}}))
		set(b)
		b.publish()
		for range 4 {
			b.pass(10 * time.Second) // what is held goes out
			b.publish()
			b.f.ExpireIdle(b.now)
		}
		if gone := b.session() == nil; gone != (name == "forgotten") {
			t.Errorf("%s: forgotten is %v", name, gone)
		}
		if got := b.stats["n1|0"]; got == nil || got.begins != 1 || got.ends != 1 || got.calls != 0 {
			t.Errorf("%s: counted %v, want a begin and an end", name, got)
		}
		if len(b.raw) != 2 || b.raw[0].name != "n1" || b.raw[0].matched+b.raw[1].matched != 0 {
			t.Errorf("%s: rows %+v", name, b.raw)
		}
	}
}

// A successor that reads a state, by snapshot or by change, has the same scopes: it writes the same state and the same rows.
func TestScopeStateSurvivesAHandOver(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 1))
	events, _, _ := program(r, 3, 600, 9)
	events = append(events, scopeEvent{77, 900, 3, scopeContinuationOpen, 2, 7}, scopeEvent{99, 901, 3, scopeContinuationClose, 1, 3},
		scopeEvent{1e9, 902, 3, scopeBegin, 70, 5})
	r.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	b := newScopeBench(t)
	b.cfg.DetailWait = time.Second
	b.fold(scopeNames(9))
	var changes [][]byte
	for _, line := range split(r, events, 50) {
		b.fold(line)
		b.pass(200 * time.Millisecond)
		changes = append(changes, b.publish())
	}
	if o := &b.own().scopes; o.halves.count < 3 || o.kept.head == 0 || o.kept.counted == o.kept.head || o.kept.counted == o.kept.tail() {
		t.Fatalf("the test shows too little: %d wait, places %d %d %d", o.halves.count, o.kept.head, o.kept.counted, o.kept.tail())
	}
	snapshot := b.f.AppendState(nil, true)
	var got []string
	for _, states := range [][][]byte{{snapshot}, changes, nil} {
		c := &scopeBench{t: t, id: "s", cfg: b.cfg, f: b.f, now: b.now, stats: map[string]*scopeSums{}}
		if states != nil {
			c.takeOver(states...)
			if o, p := &c.own().scopes, &b.own().scopes; o.halves.count != p.halves.count || o.kept.tail() != p.kept.tail() ||
				o.kept.counted != p.kept.counted {
				t.Errorf("%d wait, places %d %d %d; want %d, %d %d %d", o.halves.count, o.kept.head, o.kept.counted, o.kept.tail(), p.halves.count,
					p.kept.head, p.kept.counted, p.kept.tail())
			}
			known(c.f, "t", "s").TakeNames(b.session())
		}
		c.f.Close(c.session())
		c.publish()
		got = append(got, c.rollup()+"\n"+c.rows())
	}
	if got[0] != got[2] || got[1] != got[2] {
		t.Errorf("other rows by snapshot\n%s\nby changes\n%s\nwant\n%s", got[0], got[1], got[2])
	}
}

// The parent that the levels find is the one that a search through all scopes finds, while scopes come and go in any order.
func TestEnclosingEqualsASlowSearch(t *testing.T) {
	if testing.Short() {
		t.Skip("one goroutine, and much of it")
	}
	r := rand.New(rand.NewPCG(5, 5))
	for range 60 {
		var l scopeLevel
		all := map[scopeInterval]int{}
		slots := int32(0)
		for step := range 3000 {
			s := scopeInterval{begin: r.Int64N(2000), key: scopeKey{uint64(r.IntN(4)), uint32(r.IntN(3))}, half: -1}
			s.end = s.begin + int64(r.ExpFloat64()*[]float64{3, 300}[r.IntN(2)])
			switch {
			case step%5 == 4 && len(all) > 0:
				gone := slices.MinFunc(slices.Collect(maps.Keys(all)), func(a, b scopeInterval) int {
					return cmp.Or(cmp.Compare(uint64(a.begin*7919)%613, uint64(b.begin*7919)%613), a.compare(&b), cmp.Compare(a.half, b.half))
				})
				if all[gone]--; all[gone] == 0 {
					delete(all, gone)
				}
				if gone.end == stillOpen {
					l.remove(gone)
				} else {
					l.forget(gone)
				}
			case r.IntN(20) == 0:
				slots++
				s.end, s.half = stillOpen, slots
				l.insert(s)
				all[s]++
			default:
				l.close(s)
				all[s]++
			}
			if step%40 != 0 {
				continue
			}
			begin := r.Int64N(2200) - 50
			end := begin + r.Int64N(300)
			if step%80 == 0 { // as long as one that is there
				for c := range all {
					if c.end != stillOpen {
						begin, end = c.begin, c.end
						break
					}
				}
			}
			var want scopeInterval
			found := false
			for c := range all {
				if c.begin <= begin && c.end >= end && (!found || want.compare(&c) < 0 || want.compare(&c) == 0 && c.half > want.half) {
					want, found = c, true
				}
			}
			got, ok := l.enclosing(begin, end)
			if ok != found || ok && (got.begin != want.begin || got.key != want.key) {
				t.Fatalf("step %d: around %d to %d is %+v (%v), want %+v (%v)", step, begin, end, got, ok, want, found)
			}
		}
	}
}

// The sums of every scope in the vectors, self time included, are those taken straight from the files, windows in any order and twice.
func TestScopesOfTheVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "gpuflight", "*", "*", "scope.*.log.gz"))
	if err != nil || len(files) == 0 {
		t.Fatal("no windows", err)
	}
	sessions := map[string][]string{}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		id := filepath.Base(filepath.Dir(file))
		sessions[id] = append(sessions[id], string(body))
	}
	r := rand.New(rand.NewPCG(9, 9))
	children := uint64(0)
	for id, windows := range sessions {
		open := map[scopeKey][]*oracleScope{}
		var all []*oracleScope
		for _, window := range windows {
			for line := range strings.Lines(window) {
				var l struct {
					Type string
					Base int64     `json:"base_time_ns"`
					Rows [][]int64 `json:"rows"`
				}
				if !strings.Contains(line, `"scope_event_batch"`) {
					continue
				}
				if err := json.Unmarshal([]byte(line), &l); err != nil {
					t.Fatal(err)
				}
				for _, row := range l.Rows {
					key := scopeKey{uint64(row[1]), uint32(row[2])}
					at := l.Base + row[0] - scopeEpoch
					if row[3]%2 == 0 {
						s := &oracleScope{begin: at, instance: key.instance, id: key.name, name: fmt.Sprint("n", key.name), depth: int(row[4])}
						open[key] = append(open[key], s)
						continue
					}
					i := len(open[key]) - 1
					if i < 0 {
						t.Fatalf("%s: an end without a begin: %v", id, row)
					}
					open[key][i].end = at
					all = append(all, open[key][i])
					open[key] = open[key][:i]
				}
			}
		}
		want := oracle(all)
		for _, w := range want {
			children += w.child
		}
		for range 4 {
			b := newScopeBench(t)
			b.id = id
			for i, w := range windows {
				b.foldAs(w, fmt.Sprint("w", i))
				b.foldAs(w, fmt.Sprint("again", i))
			}
			b.f.Close(b.session())
			b.publish()
			got := b.stats
			for k, s := range got { // lone begins are not the oracle's business
				if s.begins = 0; s.calls == 0 && s.child == 0 {
					delete(got, k)
				}
			}
			if g, w := b.rollup(), rollupOf(want); g != w {
				t.Fatalf("%s: got\n%s\nwant\n%s", id, g, w)
			}
			r.Shuffle(len(windows), func(i, j int) { windows[i], windows[j] = windows[j], windows[i] })
		}
	}
	if children == 0 {
		t.Error("the vectors have no nested scopes")
	}
}

// Scopes of a deleted session that still wait for their parents are counted for nobody: no row of it comes behind its tombstone, and no
// successor knows it.
func TestDeletedSessionLeavesNoScopes(t *testing.T) {
	b := newScopeBench(t)
	b.fold(scopeNames(2) + scopeLine(1, []scopeEvent{{0, 1, 1, scopeBegin, 0, 0}, {10, 2, 2, scopeBegin, 1, 10}, {40, 2, 2, scopeEnd, 1, 10},
		{90, 1, 1, scopeEnd, 0, 0}}))
	states := [][]byte{b.publish()}
	b.f.Erase(stream.Deletion{ID: "1", Tenant: "t", Session: "s", At: b.now})
	states = append(states, b.publish())
	b.pass(3 * b.cfg.DetailWait)
	b.f.ExpireIdle(b.now)
	b.f.Flush(b.now)
	if rows, _ := b.f.Out.Size(); rows != 0 || b.session() != nil {
		t.Errorf("%d rows after the deletion", rows)
	}
	states = append(states, b.f.AppendState(nil, false))
	b.takeOver(states...)
	if len(b.f.Sessions) != 0 {
		t.Error("a successor has the session again")
	}
}

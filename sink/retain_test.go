package sink_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// publishEveryTable publishes the first chunk of partition 3, with rows of tenant x in each table, and waits until they are there.
func (w *world) publishEveryTable(k *sink.Sink, only ...string) {
	w.t.Helper()
	const p = 3
	c, body := w.chunk(p, 4)
	if c.Number != 1 {
		w.t.Fatal("it must be the first chunk")
	}
	for _, t := range tabletest.Schema().Tables() {
		if t.Retention == table.Static || len(only) > 0 && !slices.Contains(only, t.Name) {
			continue
		}
		b := table.NewBatch(t)
		tabletest.FillRest(b, 30, tabletest.Received, 30) // whose chunk is 1, of partition 3
		schema, data, err := b.Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		day := table.DayOf(tabletest.Received.UnixNano())
		if t.Retention != table.Raw {
			day = table.MonthOf(day)
		}
		c.Tables = append(c.Tables, stream.Rows{Table: t.Name, Fingerprint: t.Fingerprint(), Day: day, RetentionDays: 30, Rows: b.Rows(),
			SchemaLen: len(schema), DataLen: len(data), Amount: b.Amount()})
		body = append(append(body, schema...), data...)
	}
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.waitMark(k, p%2, w.send(p, msg))
	conn := w.conn()
	defer conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.want, err = w.got(w.t.Context(), conn); err != nil {
		w.t.Fatal(err)
	}
}

// retain asks for a class, and returns what reports whether every lane is done.
func (w *world) retain(tenant string, raw, rollup uint16) (done func() bool) {
	w.t.Helper()
	r := stream.Retain{ID: broker.NewID(), Tenant: tenant, Class: "test", Raw: raw, Rollup: rollup}
	value, err := json.Marshal(&r)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.s.Deletions.Put(w.t.Context(), stream.RetainKey(tenant), value); err != nil {
		w.t.Fatal(err)
	}
	return func() bool {
		for lane := range w.s.Lanes {
			e, err := w.s.Deletions.Get(w.t.Context(), stream.RetainProgressKey(tenant, lane))
			var of stream.RetainProgress
			if err != nil || json.Unmarshal(e.Value(), &of) != nil || of.ID != r.ID || !of.Done {
				return false
			}
			if of.Why != "" {
				w.t.Error(of.Why)
			}
		}
		return true
	}
}

// until waits for all of them.
func (w *world) until(all ...func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); len(all) > 0; time.Sleep(20 * time.Millisecond) {
		if all[0]() {
			all = all[1:]
		}
		if time.Now().After(deadline) {
			w.t.Fatal("it is not done")
		}
	}
}

// holds is what a tenant has in each table: rows (of tables that merge, what they add up to) by days.
func (w *world) holds(tenant string) map[string]map[uint16]uint64 {
	w.t.Helper()
	conn := w.conn()
	defer conn.Close()
	all := map[string]map[uint16]uint64{}
	for _, t := range tabletest.Schema().Tables() {
		if t.Retention == table.Static {
			continue
		}
		what := t.AmountSQL()
		if what == "" {
			what = "count()"
			if !strings.HasPrefix(t.Engine, "MergeTree") {
				what = fmt.Sprintf("uniqExact(%s)", strings.Join(t.OrderBy, ", "))
			}
		}
		rows, err := conn.Query(w.t.Context(), fmt.Sprintf("SELECT retention_days, toUInt64(%s) FROM %s WHERE tenant = %s GROUP BY "+
			"retention_days", what, t.Name, table.Quote(tenant)))
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			var days uint16
			var n uint64
			if err := rows.Scan(&days, &n); err != nil {
				w.t.Fatal(err)
			}
			if all[t.Name] == nil {
				all[t.Name] = map[uint16]uint64{}
			}
			all[t.Name][days] = n
		}
		rows.Close()
	}
	return all
}

// moved is what holds must say once all of before is in a class.
func moved(before map[string]map[uint16]uint64, raw, rollup uint16) map[string]map[uint16]uint64 {
	after := map[string]map[uint16]uint64{}
	for name, of := range before {
		to, moves := table.RetainedDays(tabletest.Schema().Table(name), raw, rollup)
		if !moves {
			after[name] = of
			continue
		}
		sum := uint64(0)
		for _, n := range of {
			sum += n
		}
		after[name] = map[uint16]uint64{to: sum}
	}
	return after
}

func (w *world) same(what string, got, want map[string]map[uint16]uint64) {
	w.t.Helper()
	for name := range want {
		if !maps.Equal(got[name], want[name]) {
			w.t.Errorf("%s: %s has %v by days, want %v", what, name, got[name], want[name])
		}
	}
}

// All that a tenant has in every table is kept as another class says, no row more or less; another tenant's rows in the same data parts,
// and what comes meanwhile, stay. The books balance.
func TestRetain(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	t.Parallel()
	w := shared(t)
	k := w.sink()
	k.SetLookAgain(0)
	w.run(k)
	w.publishEveryTable(k)
	for p := range 4 {
		w.publish(p, 400)
	}
	w.settled(3 * time.Minute)
	x, acme := w.holds("x"), w.holds("acme")
	w.until(w.retain("x", 90, 500))
	w.same("x", w.holds("x"), moved(x, 90, 500))
	w.same("acme beside x", w.holds("acme"), acme)
	w.settled(3 * time.Minute)
	before := w.holds("acme")
	done := w.retain("acme", 60, 700)
	for i := range 40 {
		w.publish(i%4, 100)
	}
	w.until(done)
	w.settled(3 * time.Minute)
	after := w.holds("acme")
	if was := before["kernels_data"]; after["kernels_data"][60] < was[7]+was[30] {
		t.Errorf("kernels of acme: %v, before %v", after["kernels_data"], was)
	}
	w.until(w.retain("acme", 2, 40)) // shorter, and also what came meanwhile
	w.same("acme, all", w.holds("acme"), moved(after, 2, 40))
	w.settled(3 * time.Minute)
}

// Whatever dies at whichever step, again and again, while rows come and other sinks take over: each row is there once in the end.
func TestRetainDiesAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	t.Parallel()
	w := shared(t)
	rng, died := rand.New(rand.NewPCG(7, 7)), map[string]int{}
	left := 40
	crashed := make(chan struct{}, 100)
	made := func() *sink.Sink {
		k := w.sink()
		k.SetLookAgain(0)
		k.SetStep(func(_ int, step string) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if strings.HasPrefix(step, "retain") && left > 0 && rng.IntN(3) == 0 {
				left--
				died[step]++
				crashed <- struct{}{}
				return sink.ErrCrash
			}
			return nil
		})
		return k
	}
	k := made()
	stop := w.run(k)
	w.publishEveryTable(k, "rejects_data", "kernel_stats_data", "sessions_data", "dictionaries", "kernels_data", "source_lines_data")
	for p := range 4 {
		w.publish(p, 400)
	}
	w.settled(3 * time.Minute)
	before := w.holds("x")
	first, second := w.retain("x", 90, 500), w.retain("acme", 20, 300)
	for deadline := time.Now().Add(5 * time.Minute); !first() || !second(); {
		select {
		case <-crashed: // a lane of it is dead
			stop()
			stop = w.run(made())
			w.publish(0, 50)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("it is not done")
		}
	}
	w.same("x", w.holds("x"), moved(before, 90, 500))
	if wrong := w.audit(); len(wrong) > 0 {
		t.Logf("at first: %v", wrong)
	}
	w.settled(3 * time.Minute)
	if n := w.number("SELECT count() FROM system.tables WHERE database = currentDatabase() AND name LIKE 'retain%'"); n != 0 {
		t.Errorf("%.0f tables of copies are left", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("died: %v", died)
	for _, step := range []string{"retain copied", "retain recorded", "retain attached", "retain deleted", "retain booked"} {
		if died[step] == 0 {
			t.Errorf("it never died at %q", step)
		}
	}
}

// A session that is deleted right after its rows were half moved is gone, wherever the mover died, and the books balance.
func TestDeletionAtEveryStepOfRetain(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	for _, step := range []string{"retain copied", "retain recorded", "retain attached", "retain deleted", "retain booked"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := shared(t)
			k := w.sink()
			k.SetLookAgain(0)
			var dead atomic.Bool
			reached := make(chan struct{})
			k.SetStep(func(lane int, at string) error {
				if lane == 0 && at == step && dead.CompareAndSwap(false, true) {
					close(reached)
					return sink.ErrCrash
				}
				return nil
			})
			stop := w.run(k)
			w.publish(0, 400)
			w.publish(2, 400)
			w.settled(3 * time.Minute)
			done := w.retain("acme", 60, 700)
			<-reached
			d := stream.Deletion{ID: broker.NewID(), Tenant: "acme", Session: "session-0", At: time.Now().UnixNano()}
			stop()
			next := w.sink()
			next.SetLookAgain(0)
			w.run(next)
			w.waitMark(next, 0, w.publish(0, 100, deletes(d)))
			w.until(done)
			if left := w.rowsOf("acme", "session-0"); len(left) > 0 {
				t.Errorf("rows left: %v", left)
			}
			if have := w.holds("acme")["kernels_data"]; len(have) != 1 || have[60] != 400 {
				t.Errorf("acme has kernels %v by days, want 400 of 60", have)
			}
			w.until(func() bool { return len(w.audit()) == 0 }) // it may look while something is on its way
		})
	}
}

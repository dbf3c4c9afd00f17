package sink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// madeCubin is a cubin that a worker folded some days ago.
type madeCubin struct {
	buildID   string
	days      int    // since it came
	retention uint16 // days
	sampled   int    // days since its newest sample came, -1: never
}

// publishCubins sends a chunk with cubins and samples of them, as their worker would.
func (w *world) publishCubins(p int, cubins ...madeCubin) {
	w.t.Helper()
	c, body := w.chunk(p, 4)
	today := table.DayOf(time.Now().UnixNano())
	add := func(b *table.Batch, day int32, retention uint16) {
		b.FillTail(table.DayPartition{Day: table.MonthOf(day), RetentionDays: retention}, uint16(p), c.Number)
		schema, data, err := b.Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Tables = append(c.Tables, stream.Rows{Table: b.Table().Name, Fingerprint: b.Table().Fingerprint(), Day: table.MonthOf(day),
			RetentionDays: retention, Rows: b.Rows(), SchemaLen: len(schema), DataLen: len(data), Amount: b.Amount()})
		body = append(append(body, schema...), data...)
	}
	for _, m := range cubins {
		day := today - int32(m.days)
		head := table.HeadRow{Tenant: "acme", SessionID: stream.CubinSession + m.buildID}
		b := table.NewBatch(table.Cubins.Table)
		table.Cubins.Append(b, &table.CubinRow{HeadRow: head, BuildID: m.buildID, Whole: 1, Status: "ok", Functions: 1, Lines: 3,
			ReceivedDay: day})
		add(b, day, m.retention)
		b = table.NewBatch(table.CubinFunctions.Table)
		table.CubinFunctions.Append(b, &table.CubinFunctionRow{HeadRow: head, BuildID: m.buildID, Whole: 1, Function: "k", ReceivedDay: day})
		add(b, day, m.retention)
		b = table.NewBatch(table.CubinLines.Table)
		for i := range uint64(3) {
			table.CubinLines.Append(b, &table.CubinLineRow{HeadRow: head, BuildID: m.buildID, Whole: 1, Function: "k", PCFrom: 16 * i,
				PCTo: 16*i + 16, File: "a'.cu", Line: uint32(i + 1), InlineChain: "x\ny", ReceivedDay: day})
		}
		add(b, day, m.retention)
		if m.sampled >= 0 {
			at := time.Now().AddDate(0, 0, -m.sampled)
			b = table.NewBatch(table.PCCubins.Table)
			table.PCCubins.Tenant.AppendString(b, "acme")
			table.PCCubins.SessionID.AppendString(b, "parca:n:1:c")
			table.PCCubins.BuildID.AppendString(b, m.buildID)
			table.PCCubins.Samples.Append(b, 1)
			tabletest.FillRest(b, 1, at, 395)
			schema, data, err := b.Encode(nil)
			if err != nil {
				w.t.Fatal(err)
			}
			c.Tables = append(c.Tables, stream.Rows{Table: b.Table().Name, Fingerprint: b.Table().Fingerprint(),
				Day: table.MonthOf(table.DayOf(at.UnixNano())), RetentionDays: 395, Rows: 1, SchemaLen: len(schema), DataLen: len(data),
				Amount: b.Amount()})
			body = append(append(body, schema...), data...)
		}
	}
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(p, msg)
}

// kept returns what is kept of each cubin: rows and age of the newest copy, by table.
func (w *world) kept() map[string]string {
	w.t.Helper()
	conn := w.conn()
	defer conn.Close()
	out := map[string]string{}
	for _, t := range []string{"cubins_data", "cubin_functions_data", "cubin_lines_data"} {
		rows, err := conn.Query(context.Background(), "SELECT toString(build_id), count(), toInt32(toDate(now('UTC')) - max(received_day)) "+
			"FROM "+t+" FINAL GROUP BY build_id")
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			var id string
			var n uint64
			var age int32
			if err := rows.Scan(&id, &n, &age); err != nil {
				w.t.Fatal(err)
			}
			out[id] = strings.TrimSpace(out[id] + fmt.Sprintf(" %d/%d", n, age))
		}
		rows.Close()
	}
	return out
}

// Cubins that samples still name do not expire: their rows are written again as received today, once, and the registry knows. Others go
// their way. The audit agrees.
func TestCubinsAreRenewed(t *testing.T) {
	w := shared(t)
	kv, err := w.s.JS.CreateOrUpdateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: stream.CubinsBucket})
	if err != nil {
		t.Fatal(err)
	}
	today := table.DayOf(time.Now().UnixNano())
	record := stream.CubinRecord{Whole: true, SizeBytes: 9, Hash: "h", KeptUntilDay: today + 20}
	if _, err := kv.Put(t.Context(), stream.CubinKey("acme", "aa"), record.Append(nil)); err != nil {
		t.Fatal(err)
	}
	k := w.sink()
	w.run(k)
	w.publishCubins(0, madeCubin{"aa", 375, 395, 0}, madeCubin{"ab", 375, 395, -1}, madeCubin{"ac", 375, 395, 60},
		madeCubin{"ad", 100, 395, 0}, madeCubin{"ae", 20, 30, 3}, madeCubin{"af", 5, 30, 3})
	w.settled(3 * time.Minute)
	for round := range 2 { // the second finds nothing to do
		n, err := k.RenewCubins(t.Context(), time.Now())
		if err != nil || n != 2*(1-round) {
			t.Fatalf("round %d renewed %d cubins, %v", round, n, err)
		}
	}
	want := map[string]string{"aa": "1/0 1/0 3/0", "ab": "1/375 1/375 3/375", "ac": "1/375 1/375 3/375", "ad": "1/100 1/100 3/100",
		"ae": "1/0 1/0 3/0", "af": "1/5 1/5 3/5"}
	got := w.kept()
	for id := range want {
		if got[id] != want[id] {
			t.Errorf("%s: rows/age of cubins, functions and lines are %s, want %s", id, got[id], want[id])
		}
	}
	entry, err := kv.Get(t.Context(), stream.CubinKey("acme", "aa"))
	if err != nil {
		t.Fatal(err)
	}
	if err := record.Parse(entry.Value()); err != nil || record.KeptUntilDay != today+395 || record.SizeBytes != 9 {
		t.Errorf("the registry says %+v, %v", record, err)
	}
	w.settled(3 * time.Minute)
}

// A renewal that dies at any step is done again, by one sink or two at once, and nothing is doubled.
func TestRenewalDiesAtEveryStep(t *testing.T) {
	w := shared(t)
	w.run(w.sink())
	w.publishCubins(1, madeCubin{"aa", 375, 395, 0})
	w.settled(3 * time.Minute)
	for n := 1; ; n++ {
		k, calls := w.sink(), 0
		k.SetStep(func(int, string) error {
			if calls++; calls == n {
				return sink.ErrCrash
			}
			return nil
		})
		_, err := k.RenewCubins(t.Context(), time.Now())
		if err == nil {
			if n < 4 {
				t.Errorf("there were %d steps only", n-1)
			}
			break
		}
		if !errors.Is(err, sink.ErrCrash) {
			t.Fatal(err)
		}
		if got := w.kept()["aa"]; !strings.HasPrefix(got, "1/375 ") {
			t.Fatalf("its own row was renewed before the rest: %s", got)
		}
	}
	w.publishCubins(1, madeCubin{"ab", 375, 395, 0})
	w.settled(3 * time.Minute)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := w.sink().RenewCubins(t.Context(), time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	for id, got := range w.kept() {
		if got != "1/0 1/0 3/0" {
			t.Errorf("%s: rows/age are %s", id, got)
		}
	}
	w.settled(3 * time.Minute)
}

// publishDeletion deletes the session of a cubin, as the worker that folded its tombstone would.
func (w *world) publishDeletion(p int, id, buildID string) uint64 {
	w.t.Helper()
	return w.publish(p, 4, deletes(stream.Deletion{ID: id, Tenant: "acme", Session: stream.CubinSession + buildID, At: time.Now().UnixNano()}))
}

// noCubin waits until nothing is left of a cubin.
func (w *world) noCubin(buildID string, within time.Duration) {
	w.t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		left := w.rowsOf("acme", stream.CubinSession+buildID)
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("of the deleted cubin there is %v", left)
		}
	}
}

// A cubin is deleted at every step of its renewal: nothing of it is left, the record does not have it, and the audit agrees.
func TestDeletionAtEveryStepOfARenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	w := shared(t)
	kv := w.s.Cubins
	k := w.sink()
	w.run(k)
	for n := 1; ; n++ {
		buildID := fmt.Sprintf("%04x", n)
		w.publishCubins(0, madeCubin{buildID, 375, 395, 0})
		w.settled(3 * time.Minute)
		record := stream.CubinRecord{Whole: true, SizeBytes: 9, Hash: "h", KeptUntilDay: table.DayOf(time.Now().UnixNano()) + 20}
		if _, err := kv.Put(t.Context(), stream.CubinKey("acme", buildID), record.Append(nil)); err != nil {
			t.Fatal(err)
		}
		renewer, calls := w.sink(), 0
		renewer.SetStep(func(int, string) error {
			if calls++; calls == n {
				w.waitMark(k, 0, w.publishDeletion(0, fmt.Sprint("d", n), buildID))
			}
			return nil
		})
		if _, err := renewer.RenewCubins(t.Context(), time.Now()); err != nil {
			t.Fatal(err)
		}
		if calls < n {
			if n < 4 {
				t.Errorf("there were %d steps only", n-1)
			}
			break
		}
		w.noCubin(buildID, 0)
		if e, err := kv.Get(t.Context(), stream.CubinKey("acme", buildID)); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("step %d: the record has the deleted cubin: %v, %v", n, e, err)
		}
		w.settled(3 * time.Minute)
	}
}

// A cubin is deleted while ClickHouse copies its rows: the statement of a renewal, made slow, brings them back, and they go again. The
// audit agrees.
func TestDeletionDuringTheCopyOfARenewal(t *testing.T) {
	if testing.Short() {
		t.Skip("it mostly waits")
	}
	w := shared(t)
	k := w.sink()
	k.SetLookAgain(8 * time.Second) // the copy takes six
	w.run(k)
	conn := w.conn()
	defer conn.Close()
	w.publishCubins(0, madeCubin{"aa", 375, 395, 0})
	w.settled(3 * time.Minute)
	copied := make(chan error, 1)
	go func() {
		copied <- conn.Exec(t.Context(), "INSERT INTO cubin_lines_data SELECT * REPLACE (toDate(now('UTC')) + sleepEachRow(2) AS "+
			"received_day) FROM cubin_lines_data WHERE build_id = 'aa' SETTINGS insert_deduplicate = 0, "+
			"function_sleep_max_microseconds_per_block = 10000000")
	}()
	w.until(func() bool { // it has begun to read, or has failed
		return len(copied) > 0 || w.number("SELECT max(elapsed) FROM system.processes WHERE query LIKE 'INSERT INTO cubin_lines_data%'") > 0.2
	})
	w.waitMark(k, 0, w.publishDeletion(0, "d", "aa"))
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	if left := w.rowsOf("acme", stream.CubinSession+"aa"); len(left) != 1 || left["cubin_lines_data"] != 3 {
		t.Fatalf("the copy should have brought back 3 lines, there is %v", left)
	}
	w.noCubin("aa", 60*time.Second)
	w.settled(3 * time.Minute)
}

package sink_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// deletes makes a chunk carry deletions, as a worker that folded their tombstones.
func deletes(d ...stream.Deletion) func(*stream.Chunk) {
	return func(c *stream.Chunk) { c.Deletes = d }
}

// rowsOf counts the rows of a tenant, or of a session of it, by table.
func (w *world) rowsOf(tenant, session string) map[string]uint64 {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	out := map[string]uint64{}
	for _, t := range tabletest.Schema().Tables() {
		sql := t.CountSQL(table.Options{Database: w.db}, []table.Target{{Tenant: tenant, Session: session}})
		if sql == "" {
			continue
		}
		rows, err := c.Query(context.Background(), sql)
		if err != nil {
			w.t.Fatal(err)
		}
		for rows.Next() {
			var i int64
			var n uint64
			if err := rows.Scan(&i, &n); err != nil {
				w.t.Fatal(err)
			}
			out[t.Name] = n
		}
		rows.Close()
	}
	return out
}

// took publishes chunks of a partition and returns what they added to the totals.
func (w *world) took(f func()) totals {
	before := w.want
	f()
	after := w.want
	return totals{kernels: after.kernels - before.kernels, calls: after.calls - before.calls}
}

func (w *world) waitMark(k *sink.Sink, lane int, seq uint64) {
	w.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !marked(k, lane, seq); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("the mark of lane %d does not reach %d: %s", lane, seq, k.Status())
		}
	}
}

// marked reports whether a sink's mark has reached a sequence.
func marked(k *sink.Sink, lane int, seq uint64) bool {
	return slices.ContainsFunc(k.Status().Lanes, func(l sink.LaneStatus) bool { return l.Lane == lane && l.Mark >= seq })
}

// diesTwice runs a sink that dies at a step, and a successor that dies there too, if it comes by before its mark is at seq.
func (w *world) diesTwice(step string, lane int, seq uint64) {
	w.t.Helper()
	for life := range 2 {
		k := w.sink()
		var crashed atomic.Bool
		k.SetStep(func(_ int, at string) error {
			if at == step && !crashed.Swap(true) {
				return sink.ErrCrash
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		done := make(chan struct{})
		go func() { defer close(done); k.RunUnleased(ctx, true) }()
		for !crashed.Load() && ctx.Err() == nil && !(life > 0 && marked(k, lane, seq)) {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(20 * time.Millisecond)
		cancel()
		<-done
		if life == 0 && !crashed.Load() {
			w.t.Fatal("no sink came by: " + step)
		}
	}
}

// A session is deleted from every table, its neighbours in the same parts stay, and the audit balances. What NATS holds of it goes too.
func TestDeleteSession(t *testing.T) {
	w := shared(t)
	ctx := t.Context()
	k := w.sink()
	w.run(k)
	gone := w.took(func() {
		for range 3 {
			w.publish(0, 400)
		}
	})
	w.publish(2, 200) // the same lane
	w.publish(1, 200)
	d := stream.Deletion{ID: "d1", Tenant: "acme", Session: "session-0", At: time.Now().UnixNano()}
	token := d.Token()
	neighbour := stream.SessionToken("session-2")
	for _, subject := range []string{stream.IngestSubject(0, "acme", token), stream.IngestSubject(0, "acme", neighbour),
		stream.IngestSubject(0, "other", token), stream.IngestSubject(0, "acme", token)} {
		if _, err := w.s.JS.Publish(ctx, subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"acme." + token + ".1-0", "acme." + neighbour + ".2-0", "other." + token + ".3-0"} {
		if _, err := w.s.Dictionaries.Put(ctx, key, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Windows.Put(ctx, strings.Replace(key, "-0", ".w", 1), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Parts.PutBytes(ctx, key, []byte("line")); err != nil {
			t.Fatal(err)
		}
	}
	seq := w.publish(0, 100, deletes(d), func(c *stream.Chunk) { c.Position = 3 })
	w.waitMark(k, 0, seq)
	if left := w.rowsOf("acme", "session-0"); len(left) > 0 {
		t.Errorf("rows left: %v", left)
	}
	if have := w.rowsOf("acme", "session-2"); have["kernels_data"] != 200 {
		t.Errorf("the neighbour has %v", have)
	}
	if have := w.rowsOf("acme", "session-1"); have["kernels_data"] != 200 && len(have) > 0 {
		t.Errorf("the session of another lane has %v", have)
	}
	entry, err := w.s.Deletions.Get(ctx, stream.DeletionRecordKey("d1", 0))
	if err != nil {
		t.Fatal(err)
	}
	var r stream.DeletionRecord
	if err := json.Unmarshal(entry.Value(), &r); err != nil {
		t.Fatal(err)
	}
	if r.Rows["kernels_data"] != gone.kernels+100 || r.Messages != 1 || r.Keys != 2 || r.Objects != 1 || r.Token != token ||
		strings.Contains(string(entry.Value()), "session-0") {
		t.Errorf("receipt %+v, want %d kernels, 1 message up to sequence 3, 2 keys, 1 object and no id", r, gone.kernels+100)
	}
	info, err := w.s.Ingest.Info(ctx, jetstream.WithSubjectFilter("ingest.>"))
	if err != nil {
		t.Fatal(err)
	}
	if info.State.Msgs != 3 || info.State.Subjects[stream.IngestSubject(0, "acme", token)] != 1 {
		t.Errorf("INGEST has %v, want the neighbours' and what came after the tombstone", info.State.Subjects)
	}
	for _, key := range []string{"acme." + neighbour + ".2-0", "other." + token + ".3-0"} {
		if _, err := w.s.Dictionaries.Get(ctx, key); err != nil {
			t.Errorf("dictionary %s: %v", key, err)
		}
		if _, err := w.s.Parts.GetInfo(ctx, key); err != nil {
			t.Errorf("object %s: %v", key, err)
		}
	}
	if _, err := w.s.Dictionaries.Get(ctx, "acme."+token+".1-0"); err == nil {
		t.Error("the session's dictionary is still there")
	}
	c := w.conn()
	defer c.Close()
	w.waitMark(k, 1, w.lastSeq[1])
	report, err := sink.Audit(ctx, w.s, c, tabletest.Schema())
	if err != nil || !report.OK() {
		t.Errorf("the books after a deletion: %v %v", err, report.Problems())
	}
}

// A tenant's purge takes what the partition brought up to the chunk, usage included, and nothing that came later or by others.
func TestPurgeTenant(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.publish(0, 200)
	w.publish(1, 200)
	w.publish(2, 200)
	w.publish(0, 100, deletes(stream.Deletion{ID: "p", Tenant: "acme", At: time.Now().UnixNano()}))
	seq := w.publish(0, 40)
	w.waitMark(k, 0, seq)
	w.waitMark(k, 1, w.lastSeq[1])
	c := w.conn()
	defer c.Close()
	for _, q := range []struct {
		sql  string
		want uint64
	}{
		{"SELECT count() FROM kernels_data WHERE rows_partition = 0", 40},
		{"SELECT count() FROM kernels_data WHERE rows_partition = 1", 200},
		{"SELECT count() FROM kernels_data WHERE rows_partition = 2", 200},
		{"SELECT sum(calls) FROM kernel_stats_data WHERE rows_partition = 0", 40},
		{"SELECT sum(events) FROM usage_data WHERE rows_partition = 0", 41},
		{"SELECT sum(events) FROM usage_data WHERE rows_partition = 1", 201},
	} {
		var got uint64
		if err := c.QueryRow(t.Context(), q.sql).Scan(&got); err != nil || got != q.want {
			t.Errorf("%s: %d, want %d (%v)", q.sql, got, q.want, err)
		}
	}
}

// A sink dies at each step of a deletion; the next one finishes it, and neither doubles the neighbours nor brings a row back.
func TestDeletionIsKilled(t *testing.T) {
	for _, where := range []string{"recorded", "inserted kernels_data", "erase", "erased", "insert ledger", "advance", "advanced"} {
		t.Run(where, func(t *testing.T) {
			w := shared(t)
			w.publish(0, 300)
			w.publish(2, 300) // the neighbour, in the same span and the same parts
			seq := w.publish(0, 300, deletes(stream.Deletion{ID: "d", Tenant: "acme", Session: "session-0"}))
			w.diesTwice(where, 0, seq)
			k := w.sink()
			w.run(k)
			w.waitMark(k, 0, seq)
			later := w.publish(2, 100)
			w.waitMark(k, 0, later)
			if left := w.rowsOf("acme", "session-0"); len(left) > 0 {
				t.Errorf("rows left: %v", left)
			}
			if have := w.rowsOf("acme", "session-2"); have["kernels_data"] != 400 {
				t.Errorf("the neighbour has %v, want 400 kernels", have)
			}
			c := w.conn()
			defer c.Close()
			var calls uint64
			if err := c.QueryRow(t.Context(), "SELECT sum(calls) FROM kernel_stats_data").Scan(&calls); err != nil || calls != 400 {
				t.Errorf("%d calls, want 400 (%v)", calls, err)
			}
			report, err := sink.Audit(t.Context(), w.s, c, tabletest.Schema())
			if err != nil || !report.OK() {
				t.Errorf("the books after a deletion: %v %v", err, report.Problems())
			}
		})
	}
}

// A sink dies in a span that has several deletions of one ROWS partition, and rows between them: each is carried out once, with a record of
// its own.
func TestDeletionsOfOnePartitionAreKilled(t *testing.T) {
	for _, where := range []string{"erase", "swept", "advance"} {
		t.Run(where, func(t *testing.T) {
			w := shared(t)
			w.publish(0, 300)
			w.publish(2, 300)
			w.publish(0, 10, deletes(stream.Deletion{ID: "first", Tenant: "acme", Session: "session-0"}))
			w.publish(2, 100, deletes(stream.Deletion{ID: "nothing", Tenant: "acme", Session: "nosuch"}))
			w.publish(2, 100)
			seq := w.publish(2, 0, deletes(stream.Deletion{ID: "other", Tenant: "other", Session: "session-2"}))
			w.diesTwice(where, 0, seq)
			k := w.sink()
			w.run(k)
			w.waitMark(k, 0, seq)
			w.waitMark(k, 0, w.publish(2, 50))
			if left := w.rowsOf("acme", "session-0"); len(left) > 0 {
				t.Errorf("rows left: %v", left)
			}
			if have := w.rowsOf("acme", "session-2"); have["kernels_data"] != 550 {
				t.Errorf("the neighbour has %v, want 550 kernels", have)
			}
			for id, p := range map[string]int{"first": 0, "nothing": 2, "other": 2} {
				if _, err := w.s.Deletions.Get(t.Context(), stream.DeletionRecordKey(id, p)); err != nil {
					t.Errorf("record of deletion %s: %v", id, err)
				}
			}
			c := w.conn()
			defer c.Close()
			report, err := sink.Audit(t.Context(), w.s, c, tabletest.Schema())
			if err != nil || !report.OK() {
				t.Errorf("the books after deletions: %v %v", err, report.Problems())
			}
		})
	}
}

// Rows of a deleted session that come back after ClickHouse forgot their token are found and deleted again.
func TestDeletionLooksAgain(t *testing.T) {
	w := shared(t)
	k := w.sink()
	k.SetLookAgain(6 * time.Second) // what comes back has to be there by then
	w.run(k)
	w.waitMark(k, 0, w.publish(0, 100))
	c := w.conn()
	defer c.Close()
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.waitMark(k, 0, w.publish(0, 100, deletes(stream.Deletion{ID: "d", Tenant: "acme", Session: "session-0"})))
	if err := c.Exec(t.Context(), "INSERT INTO kernels_data (tenant, session_id, received_at, retention_days, chunk) VALUES ('acme', "+
		"'session-0', now64(9), 7, 1)"); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); len(w.rowsOf("acme", "session-0")) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still there: %v", w.rowsOf("acme", "session-0"))
		}
	}
}

// Ids are hostile text: each deletes its own rows and no others.
func TestDeleteHostileSessions(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.waitMark(k, 0, w.publish(0, 10))
	c := w.conn()
	defer c.Close()
	ids := []string{`a' OR 1=1 --`, `\`, `\'`, `?`, `{x:String}`, "%", "_", `') OR ('1'='1`, "`", "ünï", `"`, "a b", "$1", "/*"}
	for _, id := range append([]string{"stays"}, ids...) {
		if err := c.Exec(t.Context(), "INSERT INTO kernels_data (tenant, session_id, received_at, retention_days) VALUES ($1, $2, now64(9), 7)",
			"acme", id); err != nil {
			t.Fatal(err)
		}
	}
	var all []stream.Deletion
	for i, id := range ids {
		all = append(all, stream.Deletion{ID: fmt.Sprint("h", i), Tenant: "acme", Session: id})
	}
	w.waitMark(k, 0, w.publish(0, 10, deletes(all...)))
	for _, id := range ids {
		if left := w.rowsOf("acme", id); len(left) > 0 {
			t.Errorf("%q: %v", id, left)
		}
	}
	for _, id := range []string{"stays", "session-0"} {
		if len(w.rowsOf("acme", id)) == 0 {
			t.Errorf("%q is gone too", id)
		}
	}
}

// Every table takes part in deletions.
func TestEveryTableOfATenantCanBeDeleted(t *testing.T) {
	// A table without a session can only be deleted with the tenant. Whoever adds one decides that here.
	// Contents go with the last session that has them, see TestDeleteSessionTakesItsContents.
	tenantOnly := map[string]bool{"usage_data": true, "books_data": true, "source_lines_data": true, "sass_lines_data": true, "ptx_data": true}
	for _, tb := range tabletest.Schema().Tables() {
		session := tb.Holds(&table.Target{Tenant: "t", Session: "s"})
		all := tb.Holds(&table.Target{Tenant: "t"})
		switch {
		case tb.Retention == table.Static && (session || all):
			t.Errorf("%s is static and would be deleted from", tb.Name)
		case tb.Lasting != (tb.Name == "admin_log_data"):
			t.Errorf("%s: what no deletion takes is named here", tb.Name)
		case tb.Lasting && (session || all):
			t.Errorf("%s is the operator's, and would be deleted from", tb.Name)
		case tb.Lasting:
		case tb.Retention != table.Static && !all:
			t.Errorf("%s would keep a purged tenant's rows", tb.Name)
		case tb.Retention != table.Static && !session && !tenantOnly[tb.Name]:
			t.Errorf("%s would keep a deleted session's rows: give it session_id, or name it here", tb.Name)
		}
		if all && tb.Column("rows_partition") == nil {
			t.Errorf("%s has no rows_partition, by which a purge is bounded", tb.Name)
		}
	}
}

// A purge cleans NATS of what its partition had, and leaves what began since and what other partitions have to clean.
func TestPurgeCleansNATS(t *testing.T) {
	w := shared(t)
	ctx := t.Context()
	ingest := func(p int, token string) uint64 {
		t.Helper()
		ack, err := w.s.JS.Publish(ctx, stream.IngestSubject(p, "acme", token), []byte("x"))
		if err != nil {
			t.Fatal(err)
		}
		return ack.Sequence
	}
	names := func(token string, seq uint64) (key string) {
		t.Helper()
		key = stream.DictionaryKey("acme", token, seq) + "-0"
		if _, err := w.s.Dictionaries.Create(ctx, key, []byte("n")); err != nil {
			t.Fatal(err)
		}
		if _, err := w.s.Windows.Put(ctx, "acme."+token+".w.x", []byte("w")); err != nil {
			t.Fatal(err)
		}
		return key
	}
	old := names("old", ingest(0, "old"))
	last := func(bucket string) uint64 {
		t.Helper()
		s, err := w.s.JS.Stream(ctx, "KV_"+bucket)
		if err != nil {
			t.Fatal(err)
		}
		return s.CachedInfo().State.LastSeq
	}
	d := stream.Deletion{ID: "p", Tenant: "acme", Dictionaries: last(stream.DictionariesBucket), Windows: last(stream.WindowsBucket)}
	young, elsewhere := names("young", ingest(0, "young")), names("elsewhere", ingest(1, "elsewhere"))
	tombstone := ingest(0, stream.PurgeToken)
	if _, err := w.s.Parts.PutBytes(ctx, "acme.old.d.0", []byte("line")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(5 * time.Millisecond)
	d.At = time.Now().UnixNano()
	time.Sleep(5 * time.Millisecond)
	later := names("later", ingest(0, "later"))
	if _, err := w.s.Parts.PutBytes(ctx, "acme.later.d.0", []byte("line")); err != nil {
		t.Fatal(err)
	}
	k := w.sink()
	w.run(k)
	w.waitMark(k, 0, w.publish(0, 10, deletes(d), func(c *stream.Chunk) { c.Position = tombstone }))
	for key, want := range map[string]bool{old: false, young: false, elsewhere: true, later: true} {
		if _, err := w.s.Dictionaries.Get(ctx, key); (err == nil) != want {
			t.Errorf("dictionary %s: there %t, want %t", key, err == nil, want)
		}
	}
	for token, want := range map[string]bool{"old": false, "later": true} {
		if _, err := w.s.Windows.Get(ctx, "acme."+token+".w.x"); (err == nil) != want {
			t.Errorf("window of %s: there %t, want %t", token, err == nil, want)
		}
		if _, err := w.s.Parts.GetInfo(ctx, "acme."+token+".d.0"); (err == nil) != want {
			t.Errorf("object of %s: there %t, want %t", token, err == nil, want)
		}
	}
	info, err := w.s.Ingest.Info(ctx, jetstream.WithSubjectFilter("ingest.>"))
	if err != nil || info.State.Msgs != 2 || info.State.Subjects[stream.IngestSubject(1, "acme", "elsewhere")] != 1 ||
		info.State.Subjects[stream.IngestSubject(0, "acme", "later")] != 1 {
		t.Errorf("INGEST has %v (%v)", info.State.Subjects, err)
	}
}

package sink_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// refuse publishes a chunk of rejects, by session the name of the object that each refers to, and returns its number.
func (w *world) refuse(p int, objects map[string]string) uint64 {
	w.t.Helper()
	w.mu.Lock()
	w.numbers[p]++
	now := time.Now()
	day := int32(now.Unix() / 86400)
	c := stream.Chunk{Partition: p, Number: w.numbers[p], Epoch: 1, CreatedAt: now.UnixNano(), OldestReceivedAt: now.UnixNano(),
		Snapshot: stream.Snapshot{Seq: w.snapshot[p]}, After: w.lastSeq[p] + 1}
	b, books := table.NewBatch(table.Rejects.Table), table.NewBatch(table.Books.Table)
	for _, session := range slices.Sorted(maps.Keys(objects)) {
		table.Rejects.Append(b, &table.RejectRow{HeadRow: table.HeadRow{Tenant: "acme", SessionID: session}, At: now.UnixNano(),
			Source: "gpu-flight", Reason: "bad_json", Detail: "", Type: "", Events: 1, Bytes: 2 << 20, Payload: []byte("{"),
			PayloadRef: stream.ObjectRef + objects[session], Stage: "fold", ReceivedAt: now.UnixNano()})
	}
	b.FillTail(table.DayPartition{Day: day, RetentionDays: 7}, uint16(p), c.Number)
	table.Books.Append(books, &table.BookRow{Tenant: "acme", Day: day, TableName: table.Rejects.Name, Kept: 7, Rows: uint64(len(objects)),
		Amount: 0, ReceivedDay: day})
	books.FillTail(table.DayPartition{Day: day, RetentionDays: table.BookDays}, uint16(p), c.Number)
	var body []byte
	for _, one := range []struct {
		b    *table.Batch
		day  int32
		kept uint16
	}{{b, day, 7}, {books, int32(now.UTC().AddDate(0, 0, 1-now.UTC().Day()).Unix() / 86400), table.BookDays}} {
		schema, data, err := one.b.Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Tables = append(c.Tables, stream.Rows{Table: one.b.Table().Name, Fingerprint: one.b.Table().Fingerprint(), Day: one.day,
			RetentionDays: one.kept, Rows: one.b.Rows(), SchemaLen: len(schema), DataLen: len(data), Amount: one.b.Amount()})
		body = append(append(body, schema...), data...)
	}
	w.mu.Unlock()
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(p, msg)
	return c.Number
}

// keep stores an object as a worker leaves it whose chunk, 0 for none that is known, has a reject of it.
func (w *world) keep(name string, p int, chunk uint64) {
	w.t.Helper()
	meta := jetstream.ObjectMeta{Name: name, Description: stream.KeptForReject}
	if chunk > 0 {
		meta.Metadata = map[string]string{stream.KeptPartition: strconv.Itoa(p), stream.KeptChunk: strconv.FormatUint(chunk, 10)}
	}
	if _, err := w.s.Parts.Put(w.t.Context(), meta, strings.NewReader(strings.Repeat("x", 1000))); err != nil {
		w.t.Fatal(err)
	}
}

// objects names the objects that there are.
func (w *world) objects() string {
	w.t.Helper()
	all, err := sink.KeptObjects(w.t.Context(), w.s)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(all)), " "), stream.ObjectRef, "")
}

// With the last reject that refers to an object goes the object, also when the drop is killed at any step and another finishes it; what
// a reject refers to that stays, stays.
func TestDropTakesObjects(t *testing.T) {
	w := shared(t)
	w.run(w.sink())
	c := w.conn()
	defer c.Close()
	for i, kill := range []string{"noted", "freed", "deleted", "booked", ""} {
		chunk := w.refuse(1, map[string]string{"gone 1": "of two", "gone 2": "of two", "gone 3": "shared", "stays 1": "shared",
			"stays 2": "alone", "gone 4": "not there"})
		for _, name := range []string{"of two", "shared", "alone"} {
			w.keep(name, 1, chunk)
		}
		w.caughtUpWith(chunk, 1)
		crash := errors.New("killed")
		d := sink.Dropper{Streams: w.s, Conn: c, Step: func(step string) error {
			if step == kill {
				return crash
			}
			return nil
		}}
		n, err := d.Drop(t.Context(), table.Rejects.Table, "startsWith(session_id, 'gone')")
		if n != 4 || kill == "" && err != nil || kill != "" && !errors.Is(err, crash) {
			t.Fatalf("killed when %q: dropped %d rows: %v", kill, n, err)
		}
		d.Step = nil
		if was, err := d.Finish(t.Context()); was != (kill != "") || err != nil {
			t.Errorf("killed when %q: finished %v %v", kill, was, err)
		}
		if got := w.objects(); got != "alone shared" {
			t.Errorf("killed when %q: the objects that stay are %q", kill, got)
		}
		var left, all uint64
		if err := c.QueryRow(t.Context(), "SELECT countIf(startsWith(session_id, 'stays')), count() FROM rejects_data").Scan(&left, &all); err !=
			nil || left != uint64(2*(i+1)) || all != left {
			t.Errorf("killed when %q: %d rejects are left, %d of those that stay (%v)", kill, all, left, err)
		}
		if lines, _ := w.books(sink.Scope{}); len(lines) > 0 {
			t.Errorf("killed when %q: the books say %q", kill, lines)
		}
	}
	if lines := w.audit(); len(lines) > 0 {
		t.Errorf("the audit says %q", lines)
	}
}

// Objects are deleted whose rejects are in ClickHouse no more, and none whose reject may be on its way.
func TestObjectsOfRejectsThatExpired(t *testing.T) {
	w := shared(t)
	stop := w.run(w.sink())
	c := w.conn()
	defer c.Close()
	first := w.refuse(2, map[string]string{"a": "named", "b": "expired", "c": "of an older worker"})
	w.keep("named", 2, first)
	w.keep("expired", 2, first)
	w.keep("of an older worker", 2, 0)
	w.caughtUpWith(first, 2)
	stop()
	second := w.refuse(2, map[string]string{"d": "on its way"})
	w.keep("on its way", 2, second)
	if _, err := w.s.Parts.PutString(t.Context(), "waits for a worker", "x"); err != nil {
		t.Fatal(err)
	}
	w.exec("ALTER TABLE rejects_data DELETE WHERE session_id != 'a' SETTINGS mutations_sync = 2")
	d := sink.Dropper{Streams: w.s, Conn: c}
	for range 2 {
		named, err := d.FreeUnnamed(t.Context())
		if want := []sink.Kept{{Tenant: "acme", Ref: stream.ObjectRef + "named", Bytes: 1000}}; err != nil || !slices.Equal(named, want) {
			t.Errorf("%+v %v", named, err)
		}
		if got := w.objects(); got != "named of an older worker on its way waits for a worker" {
			t.Errorf("the objects that stay are %q", got)
		}
	}
	w.run(w.sink())
	w.caughtUpWith(second, 2)
	if named, err := d.FreeUnnamed(t.Context()); err != nil || len(named) != 2 {
		t.Errorf("when its reject is there: %+v %v", named, err)
	}
}

// caughtUpWith waits until a chunk is in ClickHouse.
func (w *world) caughtUpWith(chunk uint64, p int) {
	w.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		in, err := sink.Inserted(w.t.Context(), w.s)
		if err == nil && in[p].Chunk >= chunk {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatal(fmt.Sprint("chunk ", chunk, " is not in ClickHouse: ", in, err))
		}
	}
}

package sink_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// artifacts publishes a chunk of partition p in which a session has contents, each two lines of source, two instructions and a PTX, with
// the marks that a worker sends. Contents stand before the links to them, as no worker has to send them.
func (w *world) artifacts(p int, tenant, session string, contents ...uint64) uint64 {
	w.t.Helper()
	w.mu.Lock()
	w.numbers[p]++
	c := stream.Chunk{Partition: p, Number: w.numbers[p], Epoch: 1, CreatedAt: time.Now().UnixNano()}
	w.mu.Unlock()
	now := time.Now().UTC()
	month := int32(time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Unix() / 86400)
	var body []byte
	add := func(t *table.Table, rows func(b *table.Batch)) {
		b := table.NewBatch(t)
		rows(b)
		b.FillTail(table.DayPartition{Day: month, RetentionDays: 400}, uint16(p), c.Number)
		schema, data, err := b.Encode(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		c.Tables = append(c.Tables, stream.Rows{Table: t.Name, Fingerprint: t.Fingerprint(), Day: month,
			RetentionDays: 400, Rows: b.Rows(), SchemaLen: len(schema), DataLen: len(data)})
		body = append(append(body, schema...), data...)
	}
	src, sass, ptx, sources, functions := table.SourceLines, table.SASSLines, table.PTX, table.SessionSources, table.SessionFunctions
	day := int32(now.Unix() / 86400)
	marked := append([]uint64{0}, contents...)
	lines := func(f func(id uint64, line int)) {
		for _, id := range marked {
			f(id, 0)
			if id != 0 { // a mark has one
				f(id, 1)
			}
		}
	}
	add(ptx.Table, func(b *table.Batch) {
		for _, id := range marked {
			ptx.Tenant.AppendString(b, tenant)
			ptx.ContentHi.Append(b, 0)
			ptx.ContentLo.Append(b, id)
			ptx.FunctionName.Append(b, "f")
			ptx.Arch.AppendString(b, "")
			ptx.PTX.Append(b, "ret;")
			ptx.ReceivedDay.Append(b, day)
		}
	})
	add(sass.Table, func(b *table.Batch) {
		lines(func(id uint64, line int) {
			sass.Tenant.AppendString(b, tenant)
			sass.ContentHi.Append(b, 0)
			sass.ContentLo.Append(b, id)
			sass.PC.Append(b, uint64(16*line))
			sass.SASS.AppendString(b, "NOP")
			sass.ReceivedDay.Append(b, day)
		})
	})
	add(src.Table, func(b *table.Batch) {
		lines(func(id uint64, line int) {
			src.Tenant.AppendString(b, tenant)
			src.ContentHi.Append(b, 0)
			src.ContentLo.Append(b, id)
			src.Line.Append(b, uint32(line+1))
			src.Text.Append(b, "text")
			src.ReceivedDay.Append(b, day)
		})
	})
	add(functions.Table, func(b *table.Batch) {
		for _, kind := range []string{table.ArtifactSASS, table.ArtifactPTX} {
			for _, id := range contents {
				functions.Append(b, &table.SessionFunctionRow{HeadRow: table.HeadRow{Tenant: tenant, SessionID: session}, Kind: kind, CubinCRC: 1,
					FunctionName: fmt.Sprint("f", id), ContentLo: id, Instructions: 2, ReceivedDay: day})
			}
		}
	})
	add(sources.Table, func(b *table.Batch) {
		for _, id := range contents {
			sources.Append(b, &table.SessionSourceRow{HeadRow: table.HeadRow{Tenant: tenant, SessionID: session}, SourceFileID: uint32(id),
				ContentLo: id, Lines: 2, ReceivedDay: day})
		}
	})
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.send(p, msg)
}

// contents says which contents of a tenant are whole in each of the three tables, and how many partitions have left marks.
func (w *world) contents(tenant string) string {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	var out []string
	for _, name := range []string{"source_lines_data", "sass_lines_data", "ptx_data"} {
		rows := 2
		if name == "ptx_data" {
			rows = 1
		}
		var ids []uint64
		var marks uint64
		sql := fmt.Sprintf("SELECT arraySort(groupArrayIf(content_lo, n = %[2]d AND content_lo != 0)), countIf(content_lo = 0) + 1000 * "+
			"countIf(n != %[2]d AND content_lo != 0) FROM (SELECT content_lo, if(content_lo = 0, rows_partition, 0) AS p, count() AS n FROM %[1]s "+
			"FINAL WHERE tenant = $1 GROUP BY content_lo, p)", name, rows)
		if err := c.QueryRow(context.Background(), sql, tenant).Scan(&ids, &marks); err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprint(ids, marks))
	}
	if out[0] != out[1] || out[1] != out[2] {
		return strings.Join(out, " ")
	}
	return out[0]
}

func (w *world) wantContents(tenant, want string) {
	w.t.Helper()
	if got := w.contents(tenant); got != want {
		w.t.Errorf("%s has contents %s, want %s", tenant, got, want)
	}
}

func (w *world) audited() {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	if report, err := sink.Audit(context.Background(), w.s, c, tabletest.Schema()); err != nil || !report.OK() {
		w.t.Errorf("the books after a deletion: %v %v", err, report.Problems())
	}
}

// A content goes with the last session that has it, and with no other; the same bytes of another tenant stay.
func TestDeleteSessionTakesItsContents(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.artifacts(0, "acme", "a", 1, 2)
	w.artifacts(0, "acme", "a'", 5)
	w.artifacts(2, "rival", "a", 1, 2)
	w.waitMark(k, 1, w.artifacts(1, "acme", "b", 2, 3)) // the other lane
	w.waitMark(k, 0, w.publish(0, 10))
	w.wantContents("acme", "[1 2 3 5] 2")
	w.wantContents("rival", "[1 2] 1")

	receipt := func(id string, p int) (r stream.DeletionRecord) {
		t.Helper()
		entry, err := w.s.Deletions.Get(t.Context(), stream.DeletionRecordKey(id, p))
		if err == nil {
			err = json.Unmarshal(entry.Value(), &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: "none", Tenant: "acme", Session: "has no contents"},
		stream.Deletion{ID: "a", Tenant: "acme", Session: "a"})))
	w.wantContents("acme", "[2 3 5] 2")
	if r := receipt("none", 0); r.Rows["sass_lines_data"]+receipt("a", 0).Rows["sass_lines_data"] != 2 {
		t.Errorf("receipts %+v and %+v do not tell of two instructions", r, receipt("a", 0))
	}
	w.waitMark(k, 1, w.publish(1, 10, deletes(stream.Deletion{ID: "b", Tenant: "acme", Session: "b"})))
	w.wantContents("acme", "[5] 2")
	if r := receipt("b", 1); r.Rows["source_lines_data"] < 4 || r.Rows["ptx_data"] < 2 || // more where equal rows had not merged
		r.Rows["session_sources_data"] != 2 {
		t.Errorf("receipt %+v", r)
	}
	w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: "a2", Tenant: "acme", Session: "a'"})))
	w.wantContents("acme", "[] 2")
	w.wantContents("rival", "[1 2] 1")
	w.waitMark(k, 0, w.artifacts(0, "acme", "a", 1)) // comes again, with a chunk number that the marks must bear
	w.wantContents("acme", "[1] 2")
	w.audited()
}

// Two sessions that share their contents are deleted by two lanes at once, and by one chunk.
func TestDeleteSessionsThatShareContents(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.artifacts(0, "acme", "a", 1, 2)
	w.waitMark(k, 1, w.artifacts(1, "acme", "b", 1, 2))
	a := w.publish(0, 10, deletes(stream.Deletion{ID: "a", Tenant: "acme", Session: "a"}))
	b := w.publish(1, 10, deletes(stream.Deletion{ID: "b", Tenant: "acme", Session: "b"}))
	w.waitMark(k, 0, a)
	w.waitMark(k, 1, b)
	w.wantContents("acme", "[] 2")
	w.artifacts(0, "acme", "c", 1, 2)
	w.artifacts(0, "acme", "d", 2, 3)
	w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: "c", Tenant: "acme", Session: "c"},
		stream.Deletion{ID: "d", Tenant: "acme", Session: "d"})))
	w.wantContents("acme", "[] 2")
	w.audited()
}

// Links are inserted before the contents that they refer to: a session whose links are in and whose contents are not does not lose them
// to the deletion of the one other session that has them, and in no other order would that hold.
func TestContentsAreSafeWhileTheyAreSent(t *testing.T) {
	w := shared(t)
	k := w.sink()
	var mu sync.Mutex
	var steps []string
	stopAt, reached, resume := "", make(chan struct{}), make(chan struct{})
	k.SetStep(func(lane int, step string) error {
		mu.Lock()
		if lane == 1 && strings.HasPrefix(step, "inserted ") {
			steps = append(steps, strings.TrimPrefix(step, "inserted "))
		}
		stop := lane == 1 && step == stopAt
		if stop {
			stopAt = ""
		}
		mu.Unlock()
		if stop {
			reached <- struct{}{}
			<-resume
		}
		return nil
	})
	w.run(k)
	t.Cleanup(func() { close(resume) }) // before the sink is waited for
	for i, at := range []string{"insert session_functions_data", "insert session_sources_data", "insert ptx_data", "insert sass_lines_data",
		"insert source_lines_data", "inserted source_lines_data"} {
		first, second := fmt.Sprint("first ", i), fmt.Sprint("second ", i)
		w.waitMark(k, 0, w.artifacts(0, "acme", first, 1, 2))
		mu.Lock()
		stopAt, steps = at, nil
		mu.Unlock()
		seq := w.artifacts(1, "acme", second, 2, 3)
		<-reached
		w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: fmt.Sprint("f", i), Tenant: "acme", Session: first})))
		resume <- struct{}{}
		w.waitMark(k, 1, seq)
		w.wantContents("acme", "[2 3] 2")
		mu.Lock()
		for _, links := range []string{"session_functions_data", "session_sources_data"} {
			for _, contents := range []string{"ptx_data", "sass_lines_data", "source_lines_data"} {
				if l, c := slices.Index(steps, links), slices.Index(steps, contents); l < 0 || c < l {
					t.Errorf("%s is inserted before %s: %v", contents, links, steps)
				}
			}
		}
		mu.Unlock()
		w.waitMark(k, 1, w.publish(1, 10, deletes(stream.Deletion{ID: fmt.Sprint("s", i), Tenant: "acme", Session: second})))
		w.wantContents("acme", "[] 2")
	}
	w.audited()
}

// A sink dies at each step of a deletion, twice; the contents go all the same, and those of the neighbours stay.
func TestDeletionOfContentsIsKilled(t *testing.T) {
	for _, where := range []string{"recorded", "inserted sass_lines_data", "erase", "erased", "swept",
		"insert ledger", "advance", "advanced"} {
		t.Run(where, func(t *testing.T) {
			w := shared(t)
			w.artifacts(0, "acme", "a", 1, 2)
			w.artifacts(2, "acme", "b", 2, 3) // in the same span and the same parts
			w.artifacts(2, "rival", "a", 1)
			seq := w.publish(0, 10, deletes(stream.Deletion{ID: "a", Tenant: "acme", Session: "a"}))
			w.diesTwice(where, 0, seq)
			k := w.sink()
			w.run(k)
			w.waitMark(k, 0, seq)
			w.wantContents("acme", "[2 3] 2")
			w.wantContents("rival", "[1] 1")
			w.waitMark(k, 0, w.publish(2, 10, deletes(stream.Deletion{ID: "b", Tenant: "acme", Session: "b"})))
			w.wantContents("acme", "[] 2")
			w.wantContents("rival", "[1] 1")
			w.audited()
		})
	}
}

// Contents that a zombie brought back without their links go when the deletion is looked after again.
func TestDeletionLooksForContentsAgain(t *testing.T) {
	w := shared(t)
	k := w.sink()
	k.SetLookAgain(6 * time.Second) // what comes back has to be there by then
	w.run(k)
	w.artifacts(0, "acme", "a", 1, 2)
	w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: "a", Tenant: "acme", Session: "a"})))
	c := w.conn()
	defer c.Close()
	for _, tenant := range []string{"acme", "rival"} {
		if err := c.Exec(t.Context(), "INSERT INTO ptx_data (tenant, content_lo, received_day, retention_days, chunk) VALUES ($1, 1, today(), "+
			"400, 1)", tenant); err != nil {
			t.Fatal(err)
		}
	}
	count := func(tenant string) (n uint64) {
		if err := c.QueryRow(t.Context(), "SELECT count() FROM ptx_data WHERE content_lo != 0 AND tenant = $1", tenant).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for deadline := time.Now().Add(60 * time.Second); count("acme") > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("still there")
		}
	}
	if count("rival") != 1 {
		t.Error("another tenant's contents are gone")
	}
}

// A purge takes contents when their last links go, whichever partition brought them, and the marks of its own partition.
func TestPurgeTakesContents(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.artifacts(0, "acme", "a", 1, 2)
	w.artifacts(0, "rival", "a", 1, 2)
	w.waitMark(k, 1, w.artifacts(1, "acme", "b", 2, 3))
	w.waitMark(k, 0, w.publish(0, 10, deletes(stream.Deletion{ID: "p", Tenant: "acme", At: time.Now().UnixNano()})))
	w.wantContents("acme", "[2 3] 1")
	w.waitMark(k, 0, w.artifacts(0, "acme", "later", 3, 4))
	w.waitMark(k, 1, w.publish(1, 10, deletes(stream.Deletion{ID: "p", Tenant: "acme", At: time.Now().UnixNano()})))
	w.wantContents("acme", "[3 4] 1")
	w.wantContents("rival", "[1 2] 1")
	w.audited()
}

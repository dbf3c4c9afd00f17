package sink

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Replay
//
// ROWS keeps chunks for a while after they were inserted (purge.go). A replay looks which of their rows are not in ClickHouse any more and
// inserts those, while lanes go on. Why no row comes twice:
//
//   - A statement does both: of the rows of some chunks, which are in a temporary table, it looks for those that are missing in the table,
//     and inserts them. Its query id is that of the table, and ClickHouse runs one query of an id at a time, so a second replay waits and
//     then finds the rows. What a statement inserts is one data part, which is there whole or not at all, whoever is killed.
//   - In tables that keep rows one by one, a row is missing when fewer equal rows of its chunk are there than the chunk holds.
//   - Tables that merge rows keep the largest chunk number of a key. A chunk's row of a key is missing for certain when that number is
//     smaller than the chunk's; chunks go in the order of their numbers. A row of which a later one is there cannot be told from one that
//     was merged: it is left, and the books go on saying what is short.
//   - Only chunks are taken that a range of the ledger has and that a lane's mark has passed, so no lane inserts them now or later. Lanes
//     verify by numbers above them.
//   - What a deletion took must not come back, so chunks up to a partition's last deletion are left. A deletion that is carried out while a
//     statement runs looks again once that statement's time is over (lookAgainAfter); before each statement the marks are read anew.
//   - Contents without a link would never be deleted, so tables of contents are left.
//   - What was dropped (drop.go) must not come back, and no chunk says what that was. So of a tenant's rows of a table and a day on which
//     some were dropped, none come back. A drop that was cut short is finished first, so that the ledger has it.

// ReplayScope says what is brought back.
type ReplayScope struct {
	Scope
	Table  string // "" is each that lacks rows
	DryRun bool   // only look
	// LeaveLedger leaves the ledger as it is, which belongs to all tenants.
	LeaveLedger bool
}

// Replayed is what a replay did with a table.
type Replayed struct {
	Table string
	// Missing is how many rows of chunks in ROWS were not in the table, and Back how many of them are there now.
	Missing, Back uint64
	// Merges is true for tables that merge rows: there only rows are counted that are missing for certain.
	Merges bool
	Chunks int // of which rows were looked at
}

// Beyond is what cannot be brought back.
type Beyond struct {
	Why    string
	Chunks int // of ROWS; 0: it is not about single chunks
}

// ReplayReport is what a replay did.
type ReplayReport struct {
	// Oldest is when the oldest chunk that ROWS still has was made: the replay window begins there. Chunks is how many there are.
	Oldest time.Time `json:",omitzero"`
	Chunks int
	Tables []Replayed
	Beyond []Beyond
	// Left is what the books say is still wrong; after a dry run, what is wrong now.
	Left []BookReport
}

// Replayer brings rows back. User may write, and Conn is of the same, with Warpline's database.
type Replayer struct {
	Streams        *broker.Streams
	Conn           driver.Conn
	URL            string // of ClickHouse's HTTP interface, as http://127.0.0.1:8123
	User, Password string
	Schema         *table.Schema
	Database       string
	// Step, for tests, is called before each statement; an error ends the replay on the spot, as a crash would.
	Step func(table string) error
}

// keptChunk is a chunk that ROWS still has.
type keptChunk struct {
	seq, number, after uint64
	partition          int
	tables             []stream.Rows
	deletes, object    bool // it carries deletions; its rows are in the object store
}

// Replay brings back what is missing. It may be killed and run again, and two may run at once.
func (r Replayer) Replay(ctx context.Context, of ReplayScope) (ReplayReport, error) {
	var out ReplayReport
	if !of.DryRun {
		if _, err := (Dropper{Streams: r.Streams, Conn: r.Conn}).Finish(ctx); err != nil {
			return out, err
		}
	}
	all, err := r.chunks(ctx, &out)
	if err != nil {
		return out, fmt.Errorf("read ROWS: %w", err)
	}
	if !of.LeaveLedger && (of.Table == "" || of.Table == table.Ledger.Name) {
		done := Replayed{Table: table.Ledger.Name, Chunks: len(all)}
		done.Missing, err = r.mendLedger(ctx, all, of.DryRun)
		if err != nil {
			return out, fmt.Errorf("replay the ledger: %w", err)
		}
		if !of.DryRun {
			done.Back = done.Missing
		}
		if done.Missing > 0 {
			out.Tables = append(out.Tables, done)
		}
	}
	chunks, err := r.reach(ctx, all, &out)
	if err != nil {
		return out, err
	}
	books, err := AuditBooks(ctx, r.Conn, r.Schema, of.Scope)
	if err != nil {
		return out, err
	}
	short := map[string]bool{}
	for _, b := range books {
		short[b.Table] = short[b.Table] || b.Problem != ""
	}
	rollups, err := AuditRollups(ctx, r.Conn, of.Scope)
	if err != nil {
		return out, err
	}
	for _, l := range rollups {
		short[l.Rollup] = true
	}
	for _, t := range r.Schema.Tables() {
		if of.Table != "" && t.Name != of.Table || t.Retention == table.Static || t.Column("rows_partition") == nil {
			continue
		}
		if t.LinkedBy != "" {
			if of.Table != "" || short[t.Name] {
				out.Beyond = append(out.Beyond, Beyond{Why: t.Name + " holds contents that several sessions share: send those sessions again"})
			}
			continue
		}
		if t.Engine != "MergeTree" && of.Table == "" && !short[t.Name] {
			continue
		}
		done, err := r.table(ctx, t, of, chunks)
		if err != nil {
			return out, fmt.Errorf("replay %s: %w", t.Name, err)
		}
		if done.Missing > 0 || of.Table != "" {
			out.Tables = append(out.Tables, done)
		}
	}
	books, err = AuditBooks(ctx, r.Conn, r.Schema, of.Scope)
	if err != nil {
		return out, err
	}
	for _, b := range books {
		if b.Problem != "" && (of.Table == "" || of.Table == b.Table) {
			out.Left = append(out.Left, b)
		}
	}
	return out, r.tellDropped(ctx, &out)
}

// tellDropped tells of which rows that are left others were dropped.
func (r Replayer) tellDropped(ctx context.Context, out *ReplayReport) error {
	for _, b := range out.Left {
		t := r.Schema.Table(b.Table)
		if t == nil || t.Engine != "MergeTree" {
			continue
		}
		dropped, err := r.dropped(ctx, t)
		if err != nil {
			return err
		}
		for day, owners := range dropped {
			if dayName(t, day) == b.Day && slices.Contains(owners, ownerOf(b.Tenant)) {
				out.Beyond = append(out.Beyond, Beyond{Why: fmt.Sprintf("of tenant %s's rows of %s of %s some were dropped on purpose, so none "+
					"of them come back", b.Tenant, b.Table, b.Day)})
			}
		}
	}
	return nil
}

// dropped says by day whose rows of a table were dropped, as the ledger has tenants.
func (r Replayer) dropped(ctx context.Context, t *table.Table) (map[int32][]string, error) {
	all := map[int32][]string{}
	var owner string
	var day int32
	err := each(ctx, r.Conn, fmt.Sprintf("SELECT DISTINCT toString(owner), toInt32(toUInt16(day)) FROM ledger WHERE lane = %d AND "+
		"table = '%s'", dropLane, t.Name), []any{&owner, &day}, func() { all[day] = append(all[day], owner) })
	if err != nil {
		return nil, fmt.Errorf("look what was dropped: %w", err)
	}
	return all, nil
}

// chunks reads the headers of all chunks in ROWS that lanes have passed.
func (r Replayer) chunks(ctx context.Context, out *ReplayReport) (list []keptChunk, err error) {
	info, err := r.Streams.Rows.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return nil, err
	}
	inserted, err := Inserted(ctx, r.Streams)
	if err != nil {
		return nil, err
	}
	c, err := r.Streams.Rows.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy,
		InactiveThreshold: 30 * time.Second})
	if err != nil {
		return nil, err
	}
	for left, at := info.State.Msgs, uint64(0); left > 0 && at < info.State.LastSeq; {
		batch, err := c.Fetch(int(min(left, 256)), jetstream.FetchMaxWait(5*time.Second))
		if err != nil {
			return nil, err
		}
		got := uint64(0)
		for msg := range batch.Messages() {
			got++
			meta, err := msg.Metadata()
			if err != nil {
				return nil, err
			}
			at = meta.Sequence.Stream
			h, _, _, err := stream.ParseChunk(msg.Data())
			if err != nil || h.Partition != stream.PartitionOfRows(msg.Subject()) {
				continue // the sink sets it aside
			}
			if made := time.Unix(0, h.CreatedAt).UTC(); out.Oldest.IsZero() || made.Before(out.Oldest) {
				out.Oldest = made
			}
			if out.Chunks++; h.Number <= inserted[h.Partition].Chunk {
				list = append(list, keptChunk{seq: at, number: h.Number, after: h.After, partition: h.Partition, tables: h.Tables,
					deletes: len(h.Deletes) > 0, object: h.Object != ""})
			}
		}
		if err := batch.Error(); err != nil {
			return nil, err
		}
		if got == 0 {
			return nil, errors.New("ROWS gives nothing more: look at NATS, and run it again")
		}
		left -= min(left, got)
	}
	return list, nil
}

// reach returns those chunks whose rows may be brought back, in the order of their numbers, and tells why others may not.
func (r Replayer) reach(ctx context.Context, all []keptChunk, out *ReplayReport) (list []keptChunk, err error) {
	var d Deep
	ledger, err := readSpans(ctx, r.Conn, Scope{}, &d)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	inserted, err := Inserted(ctx, r.Streams)
	if err != nil {
		return nil, err
	}
	deleted := map[int]uint64{}
	for p, in := range inserted {
		deleted[p] = in.Erased
	}
	for _, c := range all {
		if c.deletes {
			deleted[c.partition] = max(deleted[c.partition], c.seq)
		}
	}
	why := map[string]int{}
	for _, c := range all {
		span := ledger.find(uint16(c.partition), c.number)
		switch {
		case len(c.tables) == 0:
		case c.seq <= deleted[c.partition]:
			why["they are from before a deletion, and hold what it took"]++
		case span < 0 || c.seq < ledger.first[span] || c.seq > ledger.last[span]:
			why["the ledger has no range of them"]++
		case c.object:
			why["their rows were in the object store, which does not keep them"]++
		default:
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b keptChunk) int {
		return cmp.Or(cmp.Compare(a.partition, b.partition), cmp.Compare(a.number, b.number))
	})
	for text, n := range why {
		out.Beyond = append(out.Beyond, Beyond{text, n})
	}
	slices.SortFunc(out.Beyond, func(a, b Beyond) int { return strings.Compare(a.Why, b.Why) })
	return list, nil
}

// chunkOf names rows of a table: those of one chunk that arrived on one day.
type chunkOf struct {
	partition uint16
	chunk     uint64
	day       int32
}

// rowsAt are rows of a table in a chunk: an entry of its header.
type rowsAt struct {
	chunk *keptChunk
	entry int
}

// table brings back what a table lacks.
func (r Replayer) table(ctx context.Context, t *table.Table, of ReplayScope, chunks []keptChunk) (done Replayed, err error) {
	done = Replayed{Table: t.Name, Merges: t.Engine != "MergeTree"}
	today := table.DayOf(time.Now().UnixNano())
	all := map[chunkOf]uint64{}
	var work []rowsAt
	for i := range chunks {
		c := &chunks[i]
		for n := range c.tables {
			e := &c.tables[n]
			day := e.Day
			if t.Retention != table.Raw {
				day = table.MonthOf(day)
			}
			if e.Table != t.Name || e.Rows == 0 || day+int32(e.RetentionDays)-1 <= today || !of.hasDay(t, day) {
				continue
			}
			all[chunkOf{uint16(c.partition), c.number, day}] += uint64(e.Rows)
			work = append(work, rowsAt{c, n})
		}
	}
	if len(work) == 0 {
		return done, nil
	}
	missing, err := r.missing(ctx, t, of, all)
	if err != nil {
		return done, err
	}
	dropped, err := r.dropped(ctx, t)
	if err != nil {
		return done, err
	}
	// Whose the rows are that a chunk lacks is not known before they are looked at.
	counts := !done.Merges && of.Tenant == "" && len(dropped) == 0
	if !done.Merges {
		work = slices.DeleteFunc(work, func(w rowsAt) bool { return missing[w.of(t)] == 0 })
	}
	if counts {
		for _, n := range missing {
			done.Missing += n
		}
	}
	if done.Chunks = len(work); of.DryRun && counts {
		return done, nil
	}
	// One ClickHouse partition after the other, in each the chunks of one schema in the order of their numbers.
	slices.SortStableFunc(work, func(a, b rowsAt) int {
		x, y := &a.chunk.tables[a.entry], &b.chunk.tables[b.entry]
		return cmp.Or(cmp.Compare(x.Day, y.Day), cmp.Compare(x.RetentionDays, y.RetentionDays))
	})
	for from := 0; from < len(work); {
		to, rows, bytes := from, 0, 0
		first := &work[from].chunk.tables[work[from].entry]
		for to < len(work) {
			e := &work[to].chunk.tables[work[to].entry]
			if to > from && (e.Day != first.Day || e.RetentionDays != first.RetentionDays || e.Fingerprint != first.Fingerprint ||
				rows+e.Rows > replayRows || bytes+e.DataLen > replayBytes) {
				break
			}
			rows, bytes, to = rows+e.Rows, bytes+e.DataLen+e.SchemaLen, to+1
		}
		n, err := r.insert(ctx, t, of, work[from:to], dropped[work[from].of(t).day])
		if err != nil {
			return done, err
		}
		if from = to; !counts {
			done.Missing += n
			if !of.DryRun {
				done.Back += n
			}
		}
	}
	if counts {
		missing, err = r.missing(ctx, t, of, all)
		if err != nil {
			return done, err
		}
		done.Back = done.Missing
		for _, n := range missing {
			done.Back -= min(done.Back, n)
		}
	}
	return done, nil
}

const (
	replayRows  = 1 << 20   // of one statement
	replayBytes = 128 << 20 // likewise, not compressed
)

func (w rowsAt) of(t *table.Table) chunkOf {
	e := &w.chunk.tables[w.entry]
	day := e.Day
	if t.Retention != table.Raw {
		day = table.MonthOf(day)
	}
	return chunkOf{uint16(w.chunk.partition), w.chunk.number, day}
}

// hasDay reports whether a day is in the scope; of tables that are kept by month, day is the month's first.
func (s Scope) hasDay(t *table.Table, day int32) bool {
	from := s.From
	if t.Retention != table.Raw && from > 0 {
		from = table.MonthOf(from)
	}
	return day >= from && (s.To == 0 || day <= s.To)
}

// missing returns how many rows of each chunk a table lacks; it knows nothing of tables that merge rows.
func (r Replayer) missing(ctx context.Context, t *table.Table, of ReplayScope, all map[chunkOf]uint64) (map[chunkOf]uint64, error) {
	if t.Engine != "MergeTree" {
		return nil, nil
	}
	missing := make(map[chunkOf]uint64, len(all))
	for k, n := range all {
		missing[k] = n
	}
	var k chunkOf
	var rows uint64
	err := each(ctx, r.Conn, fmt.Sprintf("SELECT rows_partition, chunk, %s AS d, count() FROM %s WHERE 1%s GROUP BY rows_partition, chunk, d",
		t.DaySQL(), name(t.Name), of.days(t, t.DaySQL())), []any{&k.partition, &k.chunk, &k.day, &rows}, func() {
		if n, ok := missing[k]; ok {
			if missing[k] = n - min(n, rows); missing[k] == 0 {
				delete(missing, k)
			}
		}
	})
	return missing, err
}

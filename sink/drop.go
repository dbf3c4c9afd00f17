package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Rows that a person drops
//
// What is dropped from a table by a condition has to be taken from the ledger too, once, or the audit finds rows missing. So a drop first
// counts what it will take, and notes that under one key: it is the only drop then. It deletes, writes the count to the ledger under a
// lane of its own, and removes the note. Whoever finds a note finishes it before a drop of its own: each step may be repeated, also by two
// at once, because the statement that writes the ledger looks first, and runs alone. The count stays true meanwhile: only rows of chunks
// are dropped that the lanes have
// passed by then, so no new row is among them. A deletion that takes some of the same rows in those seconds is counted twice.

// dropLane is what the ledger has for dropped rows; no lane has this number.
const dropLane = 1<<16 - 2

// dropKey holds the note, in MarksBucket.
const dropKey = "drop"

// Dropped is what a drop takes from one ClickHouse partition of a table.
type Dropped struct {
	Tenant        string `json:"tenant"`
	Day           int32  `json:"day"`
	RetentionDays uint16 `json:"retention_days"`
	Rows          uint64 `json:"rows"`
}

// note is a drop that was begun.
type note struct {
	ID    string    `json:"id"`
	Table string    `json:"table"`
	Where string    `json:"where"`
	At    time.Time `json:"at"`
	Rows  []Dropped `json:"rows"`
}

// Dropper drops rows of tables that keep rows one by one. Conn is of a user who may write, and its database is Warpline's.
type Dropper struct {
	Streams *broker.Streams
	Conn    driver.Conn
	// Step, for tests, is called between the steps; an error ends the drop on the spot, as a crash would.
	Step func(step string) error
}

// Drop deletes the rows of a table that a condition selects and that are in ClickHouse by now, and returns how many, also when it is
// cut short: Finish goes on then. It finishes an earlier drop first.
func (d Dropper) Drop(ctx context.Context, t *table.Table, where string) (rows uint64, err error) {
	if t.Engine != "MergeTree" || t.Column("tenant") == nil {
		return 0, fmt.Errorf("rows of %s cannot be dropped: it merges them", t.Name)
	}
	for {
		if _, err := d.Finish(ctx); err != nil {
			return 0, err
		}
		passed, err := d.passed(ctx)
		if err != nil || passed == "" {
			return 0, err
		}
		n := note{ID: broker.NewID(), Table: t.Name, Where: "(" + where + ") AND (" + passed + ")", At: time.Now().UTC()}
		var one Dropped
		err = each(longSQL(ctx), d.Conn, fmt.Sprintf("SELECT toString(tenant) AS owner, %s AS day, retention_days, count() FROM %s WHERE %s "+
			"GROUP BY owner, day, retention_days", t.DaySQL(), t.Name, n.Where),
			[]any{&one.Tenant, &one.Day, &one.RetentionDays, &one.Rows}, func() {
				n.Rows = append(n.Rows, one)
				rows += one.Rows
			})
		if err != nil {
			return 0, fmt.Errorf("count what is to be dropped: %w", err)
		}
		if rows == 0 {
			return 0, nil
		}
		body, err := json.Marshal(n)
		if err != nil {
			return 0, err
		}
		_, err = d.Streams.Marks.Create(ctx, dropKey, body)
		if broker.IsWrongSequence(err) { // another was faster
			rows = 0
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("note what is to be dropped: %w", err)
		}
		if err := d.Streams.Durable(ctx); err != nil {
			return 0, err
		}
		if err := d.step("noted"); err != nil {
			return rows, err
		}
		_, err = d.Finish(ctx)
		return rows, err
	}
}

// cutShort says that a drop was begun and is not finished, "" when none is. One that goes on just now is not, either.
func cutShort(ctx context.Context, s *broker.Streams) (string, error) {
	entry, err := s.Marks.Get(ctx, dropKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for a drop that was begun: %w", err)
	}
	var n note
	if err := json.Unmarshal(entry.Value(), &n); err != nil {
		return fmt.Sprintf("key %s in bucket %s holds something else (%v): see who wrote it, and delete it", dropKey, stream.MarksBucket,
			err), nil
	}
	return fmt.Sprintf("a drop of rows of %s was begun at %s and is not finished: \"warpline reject drop --resume\" finishes it", n.Table,
		n.At.UTC().Format(time.DateTime)), nil
}

// Finish carries out a drop that was begun and reports whether there was one.
func (d Dropper) Finish(ctx context.Context) (bool, error) {
	entry, err := d.Streams.Marks.Get(ctx, dropKey)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look for a drop that was begun: %w", err)
	}
	var n note
	if err := json.Unmarshal(entry.Value(), &n); err != nil {
		return false, fmt.Errorf("key %s in bucket %s holds something else (%w): see who wrote it, and delete it", dropKey,
			stream.MarksBucket, err)
	}
	if n.Table == table.Rejects.Name {
		if err := d.freeObjects(ctx, &n); err != nil {
			return false, err
		}
		if err := d.step("freed"); err != nil {
			return false, err
		}
	}
	if err := d.Conn.Exec(longSQL(ctx), fmt.Sprintf("ALTER TABLE %s DELETE WHERE %s SETTINGS mutations_sync = 2", name(n.Table),
		n.Where)); err != nil {
		return false, fmt.Errorf("drop rows of %s: %w", n.Table, err)
	}
	if err := d.step("deleted"); err != nil {
		return false, err
	}
	if err := d.book(ctx, &n); err != nil {
		return false, err
	}
	if err := d.step("booked"); err != nil {
		return false, err
	}
	err = d.Streams.Marks.Delete(ctx, dropKey, jetstream.LastRevision(entry.Revision()))
	if err != nil && !broker.IsWrongSequence(err) {
		return false, fmt.Errorf("remove the note of what was dropped: %w", err)
	}
	return true, nil
}

// book writes to the ledger what a drop took, unless it is there. The statement looks and writes, and two of one id cannot run at once.
func (d Dropper) book(ctx context.Context, n *note) error {
	about := table.Quote("drop " + n.ID)
	rows := make([]string, len(n.Rows))
	for i, r := range n.Rows {
		rows[i] = fmt.Sprintf("(%s, %d, %d, %d)", table.Quote(ownerOf(r.Tenant)), r.Day, r.RetentionDays, r.Rows)
	}
	sql := fmt.Sprintf("INSERT INTO ledger (lane, first, last, table, rows, token, attempt, inserted_at, day, retention_days, amount, "+
		"counted, owner, chunks) SELECT %d, 0, 0, %s, r.4, '%s', 0, fromUnixTimestamp64Nano(%d, 'UTC'), toDate(r.2), r.3, 0, 1, r.1, %s "+
		"FROM (SELECT arrayJoin([%s]) AS r) WHERE (SELECT count() FROM ledger WHERE lane = %[1]d AND chunks = %[5]s) = 0 "+
		"SETTINGS insert_deduplicate = 0",
		dropLane, table.Quote(n.Table), erasedToken, n.At.UnixNano(), about, strings.Join(rows, ", "))
	if err := alone(ctx, d.Conn, "drop-"+n.ID, sql); err != nil {
		return fmt.Errorf("write to the ledger what was dropped: %w", err)
	}
	return nil
}

// alone runs a statement under a query id, of which ClickHouse runs one at a time; it waits for another.
func alone(ctx context.Context, conn driver.Conn, id, sql string) error {
	for {
		err := conn.Exec(clickhouse.Context(longSQL(ctx), clickhouse.WithQueryID(id)), sql)
		if err == nil || reasonOf(err) != reasonRunning {
			return err
		}
		if !sleep(ctx, 200*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// passed selects the rows of chunks that the lanes have passed; "" when they have not passed any.
func (d Dropper) passed(ctx context.Context) (string, error) {
	in, err := Inserted(ctx, d.Streams)
	var or []string
	for p := range d.Streams.Partitions {
		if chunk := in[p].Chunk; chunk > 0 {
			or = append(or, fmt.Sprintf("rows_partition = %d AND chunk <= %d", p, chunk))
		}
	}
	return strings.Join(or, " OR "), err
}

func (d Dropper) step(step string) error {
	if d.Step == nil {
		return nil
	}
	return d.Step(step)
}

// Inserted says of each ROWS partition up to where it is in ClickHouse.
func Inserted(ctx context.Context, s *broker.Streams) (map[int]stream.Inserted, error) {
	all := map[int]stream.Inserted{}
	for lane := range s.Lanes {
		m, _, err := markOf(ctx, s, lane)
		if err != nil {
			return nil, err
		}
		for p, in := range m.Partitions {
			all[p] = in
		}
	}
	return all, nil
}

// markOf reads the mark of a lane; false when there is none, or something else under its key, which the audit tells.
func markOf(ctx context.Context, s *broker.Streams, lane int) (m mark, ok bool, err error) {
	entry, err := s.Marks.Get(ctx, markKey(lane))
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("read the mark of lane %d: %w", lane, err)
	}
	if json.Unmarshal(entry.Value(), &m) != nil {
		return mark{}, false, nil
	}
	return m, true, nil
}

package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Report is what Audit found.
type Report struct {
	Lanes   []LaneReport
	Tables  []TableReport
	Streams []StreamReport
	// Found is what the roles found while they ran, as far as nobody has accepted it yet.
	Found []broker.Finding `json:",omitempty"`
	// Notes say what is outside the proof and not an error of the present streams: an older stream that is gone.
	Notes []string `json:",omitempty"`
	// Windows are how far back streams can be replayed, of those that were ever cut.
	Windows []WindowReport `json:",omitempty"`
	// Unowned are messages that no worker or sink reads, since their subject is not of a partition.
	Unowned []broker.Unowned `json:",omitempty"`
	// CutShort is a drop that was begun and not finished, "" for none.
	CutShort string `json:",omitempty"`
	// Lost is what NATS was found to have lost in the last week and could not be restored.
	Lost []string `json:",omitempty"`
}

// LaneReport says whether the ledger of a lane covers the ROWS stream without gap or overlap.
type LaneReport struct {
	Lane        int
	Mark        uint64
	Ranges      uint64 // in the ledger, of the present stream
	First, Last uint64 // sequences that they cover
	Rows        uint64
	Problems    []string // empty when all is well
}

// WindowReport is a replay window. Where it is Short, nothing is wrong with what is stored, but less can be brought back than was promised.
type WindowReport struct {
	Stream            string
	Seconds, Promised float64
	Short             bool
	CutAt             time.Time
	Found, Fix        string
	// Broken says that less than half of what was promised is there, Accepted that a person has read that.
	Broken, Accepted bool `json:",omitempty"`
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return len(r.Problems()) == 0 }

// Problems lists what is wrong, in one line each.
func (r Report) Problems() (all []string) {
	all = append(all, r.Lost...)
	for _, l := range r.Lanes {
		for _, p := range l.Problems {
			all = append(all, fmt.Sprintf("lane %d: %s", l.Lane, p))
		}
	}
	for _, t := range r.Tables {
		for _, p := range t.Problems {
			all = append(all, fmt.Sprintf("table %s: %s", t.Table, p))
		}
	}
	for _, s := range r.Streams {
		for _, p := range s.Problems {
			all = append(all, fmt.Sprintf("stream %s: %s", s.Stream, p))
		}
	}
	for _, f := range r.Found {
		all = append(all, f.String())
	}
	if r.CutShort != "" {
		all = append(all, r.CutShort)
	}
	for _, u := range r.Unowned {
		all = append(all, fmt.Sprintf("stream %s: %d messages on %q, which nobody reads: see who published them, then purge that subject",
			u.Stream, u.Messages, u.Subject))
	}
	return all
}

// Audit proves from marks, ledger and tables that each range of each lane was inserted once. conn's database is Warpline's. It reads while
// the sink may be inserting: a table may then be ahead of its ledger by the span in flight, so audit a quiet system, or again when it says
// "more". Rows that expired, and ledger rows after their 90 days, make tables smaller than the ledger or the other way round; a ClickHouse
// partition is compared only while neither can have happened. It reads every message of every stream, which takes a second for each GB or
// so.
func Audit(ctx context.Context, s *broker.Streams, conn driver.Conn, schema *table.Schema) (Report, error) {
	var r Report
	info, err := s.Rows.Info(ctx)
	if err != nil {
		return r, fmt.Errorf("audit: state of ROWS: %w", err)
	}
	for n := range s.Lanes {
		l, err := auditLane(ctx, s, conn, n, info.Created)
		if err != nil {
			return r, fmt.Errorf("audit lane %d: %w", n, err)
		}
		r.Lanes = append(r.Lanes, l)
	}
	r.Tables, err = auditTables(ctx, conn, schema)
	if err != nil {
		return r, fmt.Errorf("audit tables: %w", err)
	}
	r.Streams, err = auditStreams(ctx, s)
	if err != nil {
		return r, fmt.Errorf("audit streams: %w", err)
	}
	r.Found, err = broker.Findings(ctx, s.Marks)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	older, err := olderLedger(ctx, conn, "ledger", info.Created.Unix())
	if err != nil {
		return r, fmt.Errorf("audit the ledger's age: %w", err)
	}
	if older != "" {
		r.Notes = append(r.Notes, older)
	}
	lost, mended, err := Losses(ctx, s.Marks)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	r.Lost, r.Notes = lost, append(r.Notes, mended...)
	windows, err := broker.ReadWindows(ctx, s.Marks)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	for _, w := range windows {
		now := time.Now()
		found, fix := w.Words(now)
		r.Windows = append(r.Windows, WindowReport{w.Stream, w.Length(now).Seconds(), w.Target, w.Short(now), w.Since, found, fix,
			w.Broken(now), w.Accepted})
	}
	if r.CutShort, err = cutShort(ctx, s); err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	r.Unowned, err = s.FindUnowned(ctx)
	if err != nil {
		return r, fmt.Errorf("audit: %w", err)
	}
	return r, nil
}

// ledgerDays is how long the ledger keeps its rows.
const ledgerDays = 90

// lostPast says what is missing when the ledger of a lane begins at sequence first (0: it is empty) and its mark is at mark, "" when
// nothing is. The ranges of a lane follow each other from sequence 1 of its stream on. So a ledger that begins later, before anything in it
// can have expired, is not the one in which the lane's past was written.
func lostPast(first, mark uint64, created time.Time) string {
	if mark == 0 || first == 1 || time.Since(created) > (ledgerDays-1)*24*time.Hour {
		return ""
	}
	what := fmt.Sprintf("the ledger begins at %d", first)
	if first == 0 {
		first, what = mark+1, "the ledger is empty"
	}
	return fmt.Sprintf("%s, and the mark says that chunks 1 to %d were inserted: this ClickHouse was emptied or replaced while NATS was "+
		"kept, and what those chunks held is not in it. "+
		"Put a backup of both back, or begin anew: stop, remove the data of NATS too (nats/), start and send again; with NATS as it is, what "+
		"is sent again is taken for a duplicate. If rows of the ledger alone were deleted: warpline replay --table ledger",
		what, first-1)
}

// olderLedger says that a ledger has rows from before the ROWS stream was made, "" when it has none. ledger is the table's name as SQL.
func olderLedger(ctx context.Context, conn driver.Conn, ledger string, created int64) (string, error) {
	var n uint64
	var last time.Time
	sql := fmt.Sprintf("SELECT count(), max(inserted_at) FROM %s WHERE inserted_at < fromUnixTimestamp(%d)", ledger, created)
	if err := conn.QueryRow(ctx, sql).Scan(&n, &last); err != nil || n == 0 {
		return "", err
	}
	return fmt.Sprintf("ClickHouse has rows of an older stream, inserted until %s; the present one was made at %s: the data of NATS (nats/) "+
		"was lost or replaced. "+
		"What that stream had accepted and not inserted is gone, and what is sent again from before counts again; to begin anew, remove the "+
		"data of ClickHouse too",
		last.UTC().Format("2006-01-02 15:04:05"), time.Unix(created, 0).UTC().Format("2006-01-02 15:04:05")), nil
}

func auditLane(ctx context.Context, s *broker.Streams, conn driver.Conn, n int, created time.Time) (LaneReport, error) {
	l := LaneReport{Lane: n}
	wrong := func(format string, args ...any) {
		if len(l.Problems) < 20 {
			l.Problems = append(l.Problems, fmt.Sprintf(format, args...))
		}
	}
	var m mark
	entry, err := s.Marks.Get(ctx, markKey(n))
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound):
	case err != nil:
		return l, fmt.Errorf("read the mark: %w", err)
	default:
		if err := json.Unmarshal(entry.Value(), &m); err != nil {
			wrong("its mark (key %s in bucket %s) cannot be read: %v: the sink that takes the lane next begins after the ledger's last row",
				markKey(n), stream.MarksBucket, err)
			m = mark{}
		}
	}
	own := m.StreamCreated == created.Unix()
	m.StreamCreated = created.Unix()
	l.Mark = m.Mark
	if own {
		if err := checkpoints(ctx, s, &m, wrong); err != nil {
			return l, err
		}
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT first, last, count(), uniqExact(table, day, retention_days), sum(rows) FROM ledger "+
		"WHERE lane = %d AND inserted_at >= fromUnixTimestamp64Nano(%d) AND token != '%s' GROUP BY first, last ORDER BY last, first", n,
		m.since(), erasedToken))
	if err != nil {
		return l, fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var first, last, count, distinct, inserted uint64
		if err := rows.Scan(&first, &last, &count, &distinct, &inserted); err != nil {
			return l, fmt.Errorf("read the ledger: %w", err)
		}
		switch {
		case l.Ranges == 0:
			l.First = first // see lostPast; later, older ranges may have expired
		case first <= l.Last:
			wrong("range %d to %d overlaps the one that ends at %d", first, last, l.Last)
		case first != l.Last+1:
			wrong("nothing covers %d to %d: warpline replay --table ledger", l.Last+1, first-1)
		}
		if count != distinct {
			wrong("range %d to %d is in the ledger twice", first, last)
		}
		l.Ranges++
		l.Last = max(l.Last, last)
		l.Rows += inserted
	}
	if err := rows.Err(); err != nil {
		return l, fmt.Errorf("read the ledger: %w", err)
	}
	first := l.First
	if l.Ranges == 0 {
		first = 0
	}
	if lost := lostPast(first, m.Mark, created); lost != "" {
		wrong("%s", lost)
	}
	begun := m.Pending != nil && m.Pending.Last == l.Last // ledger written, mark not yet moved
	if l.Ranges > 0 && l.Last != m.Mark && !begun {
		wrong("the ledger ends at %d and the mark is %d", l.Last, m.Mark)
	}
	return l, nil
}

// checkpoints compares the newest chunk of each ROWS partition with the newest one that was inserted: when the stream has lost its end, its
// newest is older.
func checkpoints(ctx context.Context, s *broker.Streams, m *mark, wrong func(string, ...any)) error {
	for _, p := range slices.Sorted(maps.Keys(m.Partitions)) {
		last, err := s.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(p))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			wrong("ROWS has lost the checkpoint of partition %d: chunk %d was inserted, and no message is there", p, m.Partitions[p].Chunk)
			continue
		}
		if err != nil {
			return fmt.Errorf("read the newest chunk of partition %d: %w", p, err)
		}
		c, _, _, err := stream.Tail{Partition: p}.Judge(last.Data)
		switch {
		case err != nil:
			wrong("the newest message of partition %d in ROWS, at %d, is not its checkpoint: %v", p, last.Sequence, err)
		case c.Number < m.Partitions[p].Chunk:
			wrong("ROWS has lost the end of partition %d: chunk %d was inserted, and its newest is %d", p, m.Partitions[p].Chunk, c.Number)
		}
	}
	return nil
}

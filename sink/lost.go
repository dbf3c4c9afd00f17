package sink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// # When ROWS loses messages
//
// Chunk numbers say what ClickHouse has, because they rise for ever: a lane that finds another stream, or one that ends before its mark,
// reads it from the first message on and passes over the chunks that are inserted. Its tokens are of a new generation, since ranges of
// sequences repeat.
//
// The partition's worker folds again what ROWS lost and ClickHouse does not have. Then what this lane has read of it must not be inserted:
//
//   - While the server runs, messages vanish only by a purge or with the stream, and the worker finds its checkpoint gone. Before it goes
//     on it writes into the mark which chunks are void; of that and the recording of a span, the one that comes second fails (see
//     marks.write; the worker waits for a span that is recorded).
//   - When the server dies and comes back with an older stream, the worker may find an intact one. The consumer that delivered the messages
//     is gone then, so the lane looks for the span once more after recording it and before its first insert (present).
//
// A span that was begun, whose messages are gone, and whose sink is gone too cannot be finished: some tables have it and some do not. Rows
// of tables that keep them one by one are deleted by their chunk number, and come anew. Aggregates have been merged with others, so that
// part of the span counts twice in the tables that had it; that is recorded.

var errForeign = errors.New("the ROWS stream has lost what was read of it")

// reach enters up to which chunk of each partition the span inserts.
func (s *span) reach(into map[int]stream.Inserted) {
	for i := range s.messages {
		if m := &s.messages[i]; !m.skip {
			in := m.chunk.InsertedUpTo(into[m.chunk.Partition])
			if len(m.chunk.Deletes) > 0 {
				in.Erased = m.seq
			}
			into[m.chunk.Partition] = in
		}
	}
}

// storedAt is when NATS stored the message at a sequence, ns since the epoch; 0 when there is none.
func (l *lane) storedAt(ctx context.Context, seq uint64) (int64, error) {
	msg, err := l.k.s.Rows.GetMsg(ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("ROWS message %d: %w", seq, err)
	}
	return msg.Time.UnixNano(), nil
}

// present makes sure that a recorded span may be inserted: ROWS still has its last message, and so all before it. If not, it removes the
// record and returns errForeign.
func (l *lane) present(ctx context.Context, last *message) error {
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	_, err := l.k.s.Rows.Consumer(ask, last.consumer)
	cancel()
	if err == nil {
		return nil // the consumer exists only in the memory of the server that delivered the messages
	}
	var at int64
	err = l.persist(ctx, "look for the span in ROWS", func(ctx context.Context) (err error) {
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		defer cancel()
		at, err = l.storedAt(ask, last.seq)
		return err
	})
	if err != nil {
		return err
	}
	if at == last.at {
		return nil
	}
	next := l.marks.mark.clone()
	next.Pending = nil
	if err := l.marks.write(ctx, next); err != nil {
		return err
	}
	return fmt.Errorf("%w: nothing or another message is at %d", errForeign, last.seq)
}

// lostSpan reports whether ROWS has lost the last message of a span that was begun.
func (l *lane) lostSpan(ctx context.Context, p *pending) (bool, error) {
	if p.Gone {
		return true, nil
	}
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	at, err := l.storedAt(ask, p.Last)
	return at == 0 || p.LastAt != 0 && at != p.LastAt, err
}

// abandon gives up a span that was begun and cannot be finished, so that what it held can come anew.
func (l *lane) abandon(ctx context.Context, p *pending) error {
	next := l.marks.mark.clone()
	whole := p.Inserted
	if !whole {
		err := l.persist(ctx, "look for the span in the ledger", func(ctx context.Context) (err error) {
			whole, err = l.booked(ctx, p)
			return err
		})
		if err != nil {
			return err
		}
	}
	var begun []chunkRange
	for partition := range l.k.s.Partitions {
		if stream.Lane(partition, l.k.s.Lanes) != l.n {
			continue
		}
		have, reach := next.Partitions[partition], p.Reaches[partition]
		if reach.Chunk <= have.Chunk && (whole || p.Reaches != nil) {
			continue // nothing of it was inserted; or an older version did not say, and a whole span does not need anything then
		}
		lost := stream.Loss{Partition: partition, From: have.Chunk + 1, To: reach.Chunk,
			Why: "a span was begun, and ROWS lost it before it was finished",
			Missing: "raw rows of them that had reached ClickHouse are removed and come anew as far as INGEST has their parts; in rollups and " +
				"usage some may count twice"}
		if whole { // all of it is in ClickHouse; what was to be deleted with it may not be
			lost.Missing = ""
			if p.Inserted {
				lost.Missing = "their rows are in ClickHouse; a deletion among them may not have been carried out: ask for it again"
			}
			reach.Used, reach.Void, reach.Erased = have.Used, have.Void, max(have.Erased, reach.Erased)
			have = reach
		} else {
			begun = append(begun, chunkRange{partition, have.Chunk + 1, reach.Chunk})
			have.Used = max(have.Used, reach.Chunk)
		}
		next.Partitions[partition] = have
		l.k.tell(lost, ".span")
	}
	if len(begun) > 0 {
		began := time.Now()
		if err := l.persist(ctx, "wait for inserts of the sink before", func(ctx context.Context) error {
			return l.k.awaitInserts(ctx, began)
		}); err != nil {
			return err
		}
		if err := l.persist(ctx, "remove rows of a span that cannot be finished", func(ctx context.Context) error {
			return l.k.deleteChunks(ctx, begun)
		}); err != nil {
			return err
		}
	}
	next.Pending = nil
	switch {
	case p.Gone: // the mark has a new generation already
	case whole:
		next.Mark, next.MarkAt = p.Last, p.LastAt
	default:
		next.Generation = broker.NewID()
	}
	return l.marks.write(ctx, next)
}

// scrub removes rows of chunks after the mark that an unknown span left: the lane's mark was lost, and with it the record of the span.
// These chunks are inserted under other tokens now.
func (l *lane) scrub(ctx context.Context) error {
	var begun []chunkRange
	for partition := range l.k.s.Partitions {
		if stream.Lane(partition, l.k.s.Lanes) != l.n {
			continue
		}
		err := l.persist(ctx, "look for chunks after the mark", func(ctx context.Context) error {
			ask, cancel := context.WithTimeout(ctx, natsTimeout)
			defer cancel()
			msg, err := l.k.s.Rows.GetMsg(ask, l.marks.mark.Mark+1, jetstream.WithGetMsgSubject(stream.RowsSubject(partition)))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("ROWS message after %d: %w", l.marks.mark.Mark, err)
			}
			if c, _, _, err := stream.ParseChunk(msg.Data); err == nil { // what is not a chunk was not inserted
				begun = append(begun, chunkRange{partition: partition, first: c.Number})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(begun) > 0 {
		began := time.Now()
		if err := l.persist(ctx, "wait for inserts of the sink before", func(ctx context.Context) error {
			return l.k.awaitInserts(ctx, began)
		}); err != nil {
			return err
		}
		if err := l.persist(ctx, "remove rows that are in no mark", func(ctx context.Context) error {
			return l.k.deleteChunks(ctx, begun)
		}); err != nil {
			return err
		}
	}
	next := l.marks.mark.clone()
	next.Fresh = false
	return l.marks.write(ctx, next)
}

// booked reports whether the ledger has the span: its rows are written once all of the span is inserted.
func (l *lane) booked(ctx context.Context, p *pending) (bool, error) {
	ask, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var n uint64
	sql := fmt.Sprintf("SELECT count() FROM %s.ledger WHERE lane = %d AND first = %d AND last = %d AND inserted_at >= "+
		"fromUnixTimestamp64Nano(%d)",
		name(l.k.cfg.Database), l.n, p.First, p.Last, p.StartedAt.UnixNano())
	if err := l.k.native.QueryRow(ask, sql).Scan(&n); err != nil {
		return false, fmt.Errorf("read the ledger: %w", err)
	}
	return n > 0, nil
}

// awaitInserts waits until no insert is running on this server that began before a time: a dead sink may have left one.
func (k *Sink) awaitInserts(ctx context.Context, before time.Time) error {
	for {
		var running uint64
		ask, cancel := context.WithTimeout(ctx, queryTimeout)
		err := k.native.QueryRow(ask, "SELECT count() FROM system.processes WHERE query_kind = 'Insert' AND elapsed > ?",
			time.Since(before).Seconds()).Scan(&running)
		cancel()
		if err != nil {
			return fmt.Errorf("look for inserts: %w", err)
		}
		if running == 0 {
			return nil
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
}

// chunkRange names chunks of a partition; with last 0 it has no end.
type chunkRange struct {
	partition   int
	first, last uint64
}

// deleteChunks deletes the rows of chunks from all tables that keep each row as it is. It returns nil when there are none left.
func (k *Sink) deleteChunks(ctx context.Context, ranges []chunkRange) error {
	var or []string
	for _, r := range ranges {
		where := fmt.Sprintf("rows_partition = %d AND chunk >= %d", r.partition, r.first)
		if r.last > 0 {
			where += fmt.Sprintf(" AND chunk <= %d", r.last)
		}
		or = append(or, "("+where+")")
	}
	where := strings.Join(or, " OR ")
	cluster := ""
	if k.cfg.Cluster != "" {
		cluster = " ON CLUSTER " + name(k.cfg.Cluster)
	}
	deadline := time.Now().Add(queryTimeout)
	for round := 0; ; round++ {
		if err := k.awaitMutations(ctx, deadline); err != nil {
			return err
		}
		left := 0
		for _, t := range k.cfg.Schema.Tables() {
			if t.Engine != "MergeTree" || t.Column("rows_partition") == nil || t.Column("chunk") == nil {
				continue
			}
			at := name(k.cfg.Database) + "." + name(t.Name)
			var rows uint64
			ask, cancel := context.WithTimeout(ctx, queryTimeout)
			err := k.native.QueryRow(ask, "SELECT count() FROM "+at+" WHERE "+where).Scan(&rows)
			if err == nil && rows > 0 {
				left++
				err = k.native.Exec(ask, "ALTER TABLE "+at+cluster+" DELETE WHERE "+where+" SETTINGS mutations_sync = 0")
			}
			cancel()
			if err != nil {
				return fmt.Errorf("delete chunks from %s: %w", t.Name, err)
			}
		}
		if left == 0 {
			return nil
		}
		if round > 5 {
			return errors.New("clickhouse says that it has deleted the rows, and still has them: was the mutation killed? see system.mutations")
		}
	}
}

// tell records a gap in ROWS.
func (l *lane) tell(loss stream.Loss) {
	loss.Missing = "their rows are not in ClickHouse"
	l.k.tell(loss, ".gap")
}

// tell records a loss; kind separates records of the same partition.
func (k *Sink) tell(loss stream.Loss, kind string) {
	loss.Stream, loss.At = stream.RowsStream, time.Now().UnixNano()
	k.log.Error("NATS has lost data: "+loss.String(), "stream", loss.Stream, "partition", loss.Partition, "from", loss.From, "to", loss.To)
	body, err := json.Marshal(loss)
	if err != nil {
		return
	}
	put, cancel := context.WithTimeout(context.Background(), natsTimeout)
	defer cancel()
	if _, err := k.s.Marks.Put(put, stream.LossKey(loss.Stream, loss.Partition)+kind, body); err != nil {
		k.log.Warn("the record of the loss could not be stored; the audit will not show it", "err", err)
	}
}

// lossShown is for how long a loss is a problem of the audit; then it is a note.
const lossShown = 7 * 24 * time.Hour

// Losses reads the records of what NATS was found to have lost, oldest first. problems are those of the last week that may have left
// something missing or counted twice; notes are the others.
func Losses(ctx context.Context, marks jetstream.KeyValue) (problems, notes []string, err error) {
	list, err := marks.ListKeysFiltered(ctx, stream.LossPrefix+">")
	if err != nil {
		return nil, nil, fmt.Errorf("list losses: %w", err)
	}
	defer list.Stop()
	var keys []string
	for key := range list.Keys() {
		keys = append(keys, key)
	}
	if err := ctx.Err(); err != nil { // then it is a part of them
		return nil, nil, fmt.Errorf("list losses: %w", err)
	}
	var all []stream.Loss
	for _, key := range keys {
		entry, err := marks.Get(ctx, key)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", key, err)
		}
		l, err := stream.ParseLoss(entry.Value())
		if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", key, err)
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b stream.Loss) int { return int(min(max(a.At-b.At, -1), 1)) })
	for _, l := range all {
		if l.Missing != "" && time.Since(time.Unix(0, l.At)) < lossShown {
			problems = append(problems, l.String())
		} else {
			notes = append(notes, l.String())
		}
	}
	return problems, notes, nil
}

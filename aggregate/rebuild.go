package aggregate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// ROWS is the log of what was folded, and the sink's mark says how much of it is in ClickHouse. When ROWS is shorter than that (removed,
// purged, an older copy put back), a partition goes on from the mark: parts up to there have their rows in the tables and only rebuild the
// state, later ones are folded for real. The new chunks begin a new count, with numbers above all that ClickHouse can have, after a
// snapshot of the state. The same is done when the log is there and the state that it builds on is not.
//
// The sink may hold chunks that ROWS has lost. It finishes those that it has recorded, and the owner waits for that. To keep it from
// recording others, the owner writes into the mark which numbers are void, by compare-and-set: of owner and sink, the second one sees what
// the first one wrote.

// lostState is an error that trying again does not solve: what the last chunk's state builds on is gone.
type lostState struct{ error }

// done is what the lane's mark says of the partition.
type done struct {
	stream.Inserted
	purged bool // ROWS has had messages that are gone, so a partition without messages may have had some
}

// laneMark is the part of a lane's mark that a worker reads. The sink writes it.
type laneMark struct {
	StreamCreated int64                   `json:"stream_created"`
	Partitions    map[int]stream.Inserted `json:"partitions"`
	Pending       *struct {
		Reaches map[int]stream.Inserted `json:"reaches"`
	} `json:"pending"`
}

// mark reads the lane's mark; revision is 0 when there is none.
func (o *owner) mark(ctx context.Context) (m laneMark, value []byte, revision uint64, err error) {
	key := stream.MarkKey(stream.Lane(o.partition, o.streams.Lanes))
	ask, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	entry, err := o.streams.Marks.Get(ask, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return m, nil, 0, nil
	}
	if err != nil {
		return m, nil, 0, fmt.Errorf("the sink's mark %s: %w", key, err)
	}
	if err := json.Unmarshal(entry.Value(), &m); err != nil {
		return m, nil, 0, fmt.Errorf("the sink's mark %s is unreadable: %w", key, err)
	}
	return m, entry.Value(), entry.Revision(), nil
}

// unsettled reports whether the sink has begun to insert chunks of the partition beyond number.
func (m *laneMark) unsettled(partition int, number uint64) bool {
	if m.Pending == nil {
		return false
	}
	if m.Pending.Reaches == nil {
		return number == 0 // of an older version, which does not say it
	}
	return m.Pending.Reaches[partition].Chunk > number
}

// inserted returns how far ClickHouse has the partition. While the sink is inserting chunks that ROWS has lost, it waits.
func (o *owner) inserted(ctx context.Context, head *stream.Chunk) (done, error) {
	number := uint64(0)
	if head != nil {
		number = head.Number
	}
	for {
		m, _, revision, err := o.mark(ctx)
		if err != nil {
			return done{}, err
		}
		if !m.unsettled(o.partition, number) {
			d := done{Inserted: m.Partitions[o.partition]}
			if head == nil && d.Inserted == (stream.Inserted{}) && revision > 0 {
				info, err := o.streams.Rows.Info(ctx)
				if err != nil {
					return d, fmt.Errorf("state of ROWS: %w", err)
				}
				d.purged = info.State.FirstSeq > 1 || info.State.NumDeleted > 0 || m.StreamCreated != info.Created.Unix()
			}
			return d, nil
		}
		o.retry("rows_lost", errors.New("ROWS has lost chunks that the sink has begun to insert: the partition goes on when it has ended "+
			"that; is a sink running, and ClickHouse reachable?"))
		if sleep(ctx, 200*time.Millisecond); ctx.Err() != nil {
			return done{}, ctx.Err()
		}
	}
}

// last returns the chunk to go on from, and whether ROWS is shorter than what ClickHouse has.
func (d *done) last(head *stream.Chunk) (before past, shorter bool) {
	if head != nil && head.Number >= d.Chunk && head.Number+1 >= d.Void {
		return past{number: head.Number, epoch: head.Epoch, position: stream.Point{Seq: head.Position, At: head.PositionAt},
			anchors: head.Anchors, createdAt: head.CreatedAt, flushed: head.Flushed, released: head.Released}, false
	}
	before = past{number: d.Chunk, epoch: d.Epoch, position: d.Position, createdAt: d.CreatedAt, flushed: d.Flushed,
		released: d.Released}
	if head != nil {
		before.epoch = max(before.epoch, head.Epoch)
		before.anchors = append([]stream.Point{{Seq: head.Position, At: head.PositionAt}}, head.Anchors...)
	}
	return before, head != nil || d.Chunk > 0 || d.Void > 0
}

// loss is what a takeover found: what it goes on from, and what is left.
type loss struct {
	before    past
	done      done
	last      *jetstream.RawStreamMsg // of ROWS, nil when it has none of the partition
	head      *stream.Chunk           // last's
	why       string
	shorter   bool // ROWS ends before what ClickHouse has: chunks after before are not to be inserted any more
	chainless bool // the state of last cannot be had from ROWS
}

// rebuild makes the state of the chunk l.before from what is left, and begins a new count of chunks.
func (o *owner) rebuild(ctx context.Context, l loss) error {
	before, d := l.before, l.done
	if before.number > 0 && before.position.Seq == 0 && before.createdAt == 0 {
		return fmt.Errorf("ROWS has lost the checkpoint of partition %d, and the sink's mark, of an older version, does not say how far "+
			"ClickHouse has it: "+
			"put a copy of ROWS back, or remove key %s from bucket %s to fold all that INGEST has once more", o.partition,
			stream.MarkKey(stream.Lane(o.partition, o.streams.Lanes)), stream.MarksBucket)
	}
	have, number, err := o.bestState(ctx, l)
	if err != nil {
		return err
	}
	told := stream.Loss{Stream: stream.RowsStream, Partition: o.partition, From: max(before.number, 1), To: max(before.number, d.Chunk,
		d.Used), Why: l.why}
	o.lastRows = 0
	if l.last != nil {
		o.lastRows = l.last.Sequence
		told.From, told.To = l.head.Number+1, max(told.To, l.head.Number)
		if l.chainless {
			told.From = l.head.Snapshot.Chunk + 1
		}
	}
	if whole, err := o.partsSince(ctx, have, before); err != nil {
		return err
	} else if !whole {
		told.Missing = "INGEST no longer has all parts since the newest state that is left: what is sent again of them may be counted twice"
	} else if !before.flushed {
		told.Missing = "rollups that waited for company then, of a few seconds, may count twice or not at all; rows are exact"
		if before.released.At == 0 { // an older version does not say it
			told.Missing += ", except those of kernels that waited for their details while the worker, or its clock, was seconds from NATS's"
		}
	}
	o.anchors, o.epoch = before.anchors, before.epoch+1
	if err := o.settle(ctx, before, have, number < before.number); err != nil {
		return err
	}
	o.passed.load(nil, max(o.position, before.position.Seq))
	o.base = max(told.To+1, d.Void, uint64(time.Now().UnixMilli()))
	o.number = o.base - 1
	if l.shorter || d.purged {
		if err := o.void(ctx, d); err != nil {
			return err
		}
	}
	o.lastPublished, o.lastPublishedAt = o.position, o.positionAt
	o.stateObjects, o.sinceChunks, o.sinceBytes = nil, 0, 0
	name := fmt.Sprintf("p%d-%d-%d", o.partition, o.epoch, o.number)
	if err := o.putSnapshot(ctx, name); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	o.snapshot = stream.Snapshot{Object: name, Chunk: o.number, Seq: o.lastRows}
	o.tell(ctx, told)
	return nil
}

// partsSince reports whether INGEST can still have all of the partition's parts between two positions: it has a part at or before the first
// of them, or has never deleted one.
func (o *owner) partsSince(ctx context.Context, have stream.Point, before past) (bool, error) {
	if have.Seq >= before.position.Seq {
		return true, nil
	}
	info, err := o.streams.Ingest.Info(ctx)
	if err != nil {
		return false, fmt.Errorf("state of INGEST: %w", err)
	}
	first, err := o.next(ctx, 1)
	if err != nil {
		return false, err
	}
	return info.State.FirstSeq <= 1 && info.State.NumDeleted == 0 || first != nil && first.Sequence <= have.Seq, nil
}

// ahead reports whether the state after a chunk knows parts whose rows ClickHouse will not get, because they were in chunks that are
// void by now: they would be dropped as seen. The number alone does not show it, since numbers grow with each loss while the position
// goes back.
func (l *loss) ahead(number uint64, at stream.Point) bool {
	return number > l.before.number || at.Seq > l.before.position.Seq && at.At > l.before.position.At
}

// bestState loads the newest state that is not ahead of l.before, and returns the position and the chunk that it belongs to.
func (o *owner) bestState(ctx context.Context, l loss) (stream.Point, uint64, error) {
	forget := func() {
		o.fold = newFold(&o.w.cfg, o.w.metrics)
		o.stateObjects, o.traces = nil, false
	}
	forget()
	if l.last != nil && !l.chainless && !l.ahead(l.head.Number, stream.Point{Seq: l.head.Position, At: l.head.PositionAt}) {
		// The log that is left is an older one, and perhaps whole.
		lost := new(lostState)
		err := o.recover(ctx, l.last)
		if err == nil {
			o.resume(l.head.Number == l.before.number, l.head.CreatedAt)
			return stream.Point{Seq: o.position, At: o.positionAt}, l.head.Number, nil
		} else if !errors.As(err, &lost) {
			return stream.Point{}, 0, err
		}
		forget()
	}
	list, err := listSnapshots(ctx, o.streams, o.partition)
	if err != nil {
		return stream.Point{}, 0, err
	}
	for _, s := range list {
		if s.at == 0 || l.ahead(s.number, s.position) {
			continue
		}
		if err := o.loadSnapshot(ctx, s.name); err != nil {
			if lost := new(lostState); !errors.As(err, &lost) {
				return stream.Point{}, 0, err
			}
			o.log.Warn("a snapshot cannot be used", "snapshot", s.name, "err", err)
			forget()
			continue
		}
		o.resume(s.number == l.before.number, s.at)
		return s.position, s.number, nil
	}
	return stream.Point{}, 0, nil
}

// resume makes what was loaded a state to go on from. If it is not the last one, parts are folded next that were folded before, and what
// waits goes on to wait by the clock of the owner that had it.
func (o *owner) resume(last bool, then int64) {
	now := int64(0)
	if last {
		now = o.clock().UnixNano()
	}
	o.fold.Resume(now, then, false)
}

// void tells the sink that chunks with numbers below the new count are not to be inserted, unless they are already.
func (o *owner) void(ctx context.Context, d done) error {
	for {
		m, value, revision, err := o.mark(ctx)
		if err != nil || revision == 0 {
			return err
		}
		if m.Partitions[o.partition].Chunk != d.Chunk || m.unsettled(o.partition, d.Chunk) {
			return errors.New("the sink has come further meanwhile") // from the beginning, then
		}
		var whole, parts map[string]json.RawMessage
		if err := json.Unmarshal(value, &whole); err != nil {
			return fmt.Errorf("the sink's mark: %w", err)
		}
		if p := whole["partitions"]; len(p) > 0 {
			if err := json.Unmarshal(p, &parts); err != nil {
				return fmt.Errorf("the sink's mark: %w", err)
			}
		}
		if parts == nil {
			parts = map[string]json.RawMessage{}
		}
		mine := d.Inserted
		mine.Void = o.base
		parts[strconv.Itoa(o.partition)], err = json.Marshal(mine)
		if err != nil {
			return fmt.Errorf("the sink's mark: %w", err)
		}
		whole["partitions"], err = json.Marshal(parts)
		if err != nil {
			return fmt.Errorf("the sink's mark: %w", err)
		}
		body, err := json.Marshal(whole)
		if err != nil {
			return fmt.Errorf("the sink's mark: %w", err)
		}
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		_, err = o.streams.Marks.Update(try, stream.MarkKey(stream.Lane(o.partition, o.streams.Lanes)), body, revision)
		cancel()
		if err == nil || !broker.IsWrongSequence(err) {
			return err
		}
	}
}

// stored is a snapshot in the object store.
type storedSnapshot struct {
	name     string
	epoch    uint64
	number   uint64 // of the chunk after which it was made
	position stream.Point
	at       int64 // when it was made, ns; 0 when it is of an older version and does not say what it belongs to
}

// Keys of a snapshot's metadata, by which it can be used without the chunk that points to it.
const (
	metaPosition, metaPositionAt, metaAt = "position", "position-at", "at"
)

// putSnapshot stores the whole state.
func (o *owner) putSnapshot(ctx context.Context, name string) error {
	state := s2.Encode(nil, o.fold.AppendState(nil, true))
	try, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	err := o.storeSnapshot(try, jetstream.ObjectMeta{Name: name, Metadata: map[string]string{
		metaPosition: strconv.FormatUint(o.lastPublished, 10), metaPositionAt: strconv.FormatInt(o.lastPublishedAt, 10),
		metaAt: strconv.FormatInt(time.Now().UnixNano(), 10),
	}}, state)
	if err == nil {
		o.w.metrics.snapshots.Inc()
	}
	return err
}

// loadSnapshot applies a snapshot to an empty fold.
func (o *owner) loadSnapshot(ctx context.Context, name string) error {
	state, err := o.snapshotBytes(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrDigestMismatch):
		return &lostState{fmt.Errorf("snapshot %s: %w", name, err)}
	case err != nil:
		return fmt.Errorf("snapshot %s: %w", name, err)
	}
	plain, err := s2.Decode(nil, state)
	if err != nil {
		return &lostState{fmt.Errorf("snapshot %s: %w", name, err)}
	}
	if err := o.fold.ApplyState(plain); err != nil {
		return fmt.Errorf("snapshot %s: %w", name, err)
	}
	return nil
}

// listSnapshots lists those of a partition, newest first.
func listSnapshots(ctx context.Context, s *broker.Streams, partition int) (out []storedSnapshot, err error) {
	list, err := s.State.List(ctx)
	if errors.Is(err, jetstream.ErrNoObjectsFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	for _, info := range list {
		x := storedSnapshot{name: info.Name}
		var p int
		_, err := fmt.Sscanf(info.Name, "p%d-%d-%d", &p, &x.epoch, &x.number)
		if err != nil || p != partition {
			continue
		}
		x.position.Seq, _ = strconv.ParseUint(info.Metadata[metaPosition], 10, 64)
		x.position.At, _ = strconv.ParseInt(info.Metadata[metaPositionAt], 10, 64)
		x.at, _ = strconv.ParseInt(info.Metadata[metaAt], 10, 64)
		out = append(out, x)
	}
	slices.SortFunc(out, func(a, b storedSnapshot) int {
		return cmp.Or(cmp.Compare(b.number, a.number), cmp.Compare(b.epoch, a.epoch))
	})
	return out, nil
}

// oldSnapshot is one that no chunk needs any more. ClickHouse may be behind it, and if ROWS were lost now, it would be needed.
type oldSnapshot struct {
	name  string
	chunk uint64
}

// dropSnapshots deletes old snapshots, except the newest one of which the sink has inserted everything before it.
func (o *owner) dropSnapshots(ctx context.Context) {
	if o.pointed != o.snapshot.Object { // the log still needs the one before
		return
	}
	if len(o.oldSnapshots) == 0 || time.Since(o.lastMark) < time.Second {
		return
	}
	o.lastMark = time.Now()
	m, _, _, err := o.mark(ctx)
	if err != nil {
		return
	}
	inserted := m.Partitions[o.partition].Chunk
	needed := -1
	if o.snapshot.Chunk > inserted {
		for i, s := range o.oldSnapshots {
			if s.chunk <= inserted {
				needed = i
			}
		}
	}
	var left []oldSnapshot
	for i, s := range o.oldSnapshots {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		if i == needed {
			left = append(left, s)
		} else if err := o.deleteSnapshot(try, s.name); err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			o.log.Debug("delete a snapshot", "snapshot", s.name, "err", err) // the next owner's sweep finds it
		}
		cancel()
	}
	o.oldSnapshots = left
}

// needed returns the snapshot, other than those that are kept anyway, from which the partition would have to go on if ROWS were lost now.
func (l leftovers) needed(ctx context.Context, s *broker.Streams) string {
	list, err := listSnapshots(ctx, s, l.partition)
	if err != nil {
		return ""
	}
	for _, x := range list {
		if x.number <= l.inserted {
			if slices.Contains(l.keep, x.name) {
				return ""
			}
			return x.name
		}
	}
	return ""
}

// dropWhenInserted deletes a snapshot once the sink has come to the newer one that is kept.
func (l leftovers) dropWhenInserted(ctx context.Context, s *broker.Streams, name string) {
	list, err := listSnapshots(ctx, s, l.partition)
	if err != nil {
		return
	}
	at := slices.IndexFunc(list, func(x storedSnapshot) bool { return x.name == name })
	if at <= 0 {
		return
	}
	newer := list[at-1].number
	o := &owner{streams: s, partition: l.partition}
	for ctx.Err() == nil {
		if m, _, _, err := o.mark(ctx); err == nil && m.Partitions[l.partition].Chunk >= newer {
			o.deleteSnapshot(ctx, name)
			return
		}
		sleep(ctx, 3*time.Second)
	}
}

// otherKey returns another key for dictionary entries when those of another part are under key. It returns key when they are the same, or
// cannot be compared.
func (o *owner) otherKey(ctx context.Context, key string, value []byte) string {
	entry, err := o.streams.Dictionaries.Get(ctx, key)
	if err != nil || bytes.Equal(entry.Value(), value) {
		return key
	}
	return fmt.Sprintf("%s-%x", key, xxh3.Hash(value))
}

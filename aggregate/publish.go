package aggregate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// publish closes the open chunk and publishes it. It returns when the chunk is stored; errFenced when another owner was faster.
// On any error the owner must stop: what it holds is ahead of the log.
func (o *owner) publish(ctx context.Context) error {
	f := o.fold
	if err := o.storeNames(ctx); err != nil {
		return err
	}
	f.Flush(o.clock().UnixNano())
	o.number++
	rows, body, err := f.Out.Encode(rows.Tails{Partition: uint16(o.partition), Chunk: o.number})
	if err != nil {
		return err
	}
	if columns := f.Out.NewlyMended(); columns != nil {
		o.log.Error("rows lacked a value in some columns, which are written empty: this is a bug of Warpline, please report it", "columns",
			columns)
	}
	c := stream.Chunk{
		Partition: o.partition, Number: o.number, Base: o.base, Epoch: o.epoch, Nonce: o.nonce, After: o.lastRows + 1, Position: o.position,
		PositionAt: o.positionAt,
		Anchors:    o.anchors, Lost: o.lost, CreatedAt: o.clock().UnixNano(), Flushed: len(f.held) == 0, Released: o.waits.released,
		OldestReceivedAt: f.Out.Oldest,
		Snapshot:         o.snapshot, Tables: rows, Deletes: f.deletes,
		Verdicts: o.verdicts.publish(time.Now().UnixNano()), Passed: o.passed.publish(time.Now(), o.position),
	}
	o.describe(&c)
	msg, err := o.message(ctx, &c, f.AppendState(nil, false), body)
	if err != nil {
		return err
	}
	if err := o.append(ctx, msg, c.Number); err != nil {
		return err
	}
	o.stored(&c, len(msg))
	o.dropObjects(ctx)
	if err := o.clean(ctx, &c); err != nil {
		return err
	}
	if o.snapshotDue() {
		return o.writeSnapshot(ctx)
	}
	return nil
}

// Flush turns those accumulators of the touched sessions into rows that need not be held any longer.
func (f *Fold) Flush(now int64) {
	f.hold = f.holdFor(len(f.touched))
	rush := f.rush || f.leaving || f.HeldAccs > maxHeldAccs
	if rush {
		for s := range f.held {
			f.Touch(s)
		}
	}
	for _, s := range f.touched {
		all := rush && !s.awaitsNames() || f.ripe(s, now, f.hold)
		for _, st := range s.states {
			if st != nil {
				st.Flush(all)
			}
		}
		if all {
			f.flushSession(s)
			s.heldSince = 0
			delete(f.held, s)
		} else if s.heldSince == 0 {
			s.heldSince = now
			f.held[s] = struct{}{}
		}
		f.chargePending(s)
	}
	_, bytes := f.Out.Size()
	f.flushUsage(bytes)
}

// stored does the bookkeeping of a published chunk.
func (o *owner) stored(c *stream.Chunk, size int) {
	m := o.w.metrics
	m.chunks.Inc()
	m.chunkBytes.Add(float64(size))
	for _, r := range c.Tables {
		m.rows.WithLabelValues(r.Table).Add(float64(r.Rows))
	}
	for table, n := range o.fold.Out.MendedRows() {
		m.mended.WithLabelValues(table).Add(float64(n))
	}
	if c.OldestReceivedAt > 0 {
		m.lag.Observe(time.Since(time.Unix(0, c.OldestReceivedAt)).Seconds())
	}
	o.fold.Published()
	o.fold.Out.Reset()
	o.fold.OutSerial++
	if c.StateObject != "" {
		o.stateObjects = append(o.stateObjects, c.StateObject)
	}
	o.opened = time.Time{}
	o.pointed = c.Snapshot.Object
	o.w.publishedUpTo(o.partition, c.Number)
	o.w.holding.published(o.partition, c.Number, int64(size), o.fold.Out.Given())
	o.w.tells(c)
	o.lastPublished, o.lastPublishedAt, o.lastHead = c.Position, c.PositionAt, *c
	o.anchors = anchor(o.anchors, stream.Point{Seq: c.Position, At: c.PositionAt})
	if o.lost != nil && c.Position >= o.lost.To {
		o.lost = nil
	}
	o.sinceChunks++
	o.sinceBytes += size
	if n := len(o.checkpoints); n == 0 || time.Since(o.checkpoints[n-1].at) > time.Minute {
		o.checkpoints = append(o.checkpoints, checkpoint{time.Now(), c.Position})
	}
	o.well()
}

// message encodes the chunk; a body that does not fit a message goes to the object store, and so does a state that still does not.
func (o *owner) message(ctx context.Context, c *stream.Chunk, state, body []byte) ([]byte, error) {
	msg, err := stream.AppendChunk(nil, c, state, body)
	if err != nil || len(msg) <= stream.MaxChunkMessage {
		return msg, err
	}
	packed, err := stream.PackBody(nil, c, body)
	if err != nil {
		return nil, err
	}
	c.Object = o.objectName(c, "rows")
	if err := o.putObject(ctx, c.Object, packed); err != nil {
		return nil, err
	}
	msg, err = stream.AppendChunk(nil, c, state, nil)
	if err != nil || len(msg) <= stream.MaxChunkMessage {
		return msg, err
	}
	c.StateObject = o.objectName(c, "state")
	if err := o.putObject(ctx, c.StateObject, s2.Encode(nil, state)); err != nil {
		return nil, err
	}
	return stream.AppendChunk(nil, c, nil, nil)
}

// objectName is new for every chunk that an owner tries to publish, so nothing that the log may point to is ever overwritten.
func (o *owner) objectName(c *stream.Chunk, what string) string {
	return fmt.Sprintf("p%d-%d-%d-%s-%s", o.partition, c.Epoch, c.Number, c.Nonce, what)
}

func (o *owner) putObject(ctx context.Context, name string, data []byte) error {
	for {
		try, cancel := context.WithTimeout(ctx, 60*time.Second)
		_, err := o.streams.Chunks.PutBytes(try, name, data)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("store %s: %w", name, err)
		}
		o.retry("object", err)
		sleep(ctx, 500*time.Millisecond)
	}
}

// append publishes msg as the next message of the partition's subject, and finds out what happened when the answer is lost.
func (o *owner) append(ctx context.Context, data []byte, number uint64) error {
	subject := stream.RowsSubject(o.partition)
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		ack, err := o.streams.JS.PublishMsg(try, &nats.Msg{Subject: subject, Data: data},
			jetstream.WithExpectLastSequencePerSubject(o.lastRows), jetstream.WithRetryAttempts(0))
		cancel()
		if err == nil {
			o.lastRows = ack.Sequence
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if broker.IsFull(err) {
			o.retry("rows_full", errors.New("ROWS is full: is the sink running, and ClickHouse reachable?"))
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		done, err := o.resolve(ctx, err, number)
		if done || err != nil {
			return err
		}
	}
}

// resolve reads the subject's last message after an uncertain publish: ours (done), the one before (try again), or another's.
func (o *owner) resolve(ctx context.Context, cause error, number uint64) (done bool, err error) {
	for {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		last, err := o.streams.Rows.GetLastMsgForSubject(try, stream.RowsSubject(o.partition))
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			if o.lastRows == 0 {
				sleep(ctx, 100*time.Millisecond)
				return false, nil
			}
			o.tell(ctx, stream.Loss{Stream: stream.RowsStream, Partition: o.partition, From: o.base, To: number - 1, Why: "the subject was emptied"})
			return false, fmt.Errorf("ROWS has lost the checkpoint of partition %d (sequence %d): %w", o.partition, o.lastRows, cause)
		case err != nil:
			if ctx.Err() != nil {
				return false, ctx.Err()
			}
			o.retry("timeout", cause)
			sleep(ctx, 200*time.Millisecond)
			continue
		}
		if last.Sequence == o.lastRows {
			o.retry("timeout", cause)
			sleep(ctx, 50*time.Millisecond)
			return false, nil
		}
		c, _, _, err := stream.Tail{Partition: o.partition}.Judge(last.Data)
		if err == nil && c.Nonce == o.nonce && c.Number == number {
			o.lastRows = last.Sequence
			return true, nil
		}
		if last.Sequence < o.lastRows && err == nil {
			o.tell(ctx, stream.Loss{Stream: stream.RowsStream, Partition: o.partition, From: c.Number + 1, To: number - 1,
				Why: fmt.Sprintf("the subject ended at %d and ends at %d", o.lastRows, last.Sequence)})
			return false, fmt.Errorf("ROWS has lost its end: %w", cause)
		}
		if err == nil {
			err = o.behind(&c)
		}
		if errors.Is(err, stream.ErrForeign) {
			if err := o.setAside(ctx, last, err); err != nil && ctx.Err() != nil {
				return false, ctx.Err()
			}
			return false, nil
		}
		o.w.metrics.fenced.Inc()
		return false, errFenced
	}
}

// storeNames writes the open chunk's dictionary entries. Entries that are there already were written by an owner that died before its
// chunk: the same part gave the same names.
func (o *owner) storeNames(ctx context.Context) error {
	for i := range o.fold.names {
		b := &o.fold.names[i]
		base := stream.DictionaryKey(b.session.Key.Tenant, b.session.token, b.seq)
		for n, value := range b.encode(&o.fold.section) {
			key := base + "-" + strconv.Itoa(n)
			for {
				try, cancel := context.WithTimeout(ctx, 10*time.Second)
				_, err := o.streams.Dictionaries.Create(try, key, value)
				if errors.Is(err, jetstream.ErrKeyExists) {
					other := o.otherKey(try, key, value)
					if other != key { // of a part that had this sequence before INGEST lost it
						key = other
						cancel()
						continue
					}
				}
				cancel()
				if err == nil {
					o.w.holding.named(b.session.Key.Tenant, len(key)+len(value), o.clock())
					break
				}
				if errors.Is(err, jetstream.ErrKeyExists) {
					break
				}
				if broker.IsFull(err) {
					// The names are rows of `dictionaries` in this very chunk: a successor reads them there. Other sessions must not wait
					// for this.
					o.w.metrics.retries.WithLabelValues("dictionary_full").Inc()
					break
				}
				if ctx.Err() != nil {
					return fmt.Errorf("store dictionary: %w", err)
				}
				o.retry("dictionary", err)
				sleep(ctx, 200*time.Millisecond)
			}
		}
	}
	return nil
}

// writeSnapshot stores the whole state as it is after the last published chunk; the next chunk points to it. Epoch and chunk number are in
// the name: the snapshot that the log points to is never overwritten, not even by a fenced owner.
func (o *owner) writeSnapshot(ctx context.Context) error {
	if time.Now().Before(o.nextSnapshot) {
		return nil
	}
	name := fmt.Sprintf("p%d-%d-%d", o.partition, o.epoch, o.number)
	if err := o.putSnapshot(ctx, name); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return nil // the log is only longer than it should be: try again later
	}
	old := o.snapshot
	o.snapshot = stream.Snapshot{Object: name, Chunk: o.number, Seq: o.lastRows}
	o.snapshotNow, o.sinceChunks, o.sinceBytes = false, 0, 0
	if old.Object != "" {
		o.oldSnapshots = append(o.oldSnapshots, oldSnapshot{old.Object, old.Chunk})
	}
	o.oldStates, o.stateObjects = append(o.oldStates, o.stateObjects...), nil
	return nil
}

// dropObjects deletes what no chunk points to any more, once the chunk with the newer snapshot is stored, and the giant parts that are
// folded. What cannot be deleted now is deleted by the next owner's sweep, or expires.
func (o *owner) dropObjects(ctx context.Context) {
	if len(o.oldSnapshots)+len(o.oldStates)+len(o.foldedParts)+len(o.keptParts) == 0 {
		return
	}
	if err := o.streams.Durable(ctx); err != nil { // the chunk that does not need them any more could still be lost in a power cut
		o.retry("object", err)
		return
	}
	drop := func(remove func(context.Context, string) error, names *[]string) {
		for _, name := range *names {
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			remove(try, name)
			cancel()
		}
		*names = (*names)[:0]
	}
	o.dropSnapshots(ctx)
	drop(o.deleteChunk, &o.oldStates)
	drop(o.deletePart, &o.foldedParts)
	o.markKept(ctx)
}

package aggregate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// takeOver rebuilds the state that the partition's last chunk left, and claims the partition by publishing an empty chunk: from
// then on an earlier owner that still believes in its lease fails at its next publish.
func (o *owner) takeOver(ctx context.Context) error {
	sweep, err := o.goOn(ctx)
	if err != nil {
		return err
	}
	o.w.metrics.takeovers.Inc()
	sweep.keep = append(slices.Clone(o.stateObjects), o.snapshot.Object)
	o.opened = time.Now()
	if err := o.publish(ctx); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	go sweep.sweep(ctx, o.streams)
	o.log.Debug("partition taken over", "epoch", o.epoch, "position", o.position, "chunk", o.number, "sessions", len(o.fold.Sessions))
	return nil
}

// goOn rebuilds the state to go on from: that of the partition's last chunk in ROWS or, when ROWS has lost it, that of the newest chunk
// that the sink has inserted.
func (o *owner) goOn(ctx context.Context) (leftovers, error) {
	last, head, err := o.lastChunk(ctx)
	if err != nil {
		return leftovers{}, err
	}
	done, err := o.inserted(ctx, head)
	if err != nil {
		return leftovers{}, err
	}
	before, shorter := done.last(head)
	sweep := leftovers{partition: o.partition, published: before.number, inserted: done.Chunk}
	switch {
	case head == nil && before.number == 0 && !done.purged: // the first owner ever
		o.epoch, o.base = 1, uint64(time.Now().UnixMilli())
		o.number = o.base - 1
		before.released = stream.Released{At: 1, Stored: 1} // nothing was
	case head != nil && !shorter && head.Number+1 > done.Used:
		o.shrunk(ctx, head)
		err := o.recover(ctx, last)
		if lost := new(lostState); errors.As(err, &lost) {
			now, _, again := o.lastChunk(ctx)
			if again != nil || now == nil || now.Sequence != last.Sequence {
				return sweep, errors.Join(errors.New("another owner published meanwhile"), again) // and deleted what the chunk needed
			}
			err = o.rebuild(ctx, loss{before: before, done: done, last: last, head: head, why: lost.Error(), chainless: true})
		} else if err == nil {
			o.resume(true, head.CreatedAt)
			err = o.settle(ctx, before, before.position, false)
		}
		if err != nil {
			return sweep, err
		}
	default:
		if err := o.rebuild(ctx, loss{before: before, done: done, last: last, head: head, why: "ROWS is shorter than what ClickHouse has",
			shorter: shorter}); err != nil {
			return sweep, err
		}
	}
	o.lastPublished, o.lastPublishedAt = o.position, o.positionAt
	o.waits.begin(before.released, stream.Point{Seq: o.position, At: before.position.At}, o.clock())
	sweep.epoch = o.epoch
	return sweep, nil
}

// lastChunk returns the newest message of the partition's subject and its header, nil when there is none.
func (o *owner) lastChunk(ctx context.Context) (*jetstream.RawStreamMsg, *stream.Chunk, error) {
	last, err := o.newest(ctx)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	head, _, _, err := stream.ParseChunk(last.Data)
	if err != nil {
		return nil, nil, err
	}
	return last, &head, nil
}

func (o *owner) recover(ctx context.Context, last *jetstream.RawStreamMsg) error {
	head, _, _, err := stream.ParseChunk(last.Data)
	if err != nil {
		return err
	}
	o.writer = head.Writer
	if head.Snapshot.Object != "" {
		if err := o.loadSnapshot(ctx, head.Snapshot.Object); err != nil {
			return err
		}
	}
	next, expect := head.Snapshot.Seq+1, max(head.Snapshot.Chunk+1, head.Base)
	for next <= last.Sequence {
		msg, err := o.streams.Rows.GetMsg(ctx, next, jetstream.WithGetMsgSubject(stream.RowsSubject(o.partition)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return &lostState{fmt.Errorf("ROWS has no chunk from %d on, and had", next)}
		}
		if err != nil {
			return fmt.Errorf("chunk after %d: %w", next-1, err)
		}
		c, section, _, err := stream.Tail{Partition: o.partition, Number: expect - 1}.Judge(msg.Data)
		if errors.Is(err, stream.ErrPassed) {
			err = cmp.Or(o.streams.Copied(ctx, &c, msg.Sequence), err)
		}
		if errors.Is(err, stream.ErrForeign) && msg.Sequence != last.Sequence {
			if err := o.setAside(ctx, msg, err); err != nil {
				return err
			}
			next = msg.Sequence + 1
			continue
		}
		if err != nil {
			return fmt.Errorf("chunk at %d: %w", msg.Sequence, err)
		}
		if c.Number != expect {
			return &lostState{fmt.Errorf("chunk %d is missing from ROWS (found %d at %d)", expect, c.Number, msg.Sequence)}
		}
		if c.StateObject != "" {
			section, err = o.streams.Chunks.GetBytes(ctx, c.StateObject)
			if errors.Is(err, jetstream.ErrObjectNotFound) {
				return &lostState{fmt.Errorf("the state of chunk %d is gone", c.Number)}
			} else if err != nil {
				return fmt.Errorf("state of chunk %d: %w", c.Number, err)
			}
			o.stateObjects = append(o.stateObjects, c.StateObject)
		}
		state, err := stream.DecodeSection(nil, section)
		if err != nil {
			return fmt.Errorf("chunk %d: %w", c.Number, err)
		}
		if err := o.fold.ApplyState(state); err != nil {
			return fmt.Errorf("chunk %d: %w", c.Number, err)
		}
		o.traces = o.traces || len(c.Deletes) > 0
		o.sinceChunks++
		o.sinceBytes += len(msg.Data)
		next, expect = msg.Sequence+1, expect+1
	}
	o.resumeTrial(ctx, &head)
	o.epoch, o.position, o.positionAt, o.base, o.number, o.lastRows, o.snapshot = head.Epoch+1, head.Position, head.PositionAt, head.Base,
		head.Number, last.Sequence, head.Snapshot
	o.anchors, o.lost = head.Anchors, head.Lost
	o.passed.load(head.Passed, head.Position)
	o.verdicts.load(head.Verdicts)
	return nil
}

// loadNames loads a session's dictionary when this owner does not have it: after a takeover, or after a long silence. After an error the
// names are still to be loaded.
func (o *owner) loadNames(ctx context.Context, s *Session) error {
	if s.dictsLoaded {
		return nil
	}
	accepted := s.names
	s.names = s.known()
	learn := func(ref NameRef, text string) {
		if s.HasName(ref) {
			return
		}
		s.learn(ref, text)
		if !o.replaying { // what a replay writes is dropped, so quiet.end writes it
			o.fold.nameUsed(s, ref, text)
		}
	}
	if accepted > s.names {
		if err := o.readEntries(ctx, s, learn); err != nil {
			s.names = accepted
			return fmt.Errorf("dictionary of a session: %w", err)
		}
		if s.names < accepted && o.w.cfg.LoadNames != nil {
			err := o.w.cfg.LoadNames(ctx, s.Key.Tenant, s.Key.ID, func(dict string, id uint32, value string) {
				if d, ok := gpuflight.DictOf(dict); ok {
					learn(NameRef{d, id}, value)
				}
			})
			if err != nil {
				o.retry("dictionary", err) // folding goes on: see missing.go
			}
		}
	}
	o.fold.missNames(s, accepted-s.names, o.clock())
	s.names = max(s.names, accepted)
	s.dictsLoaded = true
	return nil
}

// readEntries reads the session's dictionary entries up to the position: later ones belong to parts that are folded again. Where INGEST has
// lost parts that were folded, their entries count too; entries that were stored since belong to parts that have the lost ones' sequences
// now.
func (o *owner) readEntries(ctx context.Context, s *Session, learn func(NameRef, string)) error {
	return o.streams.Scan(ctx, o.streams.Dictionaries, stream.DictionaryFilter(s.Key.Tenant, s.token), func(e broker.Entry) error {
		seq, _, _ := strings.Cut(e.Key[strings.LastIndexByte(e.Key, '.')+1:], "-")
		n, err := strconv.ParseUint(seq, 10, 64)
		if err != nil || n > o.position && !(o.lost != nil && n <= o.lost.To && e.Created.UnixNano() < o.lost.At) {
			return nil
		}
		if err := decodeNames(e.Value, learn); err != nil {
			// The names are rows of `dictionaries` too, so folding need not stop for something else under the key.
			o.w.metrics.retries.WithLabelValues("dictionary_bad").Inc()
			o.log.Error("a dictionary block cannot be read and is passed over; its names are taken from the table dictionaries", "key", e.Key,
				"err", err)
		}
		return nil
	})
}

// leftovers are objects that earlier owners of a partition stored for chunks that were never published, or snapshots to which no chunk
// points. Their names contain the epoch; an owner of an earlier epoch cannot publish after a claim.
type leftovers struct {
	partition int
	epoch     uint64 // of the owner that sweeps
	published uint64 // the last chunk before its claim that counts
	inserted  uint64 // the last chunk that the sink has inserted
	keep      []string
}

// sweep deletes them. It runs at the same time as the owner and does not touch objects of the owner's epoch.
func (l leftovers) sweep(ctx context.Context, s *broker.Streams) {
	if s.Durable(ctx) != nil { // the chunks that do not point to them any more could still be lost in a power cut: the next owner sweeps
		return
	}
	if needed := l.needed(ctx, s); needed != "" {
		l.keep = append(l.keep, needed)
		defer l.dropWhenInserted(ctx, s, needed)
	}
	for _, store := range []jetstream.ObjectStore{s.State, s.Chunks} {
		list, err := store.List(ctx)
		if err != nil {
			continue // there are none, or the store does not answer: the next owner sweeps again
		}
		for _, info := range list {
			var p int
			var epoch, number uint64
			_, err := fmt.Sscanf(info.Name, "p%d-%d-%d", &p, &epoch, &number)
			if err != nil || p != l.partition || epoch >= l.epoch || slices.Contains(l.keep, info.Name) {
				continue
			}
			if strings.HasSuffix(info.Name, "-rows") && number <= l.published {
				continue // rows of a published chunk: the sink's to delete
			}
			broker.DeleteObject(ctx, s.JS, store, info.Name)
		}
	}
}

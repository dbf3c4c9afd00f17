package sink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/semaphore"

	"github.com/warpline/warpline/proto/stream"
)

// message is one chunk as it is in ROWS.
type message struct {
	seq   uint64
	chunk stream.Chunk
	body  []byte // compressed; empty when the chunk has none or it is in the object store
	size  int64  // as counted by the feed's budget
	more  bool   // the lane has more messages in the stream than this one
	// skip says that ClickHouse has the chunk, or must not get it: it counts as passed, and chunk holds only the partition.
	skip     bool
	at       int64  // when NATS stored it, ns since the epoch
	consumer string // that delivered it
}

// feed reads a lane's messages in stream order, without a gap and without a repetition, whatever happens to NATS. Its goroutine is run; ctx
// is the lane's.
type feed struct {
	rows     jetstream.Stream
	subjects []string
	log      *slog.Logger
	out      chan message
	budget   *semaphore.Weighted // bytes read and not yet released
	most     int64
	next     uint64 // sequence to go on from
	numbers  map[int]uint64
	pending  atomic.Uint64 // messages in the stream after the last one read
	// CreatedAt of the oldest chunk that is not inserted, 0 none; the lane clears it
	oldest   *atomic.Int64
	missing  func(partition int, first, last, n uint64)                   // chunk numbers
	copied   func(ctx context.Context, c *stream.Chunk, seq uint64) error // see broker.Streams.Copied
	aside    func(ctx context.Context, seq uint64, subject string, data []byte, why error) error
	retried  uint64 // sequence at which a gap in the chunk numbers made the feed read again
	created  int64  // when the stream was made, seconds since the epoch
	lastAt   int64  // when NATS stored the message before next, ns since the epoch; 0: nothing was read yet
	consumer string // from which it reads
	failed   error  // why out was closed
}

// run sends messages to out until ctx ends or one of them cannot be read by this build; it then closes out.
func (f *feed) run(ctx context.Context) {
	defer close(f.out)
	pause := newPause(2 * time.Second)
	for ctx.Err() == nil {
		before := f.next
		err := f.consume(ctx)
		if f.failed != nil || ctx.Err() != nil {
			return
		}
		if f.next != before {
			pause.reset()
		}
		f.log.Debug("reading ROWS anew", "from", f.next, "err", err)
		sleep(ctx, pause.next())
	}
}

// consume reads through one consumer until it fails. The consumer is made for this and forgotten by the server half a minute after nobody
// pulls. It does not need acknowledgements: the mark says what was read.
func (f *feed) consume(ctx context.Context) error {
	create, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	if err := f.same(create); err != nil {
		return err
	}
	c, err := f.rows.CreateConsumer(create, jetstream.ConsumerConfig{
		Description: "warpline sink", FilterSubjects: f.subjects, AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(f.next, 1),
		InactiveThreshold: 30 * time.Second, MemoryStorage: true, Replicas: 1,
	})
	if err != nil {
		return err
	}
	name := c.CachedInfo().Name
	f.consumer = name
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		f.rows.DeleteConsumer(gone, name) // it expires by itself when this fails
	}()
	f.pending.Store(c.CachedInfo().NumPending)
	var delivered uint64 // consumer sequence of the last message
	idle := 0
	for ctx.Err() == nil {
		batch, err := c.Fetch(256, jetstream.FetchMaxBytes(pullBytes), jetstream.FetchMaxWait(time.Second))
		if err != nil {
			return err
		}
		got := 0
		for {
			var msg jetstream.Msg
			select {
			case <-ctx.Done():
				return ctx.Err()
			case msg = <-batch.Messages():
			}
			if msg == nil {
				break
			}
			meta, err := msg.Metadata()
			if err != nil {
				return err
			}
			// The server counts what it delivers, so a message that was lost on the way is noticed.
			if meta.Sequence.Consumer != delivered+1 {
				return fmt.Errorf("delivery %d follows %d", meta.Sequence.Consumer, delivered)
			}
			delivered++
			got++
			if err := f.take(ctx, msg, meta); err != nil {
				return err
			}
		}
		if err := batch.Error(); err != nil {
			return err
		}
		if got > 0 {
			idle = 0
			continue
		}
		if idle++; idle%5 != 0 {
			continue
		}
		// Silence may mean that the last message was lost on the way, or that the consumer is gone.
		ask, cancel := context.WithTimeout(ctx, natsTimeout)
		info, err := c.Info(ask)
		cancel()
		if err != nil {
			return err
		}
		if info.Delivered.Consumer != delivered {
			return fmt.Errorf("%d messages were delivered and %d came", info.Delivered.Consumer, delivered)
		}
		f.pending.Store(info.NumPending)
	}
	return ctx.Err()
}

// same makes sure that what was read is still there before another consumer goes on after it. If it is not, the lane has to begin anew.
func (f *feed) same(ctx context.Context) error {
	info, err := f.rows.Info(ctx)
	if err != nil {
		return fmt.Errorf("state of ROWS: %w", err)
	}
	if d := info.Created.Unix() - f.created; d > 1 || d < -1 || info.State.LastSeq+1 < f.next {
		f.failed = fmt.Errorf("%w: made at %s, it ends at %d, and was read up to %d", errForeign, info.Created.UTC().Format(time.DateTime),
			info.State.LastSeq, f.next-1)
		return f.failed
	}
	if f.lastAt == 0 {
		return nil
	}
	msg, err := f.rows.GetMsg(ctx, f.next-1)
	if err == nil && msg.Time.UnixNano() != f.lastAt {
		f.failed = fmt.Errorf("%w: another message is at %d", errForeign, f.next-1)
		return f.failed
	}
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("the last message that was read: %w", err)
	}
	return nil
}

func (f *feed) take(ctx context.Context, msg jetstream.Msg, meta *jetstream.MsgMetadata) error {
	seq := meta.Sequence.Stream
	if seq < f.next {
		return nil
	}
	tail := stream.Tail{Partition: stream.PartitionOfRows(msg.Subject())}
	last, known := f.numbers[tail.Partition]
	tail.Number = last
	c, _, body, err := tail.Judge(msg.Data())
	passed := errors.Is(err, stream.ErrPassed)
	if passed {
		// ClickHouse has its rows, or its parts are folded again by a worker that goes on from what ClickHouse has.
		err = f.copied(ctx, &c, seq)
		if err != nil && !errors.Is(err, stream.ErrForeign) {
			return err // and it is read again
		}
	}
	if errors.Is(err, stream.ErrForeign) {
		if err := f.aside(ctx, seq, msg.Subject(), msg.Data(), err); err != nil {
			return err // and it is read again
		}
		f.next, f.lastAt = seq+1, 0 // what is set aside is deleted
		return nil
	}
	if err != nil {
		f.failed = fmt.Errorf("ROWS message %d on %s: %w", seq, msg.Subject(), err)
		return f.failed
	}
	m := message{seq: seq, chunk: c, body: body, size: min(int64(len(msg.Data())), f.most), more: meta.NumPending > 0,
		at: meta.Timestamp.UnixNano(), consumer: f.consumer}
	if passed {
		f.log.Info("a chunk is passed over: ClickHouse has it, or its parts are folded again", "partition", c.Partition, "chunk", c.Number,
			"newest", last, "seq", seq)
		m.skip, m.body, m.chunk = true, nil, stream.Chunk{Partition: c.Partition, CreatedAt: c.CreatedAt}
	} else if n := tail.Missing(&c); known && n > 0 {
		if f.retried != seq {
			f.retried = seq
			return fmt.Errorf("chunk %d of partition %d follows %d", c.Number, c.Partition, last)
		}
		f.log.Error("ROWS lacks chunks: was the stream purged or restored from a backup? `warpline audit` names them", "partition", c.Partition,
			"after", last, "next", c.Number, "seq", seq)
		f.missing(c.Partition, last+1, c.Number-1, n)
	}
	if err := f.budget.Acquire(ctx, m.size); err != nil {
		return err
	}
	f.pending.Store(meta.NumPending)
	f.oldest.CompareAndSwap(0, c.CreatedAt)
	select {
	case f.out <- m:
	case <-ctx.Done():
		return ctx.Err()
	}
	if !m.skip {
		f.numbers[c.Partition] = c.Number
	}
	f.next, f.lastAt = seq+1, m.at
	return nil
}

// release gives the bytes of inserted messages back to the feed.
func (f *feed) release(messages []message) {
	for i := range messages {
		f.budget.Release(messages[i].size)
	}
}

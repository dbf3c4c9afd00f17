package aggregate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// errFenced means that another owner has published to the partition: what this one has not published never happened.
var errFenced = errors.New("another worker owns the partition now")

// owner folds one partition. It is one goroutine; pump is its only other one.
type owner struct {
	w         *Worker
	streams   *broker.Streams
	partition int
	log       *slog.Logger
	fold      *Fold

	epoch    uint64
	nonce    string
	position uint64 // INGEST sequence of the last folded part
	// positionAt is when NATS stored it, ns; at is the same of the part that is being folded.
	positionAt, at int64
	anchors        []stream.Point // some earlier positions, newest first
	lost           *stream.Loss   // of INGEST, while position is inside it
	passed         passed         // door.go
	replaying      bool           // folding for the state alone, by the messages' clock
	shift          int64          // ns that are added to that clock, see quiet
	waits          waits
	base           uint64 // number of the partition's first chunk
	number         uint64 // of the last published chunk
	lastRows       uint64 // ROWS sequence of that chunk: the fence
	lastHead       stream.Chunk
	writer         string                 // of the chunk that was taken over
	trial          trial                  // poison.go
	folding        atomic.Pointer[inFold] // the part that is folded now, limit.go

	snapshot      stream.Snapshot
	snapshotNow   bool // whatever was published since the last
	sinceChunks   int
	sinceBytes    int
	stateObjects  []string      // states of chunks since the snapshot that are objects
	oldSnapshots  []oldSnapshot // to delete once a chunk points to a newer one and the sink has come so far
	oldStates     []string      // likewise
	foldedParts   []string      // objects of parts in the open chunk, to delete once it is published
	keptParts     []string      // objects that stay for rejects of the open chunk
	checkpoints   []checkpoint
	opened        time.Time // when the open chunk got its first change; zero: it is empty
	lastPublished uint64    // position in the last published chunk
	// lastPublishedAt is when NATS stored that part, ns.
	lastPublishedAt int64
	lastPurged      uint64    // up to which INGEST was purged by this owner
	lastMark        time.Time // when the sink's mark was last read
	lastIdle        time.Time
	lastRoom        time.Time // when names were last looked for that may go
	nextSnapshot    time.Time // not before, see snapshot.go
	stateBytes      int       // of the last snapshot
	sessions        int       // as counted
	lastPurge       time.Time
	traces          bool   // a deletion is published, and no snapshot since
	pointed         string // snapshot that the last published chunk points to
	broken          error  // why pump ended: INGEST is another stream; read it once parts is closed
	body            []byte // scratch
	resnapshot      resnapshot
	verdicts        verdicts
}

// checkpoint remembers when a position was published, for ReplayHorizon.
type checkpoint struct {
	at       time.Time
	position uint64
}

func newOwner(w *Worker, partition int) *owner {
	o := &owner{
		w: w, streams: w.streams, partition: partition, nonce: broker.NewID(),
		log:  w.cfg.Logger.With("partition", partition),
		fold: newFold(&w.cfg, w.metrics),
	}
	o.fold.budget = w.names
	return o
}

// run takes over, folds until ctx ends, and then publishes what it has. Any error means that the partition has to be taken over anew.
func (o *owner) run(ctx context.Context) error {
	if err := o.takeOver(ctx); err != nil {
		return fmt.Errorf("take over: %w", err)
	}
	o.w.understood(o.partition)
	parts, stop, err := o.pump(ctx)
	if err != nil {
		return err
	}
	defer stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return o.leave(ctx)
		case msg, ok := <-parts:
			if !ok {
				if ctx.Err() != nil {
					return o.leave(ctx)
				}
				if o.broken != nil && !o.opened.IsZero() { // what is folded already is not stored anywhere else any more
					if err := o.publishOut(ctx); err != nil {
						return err
					}
				}
				return errors.Join(errors.New("the consumer of the partition ended"), o.broken)
			}
			if err := o.attempt(ctx, msg); err != nil {
				return err
			}
		case <-tick.C:
			o.nameScopes(ctx)
			o.tick(o.clock())
			if err := o.boundNames(ctx, nil); err != nil {
				return err
			}
		}
		if o.due(o.clock()) {
			if err := o.publishOut(ctx); err != nil {
				return err
			}
		}
	}
}

// publishOut publishes the open chunk. The end of ctx does not cut it short, only the grace after it does: a chunk that is being published
// is finished or, when that takes too long, folded again by the successor. It must not be published twice under two numbers.
func (o *owner) publishOut(ctx context.Context) error {
	out, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leaveGrace, cancel) })
	defer stop()
	return o.publish(out)
}

// leaveGrace is how long an owner may go on after it was asked to stop. It is below the lease's TTL, which is renewed meanwhile.
const leaveGrace = 4 * time.Second

// tailCheck is how long silence lasts before the stream is asked whether it has more.
const tailCheck = 2 * time.Second

// pump reads the partition's parts from the position on into a channel that closes when reading ends.
func (o *owner) pump(ctx context.Context) (<-chan jetstream.Msg, func(), error) {
	last := stream.Point{Seq: o.position, At: o.positionAt} // what was read
	next := o.position + 1
	looked := o.w.suspicions.Load()
	it, err := o.read(ctx, next)
	if err != nil {
		return nil, nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	parts := make(chan jetstream.Msg)
	go func() {
		defer close(parts)
		defer func() { it.Stop() }()
		for {
			wait, cancel := context.WithTimeout(ctx, tailCheck)
			msg, err := it.Next(jetstream.NextContext(wait))
			cancel()
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return
			case errors.Is(err, jetstream.ErrNoHeartbeat):
				continue // the iterator resets itself
			case errors.Is(err, context.DeadlineExceeded):
				if seen := o.w.suspicions.Load(); seen != looked {
					o.broken = o.verify(ctx, last)
					if o.broken != nil {
						return
					}
					looked = seen
				}
				// The iterator notices a lost message by the one that follows. After the last one none follows.
				if _, err := o.streams.Ingest.GetMsg(ctx, next, jetstream.WithGetMsgSubject(stream.IngestFilter(o.partition))); err != nil {
					continue
				}
				again, err := o.read(ctx, next)
				if err != nil {
					continue
				}
				it.Stop()
				it = again
				continue
			default:
				return
			}
			if meta, err := msg.Metadata(); err == nil {
				// A consumer that begins may read another stream than the one before it did.
				seen := o.w.suspicions.Load()
				if meta.Sequence.Consumer == 1 || seen != looked {
					o.broken = o.verify(ctx, last)
					if o.broken != nil || ctx.Err() != nil {
						return
					}
					looked = seen
				}
				next, last = meta.Sequence.Stream+1, stream.Point{Seq: meta.Sequence.Stream, At: meta.Timestamp.UnixNano()}
			}
			select {
			case parts <- msg:
			case <-ctx.Done():
				return
			}
		}
	}()
	return parts, stop, nil
}

// read begins to read the partition's parts at a sequence of INGEST. What waits in the client is bounded by bytes, and the bound is above
// the largest message, since that would never come otherwise. The number is not a bound but the room of the client's queue, which the
// server's notes on each pull share: when it was 16 the queue overflowed under load, and messages were lost on the way.
func (o *owner) read(ctx context.Context, from uint64) (jetstream.MessagesContext, error) {
	cons, err := o.streams.Ingest.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{stream.IngestFilter(o.partition)}, DeliverPolicy: jetstream.DeliverByStartSequencePolicy,
		OptStartSeq: from, InactiveThreshold: 30 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("consume ingest: %w", err)
	}
	it, err := cons.Messages(jetstream.PullMaxMessagesWithBytesLimit(1024, stream.MaxPayloadBytes+1<<20))
	if err != nil {
		return nil, fmt.Errorf("consume ingest: %w", err)
	}
	return it, nil
}

// take folds one message.
func (o *owner) take(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("ingest message: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq <= o.position {
		return nil
	}
	o.at = meta.Timestamp.UnixNano()
	p := &Part{Seq: seq, Now: o.now()}
	env, compressed, err := stream.ParseEnvelope(msg.Data())
	if err == nil {
		p.Env = env
		if env.Kind == stream.KindAdmin && env.Admin != nil { // which no deletion takes
			o.fold.administered(p)
			o.folded(seq)
			return nil
		}
		if o.deletion(p, meta.Timestamp) {
			o.folded(seq)
			return nil
		}
	}
	if err == nil && env.Kind == stream.KindDoor {
		if err := o.door(ctx, p, compressed); err != nil {
			return err
		}
		o.folded(seq)
		return nil
	}
	if err == nil && env.Kind == stream.KindRepeats {
		o.fold.repeats(p)
		o.folded(seq)
		return nil
	}
	if err == nil && env.Object != "" && o.seen(&env) {
		// It was sent again while the first copy was folded, which deleted the object: there is nothing to read, and nothing is needed.
		env.Object, compressed = "", nil
	}
	if err == nil {
		p.Env = env // without an object that is not needed
		o.body, err = o.bodyOf(ctx, &env, compressed)
		if err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err != nil {
		o.badPart(p, msg, err)
	} else {
		s := o.fold.Session(p)
		if env.Kind != stream.KindComplete { // it often comes when the names have been freed, and does not need them
			if err := o.loadNames(ctx, s); err != nil {
				return err
			}
		}
		if err := o.boundNames(ctx, s); err != nil {
			return err
		}
		if err := o.beginFold(ctx, p); err != nil {
			return err
		}
		o.fold.Take(p, s, o.body)
		if !o.replaying {
			o.waits.add(p.Now, o.at)
		}
		if env.Object != "" {
			o.body = nil // too large to be kept as scratch
		}
		if env.Object != "" && !p.keep {
			o.foldedParts = append(o.foldedParts, env.Object)
		} else if env.Object != "" {
			o.keptParts = append(o.keptParts, env.Object)
		}
		o.fold.charge(s)
		o.fold.boundPending()
	}
	if !o.replaying {
		o.verdicts.add(p, time.Now().UnixNano())
	}
	o.folded(seq)
	return nil
}

// folded moves the position past a part.
func (o *owner) folded(seq uint64) {
	o.position, o.positionAt = seq, o.at
	o.passed.add(seq)
	if o.opened.IsZero() {
		o.opened = o.clock()
	}
}

// seen reports whether the part was folded before.
func (o *owner) seen(e *stream.Envelope) bool {
	s := o.fold.Sessions[SessionKey{e.Tenant, e.Session}]
	return s != nil && s.hasPart(e)
}

// badPart keeps a message that cannot be read as a reject of the tenant in its subject.
func (o *owner) badPart(p *Part, msg jetstream.Msg, err error) {
	o.w.metrics.parts.WithLabelValues("bad").Inc()
	o.log.Error("a part of INGEST cannot be read and is kept as a reject", "seq", p.Seq, "err", err)
	if p.Env.Tenant == "" {
		p.Env.Tenant = tenantOf(msg.Subject())
	}
	if p.Env.ReceivedAt == 0 {
		p.Env.ReceivedAt, p.Env.RetentionDays, p.Env.RollupDays = p.Now, 7, 395
	}
	p.Env.Events = max(p.Env.Events, 1)
	p.Env.Kind, p.Env.Identity = stream.KindReject, fmt.Sprintf("bad-%d", p.Seq)
	p.Env.Reject = &stream.Reject{Reason: gpuflight.ReasonBadJSON, Detail: "the stored part cannot be read: " + err.Error()}
	s := o.fold.Session(p)
	o.fold.Take(p, s, msg.Data()[:min(len(msg.Data()), stream.RejectBytes)])
}

// tenantOf returns the tenant that the subject of a part names, "" when it does not name one.
func tenantOf(subject string) string {
	if token := strings.Split(subject, "."); len(token) == 4 {
		return token[2]
	}
	return ""
}

// tick does what is due by time alone.
func (o *owner) tick(now time.Time) {
	o.resnapshot.look(o, now)
	f := o.fold
	before := len(f.touched)
	f.Expire(now.UnixNano())
	o.waits.expire(now.UnixNano(), o.w.cfg.RawWait)
	if now.Sub(o.lastIdle) > 10*time.Second {
		o.lastIdle = now
		f.ExpireIdle(now.UnixNano())
		f.seekMissing(now)
		o.w.setStatus(o.partition, func(st *PartitionStatus) { st.Sessions = len(f.Sessions) })
		o.countSessions(len(f.Sessions))
	}
	if (len(f.touched) > before || len(f.removed) > 0) && o.opened.IsZero() {
		o.opened = now
	}
	if o.opened.IsZero() && o.w.takeEmptied(o.partition) {
		o.opened = now // the publish finds out, and the partition is taken over from what the sink's mark says
	}
	if now.Sub(o.lastPurge) > 5*time.Second {
		o.lastPurge = now
		o.purge(now)
		o.dropSnapshots(context.Background())
	}
}

// due reports whether the open chunk should be published.
func (o *owner) due(now time.Time) bool {
	if o.opened.IsZero() {
		return false
	}
	if now.Sub(o.opened) >= o.w.cfg.ChunkAge || o.fold.deletesDue() {
		return true
	}
	rows, bytes := o.fold.Out.Size()
	return rows >= o.w.cfg.ChunkRows || bytes >= o.w.cfg.ChunkBytes || o.fold.stateSize() >= maxChunkState
}

// maxChunkState is the estimated state change at which a chunk is published: with its rows it still fits a message.
const maxChunkState = 3 << 20

// leave publishes the open chunk, held rollups included, and a snapshot, so that the next owner starts at once. Its time is bounded: what
// it does not finish is folded again by the successor.
func (o *owner) leave(ctx context.Context) error {
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveGrace)
	defer cancel()
	o.fold.leaving = true
	for s := range o.fold.held {
		o.fold.Touch(s)
	}
	if !o.opened.IsZero() || len(o.fold.touched) > 0 {
		if err := o.publish(last); err != nil {
			return err
		}
	}
	if o.sinceChunks > 8 {
		if err := o.writeSnapshot(last); err != nil {
			return err
		}
		return o.publish(last) // the log has to point to it
	}
	return nil
}

func (o *owner) retry(reason string, err error) {
	o.w.metrics.retries.WithLabelValues(reason).Inc()
	o.w.setStatus(o.partition, func(st *PartitionStatus) {
		if st.LastError == "" {
			st.Since = time.Now()
			o.log.Warn("waiting: "+reason, "err", err)
		}
		st.LastError = reason + ": " + err.Error()
	})
}

func (o *owner) well() {
	o.w.thrives(o.partition)
	o.w.setStatus(o.partition, func(st *PartitionStatus) {
		if st.LastError != "" {
			o.log.Info("going on", "after", time.Since(st.Since).Round(time.Millisecond))
			st.LastError, st.Since = "", time.Now()
		}
		st.Position, st.Chunk = o.lastPublished, o.number
	})
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

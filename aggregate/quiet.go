package aggregate

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// quiet folds parts only for the state: their rows were published before, and are in ClickHouse or on their way. Its clock is that of the
// messages, so that what waits does so for as long as the first time: rows of kernels for their details, rollups for more of their kind. If
// the first fold was late, the waiting times differ by its lateness, and so do the halves and rollups that were waiting at its end.
type quiet struct {
	o         *owner
	stateless bool  // it began with no state at all
	flush     int64 // when the open chunk began, by the messages' clock
}

// begin loads the names of sessions with held rollups. Without names the rollups would wait, and they are in ClickHouse already.
func (q *quiet) begin(ctx context.Context) error {
	q.o.replaying = true
	defer func() { q.o.replaying = false }()
	for _, s := range q.o.fold.unnamed {
		if err := q.o.loadNames(ctx, s); err != nil {
			return err
		}
	}
	q.o.fold.nobodyAwaits()
	return nil
}

func (q *quiet) take(ctx context.Context, raw *jetstream.RawStreamMsg) error {
	o, now := q.o, raw.Time.UnixNano()
	if q.flush == 0 {
		q.flush = now
	}
	o.replaying = true
	defer func() { o.replaying = false }()
	if now-q.flush >= int64(o.w.cfg.ChunkAge) || o.due(time.Time{}) {
		q.hush(now)
	}
	if env, _, err := stream.ParseEnvelope(raw.Data); err == nil && env.Object != "" && env.Kind != stream.KindDelete {
		get, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := o.streams.Parts.GetInfo(get, env.Object)
		cancel()
		if errors.Is(err, jetstream.ErrObjectNotFound) { // deleted when the part was folded: only that it was folded can be remembered
			p := &Part{Env: env, Seq: raw.Sequence, Now: now}
			s := o.fold.Session(p)
			o.fold.Touch(s)
			o.fold.addPart(s, &env)
			o.at = now
			o.folded(raw.Sequence)
			return nil
		}
	}
	err := q.fold(ctx, raw)
	o.foldedParts = o.foldedParts[:0] // they were deleted the first time
	return err
}

// fold folds a message only for the state. A part whose fold fails was a reject the first time (see poison.go), so it is passed over.
func (q *quiet) fold(ctx context.Context, raw *jetstream.RawStreamMsg) (err error) {
	o := q.o
	defer func() {
		caught := recover()
		o.folding.Store(nil)
		if caught == nil {
			return
		}
		o.w.metrics.foldFailures.WithLabelValues("panic").Inc()
		o.log.Error("the fold of a part failed while the state was made anew; it is passed over, as it was kept as a reject before", "seq",
			raw.Sequence, "reason", caught)
		o.at = raw.Time.UnixNano()
		o.folded(raw.Sequence)
	}()
	return o.take(ctx, storedMsg{raw: raw})
}

// hush drops what the open chunk holds, as if it had been published.
func (q *quiet) hush(now int64) {
	f := q.o.fold
	f.Expire(now)
	clear(f.usage) // otherwise the metrics would count it again
	f.Flush(now)
	clear(f.usage)
	f.Out.Reset()
	f.OutSerial++
	f.Published()
	q.flush = now
}

// end brings the state to the time at which the last of the chunks was made, and its clock to the present.
func (q *quiet) end(then int64, flushed bool) {
	f := q.o.fold
	if flushed {
		for s := range f.held {
			f.Touch(s)
		}
	}
	f.leaving = flushed
	q.hush(then)
	f.leaving = false
	for _, s := range f.Sessions {
		// Ids that the first fold gave to later launches and configurations must not be used again.
		if s.NextLaunch > 0 {
			s.NextLaunch += idLeap
		}
		if s.NextConfig > 0 {
			s.NextConfig += idLeap
		}
	}
	f.nobodyAwaits()
	for _, s := range f.Sessions {
		f.nameAllUsed(s)
	}
	f.Resume(q.o.clock().UnixNano(), then, q.stateless)
}

// idLeap is more than the number of ids that a session hands out between two snapshots.
const idLeap = 1 << 15

// storedMsg is a message of INGEST that was read by its sequence. Only the methods that an owner calls work.
type storedMsg struct {
	jetstream.Msg
	raw *jetstream.RawStreamMsg
}

func (m storedMsg) Data() []byte    { return m.raw.Data }
func (m storedMsg) Subject() string { return m.raw.Subject }
func (m storedMsg) Metadata() (*jetstream.MsgMetadata, error) {
	return &jetstream.MsgMetadata{Sequence: jetstream.SequencePair{Stream: m.raw.Sequence}, Timestamp: m.raw.Time}, nil
}

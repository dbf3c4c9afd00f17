package aggregate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// quiet folds parts only for the state: their rows were published before, and are in ClickHouse or on their way. Its clock is that of the
// messages, so that what waits does so for as long as the first time: rollups for more of their kind. If the first fold was late, the
// waiting times differ by its lateness, and so do the rollups that were waiting at its end.
//
// Rows of kernels that wait for their details must not differ: what waited at the end and is taken for written is lost, and the other way
// round it is there twice. So chunks say up to which part they did not wait any more (waits), and the clock for them is shifted such that
// the same rows have waited long enough when it stands at released.At, where it stops.
type quiet struct {
	o         *owner
	stateless bool  // it began with no state at all
	flush     int64 // when the open chunk began, by the messages' clock
	released  stream.Released
}

// waits says which rows no longer wait for their other halves. They do so for Config.RawWait after their part was folded.
type waits struct {
	released stream.Released
	folded   []foldedPart // those whose rows may wait, in order
}

// foldedPart is when a part was folded by the owner's clock, and stored by NATS's, in ns.
type foldedPart struct{ at, stored int64 }

// begin is for an owner that takes over: what waits of the parts up to a position does so from now.
func (w *waits) begin(released stream.Released, position stream.Point, now time.Time) {
	w.released, w.folded = released, w.folded[:0]
	if position.At != 0 || position.Seq == 0 { // a chunk of an older version does not say it
		w.add(now.UnixNano(), position.At)
	}
}

// add notes a part. Where the owner's clock was set back, the parts before count as folded now: they would stay until it is where it was,
// and so would all after them.
func (w *waits) add(at, stored int64) {
	for i := len(w.folded) - 1; i >= 0 && w.folded[i].at > at; i-- {
		w.folded[i].at = at
	}
	w.folded = append(w.folded, foldedPart{at, stored})
}

// expire is called whenever the fold has released what waited for so long.
func (w *waits) expire(now int64, wait time.Duration) {
	n := 0
	for n < len(w.folded) && w.folded[n].at <= now-int64(wait) {
		n++
	}
	if n > 0 {
		w.released = stream.Released{At: now, Stored: w.folded[n-1].stored}
		w.folded = slices.Delete(w.folded, 0, n)
	}
}

// begin sets the clock, and loads the names of sessions with held rollups. Without names the rollups would wait, and they are in ClickHouse
// already.
func (q *quiet) begin(ctx context.Context) error {
	q.o.replaying = true
	defer func() { q.o.replaying = false }()
	if q.released.At != 0 {
		q.o.shift = q.released.At - int64(q.o.w.cfg.RawWait) - q.released.Stored
	}
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
		halves := now + o.shift
		if q.released.At != 0 {
			halves = min(halves, q.released.At)
		}
		q.hush(now, halves)
	}
	if env, _, err := stream.ParseEnvelope(raw.Data); err == nil && env.Object != "" && env.Kind != stream.KindDelete {
		get, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := o.streams.Parts.GetInfo(get, env.Object)
		cancel()
		if errors.Is(err, jetstream.ErrObjectNotFound) { // deleted when the part was folded: only that it was folded can be remembered
			p := &Part{Env: env, Seq: raw.Sequence, Now: now + o.shift}
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

// hush drops what the open chunk holds, as if it had been published. halves is now by the clock of what waits for another half.
func (q *quiet) hush(now, halves int64) {
	f := q.o.fold
	f.releaseHeld(now)
	f.expireHalves(halves)
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
	q.hush(then, cmp.Or(q.released.At, then))
	f.leaving = false
	q.o.shift = 0
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

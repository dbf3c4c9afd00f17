package aggregate

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
)

// A part whose fold fails must not stop the partition. What a failed fold left half-done is thrown away with all that is not published, and
// the partition is taken over anew. That is exact, since what was not published never happened. How often a part was tried is in the header
// of the partition's last chunk, so it outlives the process; after maxTries the part becomes a reject and the partition goes on.
//
// A fold that panics, or takes more time or room than a part may, is recorded at once (attempt). A process that just ends (out of memory, a
// stack that overflows, kill -9) cannot record anything. So when an owner has ended without leaving, its successor folds the parts that may
// have been at fault one by one: before each fold it publishes a chunk that says "this part is tried now".

const (
	// maxTries is how many folds of a part fail before it becomes a reject.
	maxTries = 3
	// maxSuspects is how many parts are marked one by one after an owner ended without leaving. When the part at fault comes after them,
	// the next owner begins at least that much nearer to it.
	maxSuspects = 256
)

// trial is what an owner knows about parts that may be at fault.
type trial struct {
	suspects []stream.Suspect // beyond the position, by sequence
	until    uint64           // parts up to this sequence are folded one by one
	left     int              // so many of them
	doubted  bool             // the part being folded may be what ended an owner
	counted  bool             // this try of it is in the log
}

// runSafely is run with a recover: a panic outside of a fold becomes an error. Such an end is not recorded in the partition's chunks, so
// the successor suspects the parts that were not published.
func (o *owner) runSafely(ctx context.Context) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			o.w.metrics.foldFailures.WithLabelValues("panic").Inc()
			o.log.Error("the owner of a partition failed; the partition is taken over anew", "reason", caught, "stack", string(debug.Stack()))
			err = fmt.Errorf("owner of partition %d: %v", o.partition, caught)
		}
	}()
	return o.run(ctx)
}

// resumeTrial reads from the last chunk how its owner ended. It does not write anything.
func (o *owner) resumeTrial(ctx context.Context, head *stream.Chunk) {
	o.trial = trial{suspects: head.Suspects}
	o.w.mu.Lock()
	seq, ok := o.w.acquitted[o.partition]
	delete(o.w.acquitted, o.partition)
	o.w.mu.Unlock()
	for i := range o.trial.suspects {
		if s := &o.trial.suspects[i]; ok && s.Seq == seq {
			s.Tries--
		}
	}
	if head.Left {
		return
	}
	o.trial.until, o.trial.left = ^uint64(0), maxSuspects
	look, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if info, err := o.streams.Ingest.Info(look); err == nil {
		o.trial.until = info.State.LastSeq // what came later cannot have been tried
	}
}

// describe enters what is known into the header of a chunk.
func (o *owner) describe(c *stream.Chunk) {
	if len(o.trial.suspects) > 0 {
		o.trial.suspects = slices.DeleteFunc(slices.Clone(o.trial.suspects), func(s stream.Suspect) bool { return s.Seq <= c.Position })
	}
	c.Suspects, c.Left, c.Writer = o.trial.suspects, o.fold.leaving, o.w.cfg.Version
}

// tried returns how often the part was begun.
func (t *trial) tried(seq uint64) int {
	for _, s := range t.suspects {
		if s.Seq == seq {
			return s.Tries
		}
	}
	return 0
}

// with returns the suspects with one more try of the part, in a slice of its own.
func (t *trial) with(seq uint64) []stream.Suspect {
	out := slices.Clone(t.suspects)
	for i := range out {
		if out[i].Seq == seq {
			out[i].Tries++
			return out
		}
	}
	return append(out, stream.Suspect{Seq: seq, Tries: 1})
}

// attempt folds one message, and survives a panic.
func (o *owner) attempt(ctx context.Context, msg jetstream.Msg) error {
	meta, err := msg.Metadata()
	if err != nil {
		return fmt.Errorf("ingest message: %w", err)
	}
	seq := meta.Sequence.Stream
	if seq <= o.position {
		return nil
	}
	t := &o.trial
	known := len(t.suspects) > 0 && t.tried(seq) > 0
	t.doubted, t.counted = known || t.left > 0 && seq <= t.until, false
	if !known {
		if t.doubted {
			t.left--
		}
		if err := o.survive(ctx, msg, seq); err != nil {
			return err
		}
		if t.counted {
			t.suspects = slices.DeleteFunc(slices.Clone(t.suspects), func(s stream.Suspect) bool { return s.Seq == seq })
		}
		if t.doubted && t.left == 0 && !o.opened.IsZero() { // the next owner, if one is needed, begins here
			return o.publishOut(ctx)
		}
		return nil
	}
	// It is folded in a chunk of its own.
	if !o.opened.IsZero() {
		if err := o.publishOut(ctx); err != nil {
			return err
		}
	}
	if tries := o.trial.tried(seq); tries >= maxTries {
		return o.poison(ctx, msg, seq, tries)
	}
	if err := o.survive(ctx, msg, seq); err != nil {
		return err
	}
	if o.opened.IsZero() {
		return nil
	}
	if err := o.publishOut(ctx); err != nil {
		o.acquit(seq)
		return err
	}
	return nil
}

// acquit remembers that the last try of a part, if it was counted, ended for a reason other than the part: when this process takes the
// partition again it does not count that try.
func (o *owner) acquit(seq uint64) {
	if o.trial.counted {
		o.w.mu.Lock()
		o.w.acquitted[o.partition] = seq
		o.w.mu.Unlock()
	}
}

// survive takes a message under a recover. After a panic the owner has to stop: what it holds may be half-changed.
func (o *owner) survive(ctx context.Context, msg jetstream.Msg, seq uint64) (err error) {
	defer func() {
		caught := recover()
		o.folding.Store(nil)
		if caught == nil {
			if err != nil {
				o.acquit(seq)
			}
			return
		}
		reason := "panic"
		if over, ok := caught.(foldLimit); ok {
			reason = over.reason
		}
		o.w.metrics.foldFailures.WithLabelValues(reason).Inc()
		o.log.Error("the fold of a part failed; the partition is taken over anew", "seq", seq, "subject", msg.Subject(), "reason", caught,
			"stack", string(debug.Stack()))
		err = fmt.Errorf("fold of part %d: %v", seq, caught)
		suspects := o.trial.suspects
		if !o.trial.counted {
			suspects = o.trial.with(seq)
		}
		out, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveGrace)
		defer cancel()
		err = errors.Join(err, o.publishTrial(out, &inFold{seq: seq, head: o.lastHead, suspects: suspects}, true))
	}()
	return o.take(ctx, msg)
}

// try counts a try of a part before it begins.
func (o *owner) try(ctx context.Context, seq uint64) error {
	o.trial.suspects, o.trial.counted = o.trial.with(seq), true
	return o.publishTrial(ctx, &inFold{seq: seq, head: o.lastHead, suspects: o.trial.suspects}, false)
}

// publishTrial publishes that a part is tried, or, with failed, that it was and that this is how the owner ends: then the successor need
// not suspect others. The chunk has no rows and no change of state, and the position of the last one: what is folded and not published
// has not happened.
func (o *owner) publishTrial(ctx context.Context, p *inFold, failed bool) error {
	c := p.head // with what the last chunk knew of positions
	c.Number++
	c.After = o.lastRows + 1
	c.CreatedAt, c.OldestReceivedAt, c.Snapshot = time.Now().UnixNano(), 0, o.snapshot
	c.Tables, c.Deletes, c.Object, c.StateObject = nil, nil, "", ""
	c.Suspects, c.Left = p.suspects, failed
	msg, err := stream.AppendChunk(nil, &c, nil, nil)
	if err != nil {
		return err
	}
	if err := o.append(ctx, msg, c.Number); err != nil {
		return fmt.Errorf("mark part %d: %w", p.seq, err)
	}
	o.number, o.lastHead = c.Number, c
	o.sinceChunks++
	o.sinceBytes += len(msg)
	return nil
}

// poison keeps a part as a reject, without any of its rows. If the reject fails too, because the session itself is at fault, it is stored
// without the session's name after as many tries again.
func (o *owner) poison(ctx context.Context, msg jetstream.Msg, seq uint64, tries int) error {
	if err := o.try(ctx, seq); err != nil { // this may fail, too
		return err
	}
	o.w.metrics.parts.WithLabelValues("poison").Inc()
	p := &Part{Seq: seq, Now: time.Now().UnixNano()}
	body := o.readSafely(ctx, p, msg)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := &p.Env
	if e.ReceivedAt == 0 {
		e.Tenant, e.ReceivedAt, e.RetentionDays, e.RollupDays = tenantOf(msg.Subject()), p.Now, 7, 395
	}
	if tries >= 2*maxTries || e.Identity == "" {
		e.Session, e.Identity = stream.NoSession, fmt.Sprintf("poison-%d", seq)
	}
	e.Events, e.Bytes = max(e.Events, 1), max(e.Bytes, uint64(len(body)))
	detail := fmt.Sprintf("folding this part failed %d times (a panic, over %v, or over %d MiB): nothing of it is stored; please report it",
		tries, foldTime, foldBytes>>20)
	o.log.Error("a part of INGEST is kept as a reject of reason poison", "seq", seq, "tenant", e.Tenant, "events", e.Events, "tries", tries)
	e.Kind, e.Reject = stream.KindReject, &stream.Reject{Reason: reject.Poison, Detail: detail, Ref: p.Ref()}
	p.keep = true
	f := o.fold
	f.Take(p, f.Session(p), body[:min(len(body), stream.RejectBytes)])
	o.verdicts.add(p, time.Now().UnixNano())
	o.folded(seq)
	return o.publishOut(ctx)
}

// readSafely reads the part's envelope and body as far as that can be done.
func (o *owner) readSafely(ctx context.Context, p *Part, msg jetstream.Msg) (body []byte) {
	body = msg.Data()
	defer func() { _ = recover() }() // then the message itself is kept
	env, compressed, err := stream.ParseEnvelope(msg.Data())
	if err != nil {
		return body
	}
	p.Env = env
	if env.Object != "" && o.seen(&env) {
		return nil // its object may be gone, and it is a duplicate
	}
	plain, err := o.bodyOf(ctx, &p.Env, compressed)
	if err != nil {
		return compressed
	}
	return plain
}

package sink

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// purge removes, every few seconds, messages that are not needed again: they are inserted, and older than the snapshot from which their
// partition's owner would recover. The newest message of a subject and all since its snapshot stay: they are the worker's checkpoint. So do
// those of the replay window, for as long as ROWS has room. An old owner's purge removes no more than ours, since its mark is
// older. A purge that fails is done the next time.
func (l *lane) purge(ctx context.Context) {
	if time.Now().Before(l.purgeAt) {
		return
	}
	l.purgeAt = time.Now().Add(purgeEvery)
	l.lookAgain(ctx)
	durable, used := false, l.used(ctx)
	for p, s := range l.marks.mark.Partitions {
		// Purge removes what is below its sequence, so the snapshot's own chunk stays.
		below, cut := l.window.below(p, min(l.marks.mark.Mark+1, s.Snapshot), s.Erased, used)
		if below <= 1 || below <= l.purged[p] {
			continue
		}
		if !durable {
			// A purge may reach the disk before the mark does: after a power cut the mark would be before messages that are gone.
			if err := l.durable(ctx); err != nil {
				return
			}
			durable = true
		}
		try, cancel := context.WithTimeout(ctx, natsTimeout)
		err := l.k.s.Rows.Purge(try, jetstream.WithPurgeSubject(stream.RowsSubject(p)), jetstream.WithPurgeSequence(below))
		cancel()
		if err != nil {
			l.log.Debug("purge ROWS", "partition", p, "err", err)
			return
		}
		l.purged[p] = below
		l.k.met.purges.Inc()
		if cut.IsZero() {
			continue
		}
		if err := l.k.windows.Cut(ctx, l.n, cut); err != nil {
			l.log.Debug("purge ROWS", "partition", p, "err", err)
		}
	}
}

// clear deletes the chunk bodies that the mark names as inserted. They are named before they are deleted, so that no body is left after a
// crash in between; the names are removed with the next write of the mark.
func (l *lane) clear(ctx context.Context) error {
	if len(l.marks.mark.Drop) == 0 {
		return nil
	}
	if err := l.durable(ctx); err != nil {
		return err
	}
	for _, object := range l.marks.mark.Drop {
		try, cancel := context.WithTimeout(ctx, natsTimeout)
		err := l.k.s.Chunks.Delete(try, object)
		cancel()
		if err != nil && !errors.Is(err, jetstream.ErrObjectNotFound) {
			l.log.Debug("delete a chunk body", "object", object, "err", err)
			return nil // it is tried again after the next span
		}
	}
	next := l.marks.mark.clone()
	next.Drop = nil
	return l.marks.write(ctx, next)
}

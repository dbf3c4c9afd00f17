package aggregate

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/stream"
)

// NotUnderstood is a partition whose last chunk or state this program cannot read. It is not folded until a program takes it that can: its
// parts wait in INGEST, and nothing is lost meanwhile.
type NotUnderstood struct {
	Partition int
	Writer    string // version of the program that wrote the chunk, "" when it is not known
	Err       string // what cannot be read, and what to do
	Since     time.Time
}

// unreadRetry is how long a partition that is not understood is left alone: a newer worker may take it, or a person repair it.
const unreadRetry = 5 * time.Second

// unread notes that a partition cannot be taken over, when err says so, and waits for a while. It logs a cause once.
func (w *Worker) unread(ctx context.Context, o *owner, err error) bool {
	if !errors.Is(err, state.Err) && !errors.Is(err, stream.ErrChunk) {
		return false
	}
	n := NotUnderstood{Partition: o.partition, Writer: o.writer, Since: time.Now()}
	by := "another version of warpline"
	if o.writer != "" {
		by = "warpline " + o.writer
	}
	n.Err = fmt.Sprintf("%v: it was written by %s, or is damaged; start that version or a newer one (its parts wait in INGEST, nothing is "+
		"lost)", err, by)
	w.mu.Lock()
	old, known := w.notUnderstood[o.partition]
	if known {
		n.Since = old.Since
	}
	w.notUnderstood[o.partition] = n
	w.metrics.notUnderstood.Set(float64(len(w.notUnderstood)))
	w.mu.Unlock()
	if !known || old.Err != n.Err {
		o.log.Error("the state of a partition is not understood", "err", n.Err)
	}
	sleep(ctx, unreadRetry)
	return true
}

// understood notes that a partition was taken over.
func (w *Worker) understood(p int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.notUnderstood[p]; ok {
		delete(w.notUnderstood, p)
		w.metrics.notUnderstood.Set(float64(len(w.notUnderstood)))
		w.cfg.Logger.Info("the state of a partition is understood now", "partition", p)
	}
}

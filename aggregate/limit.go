package aggregate

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// What one part may cost. Every kind of part is bounded already (stream.PartBytes, the bounds of lines and artifacts), so no known part
// reaches these; they are there for parts that nobody thought of.
const (
	// foldTime bounds the work on one part; waiting for NATS and ClickHouse is not counted.
	foldTime = 30 * time.Second
	// stuckGrace is how much longer a fold may go on before the process is ended: a fold that still reads lines ends itself before that.
	stuckGrace = 5 * time.Second
	// foldBytes bounds the rows from one part, as estimated by their batches.
	foldBytes = 1 << 30
	// foldTick is how often the clock is read.
	foldTick = 100 * time.Millisecond
)

// foldLimit is the panic value of a fold that goes beyond its bounds.
type foldLimit struct{ reason, detail string }

func (l foldLimit) String() string { return l.detail }

// budget is what is left for a part. The zero value is without limit.
type budget struct {
	clock    *atomic.Int64 // the worker's, see watchFolds
	deadline int64
	bytes    int // size of the output at which the part has used its share
}

// inFold is a part that is being folded, for watchFolds, with what is needed to report that it failed.
type inFold struct {
	seq      uint64
	deadline int64
	lastRows uint64
	head     stream.Chunk
	suspects []stream.Suspect
	counted  bool // this try is among suspects
}

// beginFold starts the clock of a part, and counts the try when the part is doubted.
func (o *owner) beginFold(ctx context.Context, p *Part) error {
	if o.trial.doubted {
		if err := o.try(ctx, p.Seq); err != nil {
			return err
		}
	}
	w := o.w
	p.budget = budget{clock: &w.clock, deadline: w.clock.Load() + int64(w.cfg.foldTime), bytes: foldBytes}
	_, bytes := o.fold.Out.Size()
	p.budget.bytes += bytes
	o.folding.Store(&inFold{seq: p.Seq, deadline: p.budget.deadline, lastRows: o.lastRows, head: o.lastHead, suspects: o.trial.suspects,
		counted: o.trial.counted})
	if w.cfg.beforeFold != nil {
		w.cfg.beforeFold(p.Env)
	}
	return nil
}

// checkTime ends a fold that takes too long. It is cheap enough for every line.
func (p *Part) checkTime() {
	if p.budget.clock != nil && p.budget.clock.Load() > p.budget.deadline {
		panic(foldLimit{"time", fmt.Sprintf("took longer than %v, at line %d", foldTime, p.Line)})
	}
}

// checkRoom ends a fold that makes more rows than a part may. It has to look at each batch.
func (f *Fold) checkRoom(p *Part) {
	if p.budget.clock == nil {
		return
	}
	if _, bytes := f.Out.Size(); bytes > p.budget.bytes {
		panic(foldLimit{"memory", fmt.Sprintf("made more than %d MiB of rows, at line %d", foldBytes>>20, p.Line)})
	}
}

// CheckLine does both: checkTime for every line, checkRoom now and then.
func (f *Fold) CheckLine(p *Part) {
	p.checkTime()
	if p.Line&63 == 0 {
		f.checkRoom(p)
	}
}

// watchFolds moves the clock by which folds are measured: it stands still while the process does (a suspended machine). A fold that does
// not end by itself cannot be stopped from outside: the part is marked, and the process ends, to be started again.
func (w *Worker) watchFolds(ctx context.Context) {
	tick := time.NewTicker(foldTick)
	defer tick.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			passed := w.clock.Add(int64(min(now.Sub(last), 2*foldTick)))
			last = now
			w.mu.Lock()
			var stuck *owner
			for _, o := range w.owners {
				if p := o.folding.Load(); p != nil && passed > p.deadline+int64(w.cfg.stuckGrace) {
					stuck = o
				}
			}
			w.mu.Unlock()
			if stuck != nil {
				w.endStuck(ctx, stuck)
			}
		}
	}
}

// endStuck counts a try for the part whose fold does not end, and ends the process.
func (w *Worker) endStuck(ctx context.Context, o *owner) {
	p := o.folding.Load()
	if p == nil {
		return
	}
	w.metrics.foldFailures.WithLabelValues("stuck").Inc()
	o.log.Error("the fold of a part does not end; the process ends so that it can be started again, and keeps the part as a reject after "+
		"some tries",
		"seq", p.seq, "after", w.cfg.foldTime+w.cfg.stuckGrace)
	t := trial{suspects: p.suspects}
	if !p.counted {
		mark, cancel := context.WithTimeout(ctx, leaveGrace)
		defer cancel()
		rival := newOwner(w, o.partition) // the owner's own fields are its goroutine's
		rival.nonce, rival.lastRows, rival.snapshot = o.nonce, p.lastRows, p.head.Snapshot
		if err := rival.publishTrial(mark, &inFold{seq: p.seq, head: p.head, suspects: t.with(p.seq)}, true); err != nil {
			o.log.Error("the try could not be counted", "err", err)
		}
	}
	if w.cfg.exit != nil {
		w.cfg.exit(1)
		return
	}
	os.Exit(1)
}

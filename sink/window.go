package sink

import (
	"context"
	"time"
)

// replayShare is the part of ROWS up to which the replay window is kept. Beyond it the older half of what is inserted and not needed to
// recover goes, again and again, and beyond fullShare all of it.
const replayShare, fullShare = 0.25, 0.5

// window is what a lane keeps in ROWS after it was inserted, so that it can be replayed. It remembers when each bound came up below which
// nothing is needed to recover; what is below a bound that is older than the window may go. After a restart the bounds begin anew, and
// messages stay up to twice as long. The zero value keeps nothing.
type window struct {
	length time.Duration
	bounds map[int][]bound // by partition, oldest first
	clean  map[int]uint64  // by partition, the deletion up to which everything is purged
}

// bound is a sequence of ROWS, and when nothing below it was needed any more.
type bound struct {
	below uint64
	at    time.Time
}

func newWindow(length time.Duration) *window {
	return &window{length: length, bounds: map[int][]bound{}, clean: map[int]uint64{}}
}

// below returns the sequence below which a partition's messages may be purged now. all is that without a window, and erased the newest
// deletion: what was there before it goes at once. used is how much of ROWS is used. Where that is too much, cut is the time until which
// what was inserted goes early, else zero.
func (w *window) below(partition int, all, erased uint64, used float64) (below uint64, cut time.Time) {
	if w.length <= 0 {
		return all, cut
	}
	if n := len(w.bounds[partition]); used >= fullShare || used >= replayShare && n < 2 {
		delete(w.bounds, partition)
		return all, time.Now()
	}
	if erased > w.clean[partition] {
		if all > erased {
			w.clean[partition] = erased
		}
		delete(w.bounds, partition)
		return all, cut
	}
	list := w.bounds[partition]
	// Sixty bounds a window are enough.
	if n := len(list); n == 0 || all > list[n-1].below && time.Since(list[n-1].at) > w.length/60 {
		list = append(list, bound{all, time.Now()})
	}
	if used >= replayShare {
		old := list[len(list)/2-1]
		below, cut, list = old.below, old.at, list[len(list)/2:]
	}
	for len(list) > 0 && time.Since(list[0].at) > w.length {
		below, list = list[0].below, list[1:]
	}
	w.bounds[partition] = list
	return below, cut
}

// used is how much of ROWS is used, 0 to 1. Where that cannot be known it is taken for empty: it is asked again after the next span.
func (l *lane) used(ctx context.Context) float64 {
	if l.window.length <= 0 {
		return 0 // all goes anyway
	}
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	info, err := l.k.s.Rows.Info(ask)
	if err != nil || info.Config.MaxBytes <= 0 {
		return 0
	}
	return float64(info.State.Bytes) / float64(info.Config.MaxBytes)
}

package sink

import (
	"context"
	"time"
)

// replayShare is the part of ROWS that the replay window may fill: 1/4. Beyond it, what is inserted and not needed to recover goes at once.
const replayShare = 4

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
// deletion: what was there before it goes at once. Without room everything does.
func (w *window) below(partition int, all, erased uint64, roomy bool) uint64 {
	if w.length <= 0 || !roomy {
		delete(w.bounds, partition)
		return all
	}
	if erased > w.clean[partition] {
		if all > erased {
			w.clean[partition] = erased
		}
		delete(w.bounds, partition)
		return all
	}
	list := w.bounds[partition]
	// Sixty bounds a window are enough.
	if n := len(list); n == 0 || all > list[n-1].below && time.Since(list[n-1].at) > w.length/60 {
		list = append(list, bound{all, time.Now()})
	}
	below := uint64(0)
	for len(list) > 0 && time.Since(list[0].at) > w.length {
		below, list = list[0].below, list[1:]
	}
	w.bounds[partition] = list
	return below
}

// roomy reports whether ROWS has room for a replay window.
func (l *lane) roomy(ctx context.Context) bool {
	if l.window.length <= 0 {
		return false
	}
	ask, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	info, err := l.k.s.Rows.Info(ask)
	return err == nil && (info.Config.MaxBytes <= 0 || info.State.Bytes < uint64(info.Config.MaxBytes)/replayShare)
}

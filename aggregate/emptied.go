package aggregate

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// watchRows notices partitions of this worker whose subject in ROWS was emptied: the stream was removed or purged. An owner with parts to
// fold meets that at its next chunk. One that is idle would not for as long as nobody sends, and its checkpoint would be nowhere.
func (w *Worker) watchRows(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		look, cancel := context.WithTimeout(ctx, 2*time.Second)
		info, err := w.streams.Rows.Info(look, jetstream.WithSubjectFilter("rows.*"))
		cancel()
		if err != nil {
			continue
		}
		w.mu.Lock()
		for p := range w.owners {
			if info.State.Subjects[stream.RowsSubject(p)] == 0 {
				w.emptied[p] = true
			}
		}
		w.mu.Unlock()
	}
}

// takeEmptied reports once whether watchRows found the partition's subject empty.
func (w *Worker) takeEmptied(p int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.emptied[p]
	delete(w.emptied, p)
	return found
}

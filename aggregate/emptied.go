package aggregate

import (
	"context"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// watchRows notices partitions of this worker whose subject in ROWS was emptied: the stream was removed or purged. An owner with parts to
// fold notices that at its next chunk. An idle one would not notice until parts come, and the partition would not have a checkpoint.
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

// publishedUpTo notes the newest chunk of a partition that this process published.
func (w *Worker) publishedUpTo(p int, number uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.newest[p] = number
}

// shrunk reports it when ROWS ends before a chunk that this process published. Nothing is lost if the sink had not come so far: the parts
// are folded again.
func (o *owner) shrunk(ctx context.Context, head *stream.Chunk) {
	o.w.mu.Lock()
	newest := o.w.newest[o.partition]
	delete(o.w.newest, o.partition)
	o.w.mu.Unlock()
	if head.Number < newest {
		o.tell(ctx, stream.Loss{Stream: stream.RowsStream, Partition: o.partition, From: head.Number + 1, To: newest,
			Why: "this worker had published them; their parts are folded again"})
	}
}

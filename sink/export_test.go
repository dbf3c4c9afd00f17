package sink

import (
	"context"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// ErrCrash ends a lane as a crash would: nothing that follows is done.
var ErrCrash = errCrash

// SetStep calls f between the steps of the protocol.
func (k *Sink) SetStep(f func(lane int, step string) error) { k.step = f }

// SetLookAgain sets after how long deletions are looked after once more.
func (k *Sink) SetLookAgain(d time.Duration) { k.again = d }

// RunUnleased runs all lanes without leases, as a sink does that wrongly believes it holds them, until ctx ends. A lane that was
// fenced takes itself back, unless once is set.
func (k *Sink) RunUnleased(ctx context.Context, once bool) error {
	k.mu.Lock()
	k.closed = func() bool { return ctx.Err() != nil }
	k.mu.Unlock()
	if err := k.ensure(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	for n := range k.s.Lanes {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				k.runLane(ctx, n)
				if once {
					return
				}
			}
		}()
	}
	for range k.s.Lanes {
		<-done
	}
	return nil
}

// Load takes a ROWS message apart as a lane does before it inserts, and returns how many rows and how many batches it holds.
func Load(msg []byte) (rows, batches int, err error) {
	c, _, body, err := stream.ParseChunk(msg)
	if err != nil || c.Object != "" {
		return 0, 0, err
	}
	s := &span{}
	s.add(message{seq: 1, chunk: c, body: body, size: int64(len(msg))})
	if err := s.load(context.Background(), tabletest.Schema(), nil); err != nil {
		return 0, 0, err
	}
	for _, l := range s.tables {
		if _, err := insertSQL("db", l.name, l.schema); err != nil {
			return 0, 0, err
		}
		for _, p := range l.blocks {
			rows += int(p.rows)
			batches += len(p.batches)
			for i := range p.batches {
				if _, _, err := p.batches[i].read(nil); err != nil {
					return 0, 0, err
				}
			}
		}
	}
	return rows, batches, nil
}

// ColumnNames reads the field names of a schema message.
var ColumnNames = columnNames

package sink_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
)

// A chunk that is sent again under its own number is passed over, and stops nobody.
func TestChunkSentAgain(t *testing.T) {
	w := shared(t)
	w.run(w.sink())
	for range 3 {
		c, body := w.chunk(1, 100)
		msg, err := stream.AppendChunk(nil, &c, nil, body)
		if err != nil {
			t.Fatal(err)
		}
		w.send(1, msg)
		w.send(1, msg)
		w.publish(3, 100) // of the same lane
	}
	w.settled(30 * time.Second)
	c, body := w.chunk(1, 100) // and as the very last message
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		t.Fatal(err)
	}
	w.send(1, msg)
	w.settled(30 * time.Second)
	w.send(1, msg)
	w.settled(30 * time.Second)
}

// The sink dies in the middle of a span, and ROWS is emptied before another one comes: the half that arrived goes, what the worker folds
// again comes in, under numbers beyond the lost ones, and it is told.
func TestSpanIsLostHalfWay(t *testing.T) {
	for _, at := range []string{"recorded", "inserted kernels_data"} {
		t.Run(at, func(t *testing.T) {
			w := shared(t)
			stop := w.run(w.sink())
			for range 5 {
				w.publish(0, 100)
			}
			w.settled(30 * time.Second)
			stop()
			kept := w.want
			w.publish(0, 100)
			w.publish(2, 100)
			k := w.sink()
			var died atomic.Bool
			k.SetStep(func(_ int, step string) error {
				if died.Load() || step == at {
					died.Store(true)
					return sink.ErrCrash
				}
				return nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			go func() {
				for !died.Load() && ctx.Err() == nil {
					time.Sleep(5 * time.Millisecond)
				}
				cancel()
			}()
			k.RunUnleased(ctx, true)
			if !died.Load() {
				t.Fatal("the sink did not come to " + at)
			}
			if err := w.s.Rows.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.want = kept
			w.lastSeq = make([]uint64, 4)
			w.run(w.sink())
			for p := range 4 {
				w.numbers[p] += 1000
				w.publish(p, 100, func(c *stream.Chunk) { c.Base = c.Number })
				w.publish(p, 100)
			}
			c := w.conn()
			defer c.Close()
			var report sink.Report
			for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				got, err := w.got(t.Context(), c)
				if err == nil && got == w.want {
					if report, err = sink.Audit(t.Context(), w.s, c); err == nil && len(report.Problems()) == len(report.Lost) && w.caughtUp(report) {
						break
					}
				}
				if time.Now().After(deadline) {
					t.Fatalf("have %+v\nwant %+v\n%v", got, w.want, report.Problems())
				}
			}
			if !strings.Contains(strings.Join(report.Lost, "\n"), "ROWS lost chunks 6 to 6 of partition 0") {
				t.Errorf("not told: %q", report.Lost)
			}
		})
	}
}

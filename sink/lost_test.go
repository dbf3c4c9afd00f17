package sink_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// A chunk that is sent again under its own number, by a worker of a version that did not say what it follows, is passed over, and stops
// nobody. Those of this version are set aside: TestForeignMessagesAreSetAside.
func TestChunkSentAgain(t *testing.T) {
	w := shared(t)
	w.run(w.sink())
	for range 3 {
		c, body := w.chunk(1, 100)
		c.After = 0
		msg, err := stream.AppendChunk(nil, &c, nil, body)
		if err != nil {
			t.Fatal(err)
		}
		w.send(1, msg)
		w.send(1, msg)
		w.publish(3, 100) // of the same lane
	}
	w.settled(3 * time.Minute)
	c, body := w.chunk(1, 100) // and as the very last message
	c.After = 0
	msg, err := stream.AppendChunk(nil, &c, nil, body)
	if err != nil {
		t.Fatal(err)
	}
	w.send(1, msg)
	w.settled(3 * time.Minute)
	w.send(1, msg)
	w.settled(3 * time.Minute)
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
			w.settled(3 * time.Minute)
			stop()
			kept := w.want
			w.publish(0, 100)
			w.publish(2, 100)
			w.dieAt(at)
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
					if report, err = sink.Audit(t.Context(), w.s, c, tabletest.Schema()); err == nil && len(report.Problems()) == len(report.Lost) &&
						len(report.Lost) > 0 && w.caughtUp(report) {
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

// dieAt runs a sink until it comes to a step, and ends it there as a crash would.
func (w *world) dieAt(at string) {
	w.t.Helper()
	k := w.sink()
	var died atomic.Bool
	k.SetStep(func(_ int, step string) error {
		if died.Load() || step == at {
			died.Store(true)
			return sink.ErrCrash
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	go func() {
		for !died.Load() && ctx.Err() == nil {
			time.Sleep(5 * time.Millisecond)
		}
		cancel()
	}()
	k.RunUnleased(ctx, true)
	if !died.Load() {
		w.t.Fatal("the sink did not come to " + at)
	}
}

// The sink dies in the middle of a span and the marks are lost: the next one begins behind the ledger, and what is there already does not
// double.
func TestMarkIsLostHalfWay(t *testing.T) {
	w := shared(t)
	stop := w.run(w.sink())
	for p := range 4 {
		w.publish(p, 100)
	}
	w.settled(3 * time.Minute)
	stop()
	for p := range 4 {
		w.publish(p, 100)
	}
	w.dieAt("inserted kernels_data")
	for lane := range w.s.Lanes {
		if err := w.s.Marks.Purge(t.Context(), stream.MarkKey(lane)); err != nil {
			t.Fatal(err)
		}
	}
	w.run(w.sink())
	w.publish(1, 100)
	w.settled(3 * time.Minute)
}

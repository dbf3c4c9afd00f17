package sink_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/sink"
)

// A power cut in the middle of a span: ClickHouse has some parts of a load and not the others, and its log of tokens, which is not synced,
// has forgotten all of them. What is missing comes, and what is there does not come again.
func TestTokensAreForgotten(t *testing.T) {
	w := shared(t)
	for p := range 4 {
		w.publish(p, 50)
	}
	crashed := make(chan struct{}, 8)
	ctx, cancel := context.WithCancel(t.Context())
	k := w.sink()
	k.SetStep(func(_ int, step string) error {
		if step == "insert ledger" {
			crashed <- struct{}{}
			return sink.ErrCrash
		}
		return nil
	})
	done := make(chan struct{})
	go func() { defer close(done); k.RunUnleased(ctx, true) }()
	<-crashed
	<-crashed
	cancel()
	<-done
	c := w.conn()
	defer c.Close()
	for _, sql := range []string{
		"DELETE FROM kernels_data WHERE retention_days = 7", // one of the two parts of each load
		"ALTER TABLE kernels_data MODIFY SETTING non_replicated_deduplication_window = 0",
		"ALTER TABLE kernels_data MODIFY SETTING non_replicated_deduplication_window = 10000",
	} {
		if err := c.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if g, err := w.got(t.Context(), c); err != nil || g.kernels != w.want.kernels/2 {
		t.Fatalf("%d kernels are left of %d (%v), want half", g.kernels, w.want.kernels, err)
	}
	w.run(w.sink())
	w.settled(5 * time.Minute)
}

// Nothing of a span is inserted before its chunks and its mark are on disk, and nothing of ROWS is purged before the mark is. A disk that
// takes nothing keeps the lane waiting, not the data out.
func TestNothingIsAheadOfTheDisk(t *testing.T) {
	w := shared(t)
	var barriers, inserts atomic.Int64
	full := func() bool { return barriers.Load() < 4 }
	w.s.Barrier = func(context.Context) error {
		if barriers.Add(1); full() {
			return errors.New("no space left on device")
		}
		return nil
	}
	k := w.sink()
	k.SetStep(func(lane int, step string) error {
		if lane == 0 && step == "insert kernels_data" {
			if inserts.Add(1); full() {
				t.Error("rows are inserted before their chunk is on disk")
			}
		}
		return nil
	})
	w.publish(0, 100)
	w.run(k)
	w.settled(5 * time.Minute)
	if inserts.Load() == 0 || full() {
		t.Errorf("%d inserts after %d barriers", inserts.Load(), barriers.Load())
	}
}

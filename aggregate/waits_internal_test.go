package aggregate

import (
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// What is kept of parts goes when they have waited long enough, also where the owner's clock is set back or forward.
func TestWaits(t *testing.T) {
	const wait = 10 * time.Nanosecond
	for _, c := range []struct {
		name     string
		at       []int64 // when parts 1, 2 … were folded
		now      int64
		released int64 // the last part that no longer waits
	}{
		{"none has waited", []int64{100, 101}, 109, 1},
		{"one has", []int64{100, 101}, 110, 2},
		{"all have", []int64{100, 101}, 111, 3},
		{"set forward", []int64{100, 1000}, 1005, 2},
		{"set back", []int64{100, 1000, 20, 21}, 30, 4},
		{"set back, and all have waited", []int64{100, 1000, 20, 21}, 31, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w waits
			w.begin(stream.Released{At: 1, Stored: 1}, stream.Point{}, time.Unix(0, 0))
			w.folded = nil
			for i, at := range c.at {
				w.add(at, int64(i)+2)
			}
			w.expire(c.now, wait)
			if w.released.Stored != c.released || w.released.Stored > 1 && w.released.At != c.now {
				t.Errorf("released %+v, want part %d", w.released, c.released)
			}
			if kept := len(c.at) - int(c.released-1); len(w.folded) != kept {
				t.Errorf("%d parts are kept, want %d", len(w.folded), kept)
			}
		})
	}
}

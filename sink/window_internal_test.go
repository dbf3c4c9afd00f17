package sink

import (
	"testing"
	"time"
)

// What is inserted stays in ROWS for the replay window, unless a deletion came after it or there is no room.
func TestWindow(t *testing.T) {
	w := newWindow(time.Hour)
	age := func(d time.Duration) {
		for i := range w.bounds[0] {
			w.bounds[0][i].at = w.bounds[0][i].at.Add(-d)
		}
	}
	for _, step := range []struct {
		what        string
		older       time.Duration
		all, erased uint64
		room        bool
		want        uint64
	}{
		{"the first bound waits", 0, 100, 0, true, 0},
		{"a bound that comes at once is not needed", 0, 150, 0, true, 0},
		{"the next bound", 30 * time.Minute, 200, 0, true, 0},
		{"the first bound is old", 31 * time.Minute, 300, 0, true, 100},
		{"the second is too", 31 * time.Minute, 300, 0, true, 200},
		{"a deletion that the worker still needs", 0, 350, 400, true, 350},
		{"a deletion that nobody needs", 0, 450, 400, true, 450},
		{"after it the window begins anew", 0, 500, 400, true, 0},
		{"no room", 0, 600, 400, false, 600},
		{"room again", 0, 700, 400, true, 0},
	} {
		age(step.older)
		if got := w.below(0, step.all, step.erased, step.room); got != step.want {
			t.Errorf("%s: below %d, want %d", step.what, got, step.want)
		}
	}
	if got := newWindow(0).below(0, 100, 0, true); got != 100 {
		t.Errorf("without a window below %d, want 100", got)
	}
}

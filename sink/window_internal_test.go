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
		used        float64 // of ROWS
		want        uint64
		cut         bool
	}{
		{"the first bound waits", 0, 100, 0, 0.24, 0, false},
		{"a bound that comes at once is not needed", 0, 150, 0, 0.24, 0, false},
		{"the next bound", 30 * time.Minute, 200, 0, 0.24, 0, false},
		{"the first bound is old", 31 * time.Minute, 300, 0, 0.24, 100, false},
		{"the second is too", 31 * time.Minute, 300, 0, 0.24, 200, false},
		{"a deletion that the worker still needs", 0, 350, 400, 0.24, 350, false},
		{"a deletion that nobody needs", 0, 450, 400, 0.24, 450, false},
		{"after it the window begins anew", 0, 500, 400, 0.24, 0, false},
		{"no room", 0, 600, 400, 0.25, 600, true},
		{"room again", 0, 700, 400, 0.24, 0, false},
		{"another bound", 10 * time.Minute, 800, 400, 0.24, 0, false},
		{"and another", 10 * time.Minute, 900, 400, 0.24, 0, false},
		{"and the fourth; no room: the older half goes", 10 * time.Minute, 1000, 400, 0.3, 800, true},
		{"a moment later", 0, 1000, 400, 0.3, 900, true},
		{"and again: all goes", 0, 1000, 400, 0.3, 1000, true},
		{"bounds again", 0, 1100, 400, 0.24, 0, false},
		{"and another one", 10 * time.Minute, 1200, 400, 0.24, 0, false},
		{"half full: all goes", 0, 1200, 400, 0.5, 1200, true},
	} {
		age(step.older)
		if got, cut := w.below(0, step.all, step.erased, step.used); got != step.want || cut.IsZero() == step.cut {
			t.Errorf("%s: below %d, cut at %v; want %d, cut: %t", step.what, got, cut, step.want, step.cut)
		}
	}
	if got, cut := newWindow(0).below(0, 100, 0, 0.24); got != 100 || !cut.IsZero() {
		t.Errorf("without a window below %d, want 100", got)
	}
}

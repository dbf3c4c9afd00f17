package aggregate

import (
	"testing"
	"time"
)

// The fuller INGEST is, the more of what was folded goes before its time, and what goes is the oldest.
func TestEarly(t *testing.T) {
	now := time.Now()
	ago := func(minutes int) time.Time { return now.Add(-time.Duration(minutes) * time.Minute) }
	all := []checkpoint{{ago(40), 10}, {ago(30), 20}, {ago(20), 30}, {ago(10), 40}, {ago(5), 50}}
	for _, c := range []struct {
		what        string
		usage       float64
		checkpoints []checkpoint
		upTo        uint64
		cut         time.Time
	}{
		{"half full", 0.5, all, 0, now},
		{"more than half full", 0.51, all, 20, ago(30)},
		{"a few seconds later", 0.51, all[2:], 30, ago(20)},
		{"of two", 0.7, all[3:], 40, ago(10)},
		{"of one", 0.7, all[4:], 99, now},
		{"of none, as after a restart", 0.7, nil, 99, now},
		{"more than three quarters full", 0.76, all, 99, now},
	} {
		if upTo, cut := early(c.usage, c.checkpoints, 99, now); upTo != c.upTo || !cut.Equal(c.cut) {
			t.Errorf("%s: up to %d, cut at %v, want %d and %v", c.what, upTo, cut, c.upTo, c.cut)
		}
	}
}

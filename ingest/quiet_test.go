package ingest

import (
	"fmt"
	"testing"
	"time"
)

func TestQuiet(t *testing.T) {
	q := quiet{interval: 10 * time.Second}
	start := time.Unix(0, 0)
	for i, step := range []struct {
		code string
		at   time.Duration
		ok   bool
		held int
	}{
		{"full", 0, true, 0}, {"full", time.Second, false, 0}, {"unauthorized", time.Second, true, 0}, {"full", 9 * time.Second, false, 0},
		{"full", 10 * time.Second, true, 2}, {"full", 21 * time.Second, true, 0},
	} {
		if ok, held := q.say(step.code, start.Add(step.at)); ok != step.ok || held != step.held {
			t.Errorf("step %d: %v, %d held back; want %v, %d", i, ok, held, step.ok, step.held)
		}
	}
}

// A line says what is known and nothing about what is not.
func TestLogLeavesEmptyFieldsOut(t *testing.T) {
	if got := (&exchange{}).known(); len(got) != 0 {
		t.Errorf("of nothing it knows %v", got)
	}
	got := fmt.Sprint((&exchange{tenant: "acme", outcome: "stored", events: 3}).known())
	if got != "[tenant acme outcome stored events 3]" {
		t.Errorf("it says %s", got)
	}
}

package sink

import (
	"testing"
	"time"
)

// The time between two spans grows with what the last one took, from what is configured up to four times that, and where it took still
// longer to twice what it took, at most ten times what is configured; a good span does not wait for more.
func TestInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		least, took time.Duration
		rows        int
		want        time.Duration
	}{
		{300 * ms, 0, 1000, 300 * ms},
		{300 * ms, 60 * ms, 1000, 300 * ms},
		{300 * ms, 200 * ms, 1000, 800 * ms},
		{300 * ms, 200 * ms, 1<<18 - 1, 800 * ms},
		{300 * ms, 200 * ms, 1 << 18, 300 * ms},
		{300 * ms, 500 * ms, 1000, 1200 * ms},
		{300 * ms, 900 * ms, 1000, 1800 * ms},
		{300 * ms, 900 * ms, 1 << 18, 300 * ms},
		{300 * ms, 20 * time.Second, 1000, 3 * time.Second},
		{20 * ms, 10 * ms, 1000, 40 * ms},
		{20 * ms, time.Second, 1000, 200 * ms},
		{5 * time.Second, time.Second, 1000, 5 * time.Second},
	} {
		if have := (&Config{MinInterval: c.least}).interval(c.took, c.rows); have != c.want {
			t.Errorf("after a span that took %v, with %d rows, with at least %v: %v, want %v", c.took, c.rows, c.least, have, c.want)
		}
	}
}

// A span waits for what is left of the interval, and never longer for a message than the least interval.
func TestSilenceEndsASpan(t *testing.T) {
	const ms = time.Millisecond
	cfg := &Config{MinInterval: 300 * ms}
	for _, c := range []struct{ took, since, want time.Duration }{
		{200 * ms, 0, 300 * ms},
		{200 * ms, 400 * ms, 300 * ms},
		{200 * ms, 700 * ms, 100 * ms},
		{200 * ms, 800 * ms, 0},
		{10 * ms, 100 * ms, 200 * ms},
	} {
		if have := cfg.wait(c.took, c.since, 1000); have != c.want {
			t.Errorf("%v after the begin of a span that took %v: waits %v, want %v", c.since, c.took, have, c.want)
		}
	}
}

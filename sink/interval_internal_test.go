package sink

import (
	"testing"
	"time"
)

// The time between two spans grows with what the last one took, from what is configured up to three times that.
func TestInterval(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ least, took, want time.Duration }{
		{300 * ms, 0, 300 * ms}, {300 * ms, 90 * ms, 300 * ms}, {300 * ms, 200 * ms, 600 * ms}, {300 * ms, 20 * time.Second, 900 * ms},
		{20 * ms, 10 * ms, 30 * ms}, {20 * ms, time.Second, 60 * ms}, {5 * time.Second, time.Second, 5 * time.Second},
	} {
		if have := (&Config{MinInterval: c.least}).interval(c.took); have != c.want {
			t.Errorf("after a span that took %v, with at least %v: %v, want %v", c.took, c.least, have, c.want)
		}
	}
}

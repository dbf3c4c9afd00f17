package aggregate_test

import (
	"maps"
	"sync"
	"testing"
	"time"
)

// clock is what time it is for the folds of workers: the time of day, until it is moved forward. The zero value is ready.
type clock struct {
	mu    sync.Mutex
	ahead time.Duration
	looks map[int]int // how often it was looked at, by partition
}

// at is for Config.WithClock.
func (c *clock) at(partition int) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks == nil {
		c.looks = map[int]int{}
	}
	c.looks[partition]++
	return time.Now().Add(c.ahead)
}

// forward moves the clock. It returns when the owners of all partitions have done what the new time brings about, for which they must have
// nothing to fold; what they publish of it may come later.
func (c *clock) forward(t testing.TB, d time.Duration) {
	t.Helper()
	c.mu.Lock()
	c.ahead += d
	before := maps.Clone(c.looks)
	c.mu.Unlock()
	// An owner looks at each tick, behind it, and twice while it publishes. The first three looks may belong to a tick that was under way.
	const looks = 8
	passed := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for partition, n := range before {
			if c.looks[partition] < n+looks {
				return false
			}
		}
		return len(before) > 0
	}
	for deadline := time.Now().Add(60 * time.Second); !passed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no owner has looked at the clock since it was moved")
		}
	}
}

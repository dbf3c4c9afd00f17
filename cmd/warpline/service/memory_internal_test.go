package service

import "testing"

// The collector's aim is never below what stays in use: it would run all the time and free nothing. A peak does not move it.
func TestMemoryAimFollowsWhatStaysInUse(t *testing.T) {
	var seen heapSeen
	for n, c := range []struct {
		live uint64
		want int64
	}{
		{2 << 30, softMemoryBytes}, {2 << 30, softMemoryBytes}, {2 << 30, softMemoryBytes}, {2 << 30, softMemoryBytes},
		{2 << 30, softMemoryBytes}, {2 << 30, 5 << 29}, {4 << 30, 5 << 29}, {400 << 20, softMemoryBytes}, {2 << 30, softMemoryBytes},
	} {
		if got := seen.aim(n, c.live); got != c.want {
			t.Errorf("look %d, %d bytes are in use: aim %d, want %d", n, c.live, got, c.want)
		}
	}
}

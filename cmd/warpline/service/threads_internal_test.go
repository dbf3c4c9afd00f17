package service

import "testing"

// On few processors threads take turns; of many, one is soon free, and more threads would only cost memory.
func TestThreadsFor(t *testing.T) {
	for processors, want := range map[int]int{1: 3, 2: 6, 8: 24, 64: 80} {
		if got := threadsFor(processors); got != want {
			t.Errorf("%d processors: %d, want %d", processors, got, want)
		}
	}
}

func TestLanesFor(t *testing.T) {
	for processors, want := range map[int]int{1: 1, 2: 1, 3: 2, 64: 2} {
		if got := lanesFor(processors); got != want {
			t.Errorf("%d processors: %d, want %d", processors, got, want)
		}
	}
}

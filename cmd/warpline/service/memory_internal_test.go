package service

import (
	"runtime"
	"slices"
	"testing"
)

// The collector's aim is never below what is in use, or it would run all the time and free nothing. It rises at the first look that finds
// more, and falls when ten seconds have passed without. There is more room where the collector has much to look through.
func TestMemoryAimFollowsWhatIsInUse(t *testing.T) {
	var seen heapSeen
	n := 0
	look := func(times int, live, scanned uint64, want int64) {
		t.Helper()
		for range times {
			if got := seen.aim(n, live, scanned, 1); got != want {
				t.Fatalf("look %d, %d MiB are in use: aim %d MiB, want %d", n, live>>20, got>>20, want>>20)
			}
			n++
		}
	}
	look(3, 400<<20, 0, softMemoryBytes)
	look(1, 2<<30, 0, 2272<<20)
	look(2, 3<<30, 0, 3392<<20)
	look(len(seen)-1, 400<<20, 0, 3392<<20)
	look(100, 400<<20, 0, softMemoryBytes)
	look(1, 850<<20, 0, 960<<20)
	look(1, 851<<20, 0, 960<<20)
	look(1, 2<<30, 1<<30, 2528<<20)
	if got, want := seen.aim(n, 2<<30, 1<<30, mostEase), int64(3296<<20); got != want {
		t.Errorf("with the most room: aim %d MiB, want %d", got>>20, want>>20)
	}
}

// The collector gets more room while it takes more than a fifth of what the process takes, and gives it back once it takes little.
func TestCollectorGetsRoom(t *testing.T) {
	room := ease(1)
	var got []ease
	for _, share := range []float64{0.04, 0.1, 0.2, 0.21, 0.5, 0.1, 0.3, 0.9, 0.9, 0.06, 0.04, 0, 0, 0} {
		room = room.next(share)
		got = append(got, room)
	}
	if want := []ease{1, 1, 1, 2, 3, 3, 4, 4, 4, 4, 3, 2, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("room %v, want %v", got, want)
	}
	if least, most := ease(1).percent(), mostEase.percent(); least != 50 || most != 125 {
		t.Errorf("GOGC from %d to %d", least, most)
	}
	var spent spentCPU
	spent.share()
	for range 3 {
		runtime.GC()
	}
	if share, known := spent.share(); !known || share <= 0 || share > 1 {
		t.Errorf("after three collections: share %v, known %v", share, known)
	}
}

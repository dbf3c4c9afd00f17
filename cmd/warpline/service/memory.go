package service

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"time"
)

// softMemoryBytes is what the roles of one process aim to stay under together. Most of it is what JetStream keeps of the last ten
// seconds of both streams; weak references give some of that back when the collector comes near the aim.
const softMemoryBytes = 900 << 20

// heapEvery is how often the aim is compared with what is in use. At full load on two cores what is in use grows by 150 MB a second.
const heapEvery = 250 * time.Millisecond

// BoundMemory sets the aims of this process's collector until ctx ends, unless the environment says otherwise with Go's own variables.
func BoundMemory(ctx context.Context) {
	if _, set := os.LookupEnv("GOMEMLIMIT"); !set {
		debug.SetMemoryLimit(softMemoryBytes)
		go followHeap(ctx)
	}
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(ease(1).percent())
	}
}

// followHeap raises the aim while more than it is in use. With an aim below what is in use the collector runs all the time and frees
// nothing: 16 M columnar rows on two cores then cost 13.5 s of CPU in place of 10.5.
func followHeap(ctx context.Context) {
	heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	_, fixed := os.LookupEnv("GOGC")
	tick := time.NewTicker(heapEvery)
	defer tick.Stop()
	var seen heapSeen
	aim, room, spent := int64(softMemoryBytes), ease(1), spentCPU{}
	spent.share()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if n%easeEvery == easeEvery-1 && !fixed {
			if share, known := spent.share(); known && room.next(share) != room { // setting it begins a collection
				room = room.next(share)
				debug.SetGCPercent(room.percent())
			}
		}
		metrics.Read(heap)
		now := seen.aim(n, heap[0].Value.Uint64(), heap[1].Value.Uint64(), room)
		if now != aim { // setting it stops the world for a moment
			aim = now
			debug.SetMemoryLimit(aim)
		}
	}
}

// ease is how much room the collector has, from 1 to mostEase. With a million sessions it looks through a gigabyte of them, and with the
// least room it took three fifths of two cores.
type ease int

const (
	mostEase  ease = 4
	easeEvery      = 8 // looks
)

// next is the room after a time in which the collector took that share of what the process took of the processors.
func (e ease) next(share float64) ease {
	switch {
	case share > 0.2:
		return min(e+1, mostEase)
	case share < 0.05:
		return max(e-1, 1)
	}
	return e
}

// percent is Go's GOGC, which is 100 by default.
func (e ease) percent() int { return 25 + 25*int(e) }

// spentCPU is what the process had taken of the processors, in seconds, and the collector of that.
type spentCPU struct{ all, collector float64 }

// share is the collector's share since the last call that knew it: the figures change when a collection ends. What it does while nothing
// else is to do is not in it.
func (s *spentCPU) share() (share float64, known bool) {
	of := []metrics.Sample{{Name: "/cpu/classes/total:cpu-seconds"}, {Name: "/cpu/classes/idle:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}}
	metrics.Read(of)
	was := *s
	s.all = of[0].Value.Float64() - of[1].Value.Float64()
	s.collector = of[2].Value.Float64() + of[3].Value.Float64()
	if s.all <= was.all {
		return 0, false
	}
	return (s.collector - was.collector) / (s.all - was.all), true
}

// heapSeen is what the last looks, ten seconds of them, would have the aim be.
type heapSeen [10 * time.Second / heapEvery]uint64

// aimStep is what the aim is rounded up to, so that it does not move with each look.
const aimStep = 32 << 20

// aim takes look n, from 0: the bytes in use, and those of them that the collector has to look through. It leaves a tenth of what is in use
// for garbage, and with the least room a fourth of what costs time to look through, so that this is done seldom: messages that JetStream
// keeps do not cost any, a million sessions do. The most of the looks counts, so the aim rises at once and falls after ten seconds.
func (h *heapSeen) aim(n int, live, scanned uint64, room ease) int64 {
	h[n%len(h)] = live + live/10 + scanned/4*uint64(room)
	return max(softMemoryBytes, int64((slices.Max(h[:])+aimStep-1)/aimStep*aimStep))
}

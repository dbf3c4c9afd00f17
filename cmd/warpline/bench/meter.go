package bench

import (
	"context"
	"sync"
	"time"
)

// usage is what a process and its descendants use at one moment.
type usage struct {
	ownBytes, childBytes int64 // resident
	ownCPU, childCPU     time.Duration
}

// Load is what the pipeline used while something ran. Memory is resident bytes, CPU user and system time.
type Load struct {
	RolesPeakBytes  int64         `json:"roles_peak_bytes"`
	EnginePeakBytes int64         `json:"engine_peak_bytes"`
	PeakBytes       int64         `json:"peak_bytes"` // of the sum
	RolesCPU        time.Duration `json:"roles_cpu_ns"`
	EngineCPU       time.Duration `json:"engine_cpu_ns"`
}

// sampleEvery is how often memory is read.
const sampleEvery = 100 * time.Millisecond

// measure samples a process (the roles) and its descendants (the engine) until stop is called, which returns what was seen, or nil on a
// system where that cannot be read.
func measure(ctx context.Context, pid int) (stop func() *Load) {
	first, err := processUsage(pid)
	if err != nil {
		return func() *Load { return nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var l Load
	see := func(u usage) {
		l.RolesPeakBytes = max(l.RolesPeakBytes, u.ownBytes)
		l.EnginePeakBytes = max(l.EnginePeakBytes, u.childBytes)
		l.PeakBytes = max(l.PeakBytes, u.ownBytes+u.childBytes)
		l.RolesCPU, l.EngineCPU = u.ownCPU-first.ownCPU, u.childCPU-first.childCPU
	}
	see(first)
	wg.Go(func() {
		for pause(ctx, sampleEvery) == nil {
			if u, err := processUsage(pid); err == nil {
				see(u)
			}
		}
	})
	return func() *Load {
		cancel()
		wg.Wait()
		if u, err := processUsage(pid); err == nil {
			see(u)
		}
		return &l
	}
}

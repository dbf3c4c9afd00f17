package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// usage is what a process and its descendants use at one moment.
type usage struct {
	ownBytes, childBytes int64 // resident
	fileBytes            int64 // of both, pages that are also in files
	ownCPU, childCPU     time.Duration
}

// Load is what the pipeline used while something ran. Memory is resident bytes, CPU user and system time.
type Load struct {
	RolesPeakBytes  int64 `json:"roles_peak_bytes"`
	EnginePeakBytes int64 `json:"engine_peak_bytes"`
	PeakBytes       int64 `json:"peak_bytes"` // of the sum
	// FileBytes are those of PeakBytes that are also in files, above all the code of the engine's library: the system can take them back.
	FileBytes int64         `json:"file_bytes"`
	RolesCPU  time.Duration `json:"roles_cpu_ns"`
	EngineCPU time.Duration `json:"engine_cpu_ns"`
}

// memory says what it took, in words.
func (l *Load) memory() string {
	return fmt.Sprintf("peak: roles %s, engine %s; %s of it are pages of files, above all code", size(float64(l.RolesPeakBytes)),
		size(float64(l.EnginePeakBytes)), size(float64(l.FileBytes)))
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
		if all := u.ownBytes + u.childBytes; all > l.PeakBytes {
			l.PeakBytes, l.FileBytes = all, u.fileBytes
		}
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

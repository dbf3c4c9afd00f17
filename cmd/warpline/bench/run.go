package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// Options say what Run measures in addition to throughput.
type Options struct {
	Config Config
	// Rate is the load of the latency run in kernel rows per second: 0 means half of what was measured.
	Rate float64
	// NoLatency leaves the latency run out.
	NoLatency bool
	// LatencyFor is how long the latency run lasts (0: 20 s).
	LatencyFor time.Duration
	// Rest measures bytes at rest; it merges every table, so it is for services of the bench's own. It needs Schema.
	Rest   bool
	Schema *table.Schema
	// Dir is for windows: some 15 to 40 bytes a kernel. The caller removes it.
	Dir string
	// Durability is what the service was started with, for the result: "os" or "fsync"; "" if it is not known.
	Durability string
	// Progress is called with what is being done and how far it is; it may be nil. It is called from several goroutines.
	Progress func(phase string, done, of int64)
}

// Result is all that was measured. Durations are nanoseconds in JSON.
type Result struct {
	Workload Workload `json:"workload"`
	Seed     uint64   `json:"seed"`
	Sessions int      `json:"sessions"`
	Counts   Counts   `json:"counts"`
	Machine  Machine  `json:"machine"`
	// Durability is the service's, "" if it is not known.
	Durability string `json:"durability,omitempty"`

	Ready     time.Duration `json:"ready_ns,omitempty"`        // start of up until it was ready, 0: not ours
	IdleBytes int64         `json:"idle_bytes,omitempty"`      // resident, roles and engine, before the load; 0: not known
	IdleFiles int64         `json:"idle_file_bytes,omitempty"` // of them those that are also in files
	Load      *Load         `json:"load,omitempty"`

	Posted           time.Duration `json:"posted_ns"`  // until the last window was acknowledged
	Visible          time.Duration `json:"visible_ns"` // until SQL counted every row in raw tables and rollups
	KernelsPerSecond float64       `json:"kernels_per_second"`
	EventsPerSecond  float64       `json:"events_per_second"`
	RawPerSecond     float64       `json:"raw_bytes_per_second"`
	Retries          int64         `json:"retries"`
	Answers          map[int]int   `json:"answers"` // by HTTP status, 0: none came
	Latency          *Latency      `json:"latency,omitempty"`
	Rest             *Rest         `json:"rest,omitempty"`
	Wrong            []string      `json:"wrong,omitempty"` // counts that differ from what was sent: the books do not balance
	Figures          []Figure      `json:"figures"`
}

// Machine is where it ran.
type Machine struct {
	OS          string `json:"os"`
	Arch        string `json:"arch"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
}

func thisMachine() Machine {
	return Machine{runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), machineMemory()}
}

// idleFor is how long a fresh service is left alone before its idle memory is read.
const idleFor = 3 * time.Second

// settleFor is left between the throughput run and the latency run, so that the second does not pay for all merges of the first.
const settleFor = 5 * time.Second

// Run generates a workload, sends it to svc and measures. When the books do not balance the result says so in Wrong.
func Run(ctx context.Context, svc *Service, o Options) (*Result, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	if o.LatencyFor <= 0 {
		o.LatencyFor = 20 * time.Second
	}
	d, err := o.generate(ctx, o.Config, "generate")
	if err != nil {
		return nil, err
	}
	r := &Result{Workload: d.Config.Workload, Seed: d.Config.Seed, Sessions: d.Config.Sessions, Counts: d.Counts, Ready: svc.Ready,
		Durability: o.Durability,
		Machine:    thisMachine()}
	if svc.PID != 0 {
		if err := pause(ctx, idleFor); err != nil {
			return nil, err
		}
		if u, err := processUsage(svc.PID); err == nil {
			r.IdleBytes, r.IdleFiles = u.ownBytes+u.childBytes, u.fileBytes
		}
	}
	if err := r.throughput(ctx, svc, d, o.Progress); err != nil {
		return nil, err
	}
	removeWindows(d)
	if o.Rest && svc.Write != nil {
		o.Progress("merge everything", 0, 0)
		r.Rest, err = measureRest(ctx, *svc.Write, o.Schema, d.Config.Workload == Hour)
		if err != nil {
			return nil, err
		}
	}
	if !o.NoLatency && d.Config.Workload != Hour {
		if err := r.latency(ctx, svc, d.Config, o); err != nil {
			return nil, err
		}
	}
	r.Figures = r.figures()
	return r, nil
}

func (o Options) generate(ctx context.Context, cfg Config, phase string) (*Data, error) {
	dir, err := os.MkdirTemp(o.Dir, string(cfg.Workload)+"-")
	if err != nil {
		return nil, fmt.Errorf("folder for windows: %w", err)
	}
	return Generate(ctx, cfg, dir, func(done, of int64) { o.Progress(phase, done, of) })
}

// removeWindows frees what has been sent. Errors do not matter: the caller removes the folder.
func removeWindows(d *Data) { os.RemoveAll(filepath.Dir(d.Sessions[0].Windows[device][0].Path)) }

// throughput sends everything as fast as it is taken and waits until SQL counts it.
func (r *Result) throughput(ctx context.Context, svc *Service, d *Data, progress func(string, int64, int64)) error {
	list := polls(d.Counts, where(svc, d))
	before := map[string]int64{}
	if !svc.Alone { // the sessions are new, so this is zero unless the same run was sent before
		var err error
		before, err = baseline(ctx, svc, list)
		if err != nil {
			return err
		}
		if before["kernels"] > 0 {
			return errors.New("this service already has these sessions: use another --seed")
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stop func() *Load
	if svc.PID != 0 {
		stop = measure(ctx, svc.PID)
	}
	sender := &sender{url: svc.URL, key: svc.Key}
	began := time.Now()
	var wg sync.WaitGroup
	var sendErr error
	wg.Go(func() {
		sendErr = sender.send(ctx, d)
		if sendErr != nil {
			cancel()
		}
		r.Posted = time.Since(began)
	})
	err := wait(ctx, svc, list, before, func(n int64) { progress("send and count", n, d.Counts.Kernels) })
	r.Visible = time.Since(began)
	if err != nil {
		cancel()
	}
	wg.Wait()
	if stop != nil {
		r.Load = stop()
	}
	if sendErr != nil && !errors.Is(sendErr, context.Canceled) {
		return sendErr
	}
	if err != nil {
		return err
	}
	seconds := r.Visible.Seconds()
	r.KernelsPerSecond, r.EventsPerSecond, r.RawPerSecond = float64(d.Counts.Kernels)/seconds, float64(d.Counts.Events)/seconds,
		float64(d.Counts.RawBytes)/seconds
	r.Retries, r.Answers = sender.retries.Load(), sender.answers
	return r.verify(ctx, svc, d)
}

// verify asks the contract's views, once.
func (r *Result) verify(ctx context.Context, svc *Service, d *Data) error {
	for _, w := range finals(d.Counts, where(svc, d)) {
		got, equal, err := w.ask(ctx, svc.Read)
		if err != nil {
			return err
		}
		if !equal {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: SQL answers %v, sent %v", w.name, got, w.numbers))
		}
	}
	return nil
}

// latency generates a second, paced load and measures how late it becomes visible.
func (r *Result) latency(ctx context.Context, svc *Service, cfg Config, o Options) error {
	rate := o.Rate
	if rate == 0 {
		rate = r.KernelsPerSecond / 2
	}
	d, err := o.generate(ctx, latencyConfig(cfg, rate, o.LatencyFor), "generate for latency")
	if err != nil {
		return err
	}
	defer removeWindows(d)
	if err := pause(ctx, settleFor); err != nil {
		return err
	}
	r.Latency, err = runLatency(ctx, svc, d, rate, func(done, of int64) { o.Progress("measure latency", done, of) })
	return err
}

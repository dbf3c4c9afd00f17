package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/warpline/warpline/cmd/warpline/bench"
)

// benchCmd measures this machine, or a service that runs elsewhere. Load is generated into files first and sent from this process; what
// is measured runs as a process of its own, so that memory and CPU are its alone.
type benchCmd struct {
	Workload  []string      `default:"columnar" enum:"columnar,full,mixed,hour" help:"${bench_workload}"`
	Kernels   int           `default:"0" help:"Kernels to send; 0 for 16 M columnar, 6 M full, 4 M mixed."`
	Sessions  int           `default:"8" help:"Sessions to send in parallel."`
	Seed      uint64        `default:"1" help:"Equal seeds make equal data."`
	Rate      float64       `default:"0" help:"Kernel rows a second while latency is measured; 0 for half of what was reached."`
	Latency   time.Duration `name:"latency-for" default:"20s" help:"How long to measure latency."`
	NoLatency bool          `help:"Leave out latency."`
	NoRest    bool          `help:"Leave out bytes at rest."`
	JSON      bool          `name:"json" help:"Print JSON, one object a workload."`
	Dir       string        `placeholder:"DIR" help:"${bench_dir}"`
	Fsync     bool          `help:"Measure each workload twice, with --durability os and fsync, and print what fsync costs."`

	URL string `name:"url" placeholder:"URL" help:"${bench_url}"`
	Key string `secret:"" placeholder:"KEY" help:"The key to send with."`
	clickhouseFlags
}

// benchKernels is what --kernels 0 means: enough for ten seconds and more, so that a burst which only fills buffers does not pass for
// speed.
var benchKernels = map[bench.Workload]int{bench.Columnar: 16_000_000, bench.Full: 6_000_000,
	bench.Mixed: 4_000_000, bench.Hour: bench.HourKernels}

func (c *benchCmd) check(p *program) error {
	s := p.Settings
	switch {
	case c.Kernels < 0 || c.Sessions < 1 || c.Kernels > 0 && c.Kernels < c.Sessions:
		return fmt.Errorf("%s, %s: %d and %d: each session needs at least one kernel", s.name("kernels"),
			s.name("sessions"), c.Kernels, c.Sessions)
	case c.Latency <= 0:
		return fmt.Errorf("%s: %v: must be above zero; --no-latency leaves latency out", s.name("latency-for"), c.Latency)
	case c.Rate < 0:
		return fmt.Errorf("%s: %v: must be above zero, or 0 for half of what was reached", s.name("rate"), c.Rate)
	case c.URL != "" && c.ClickHouseHTTP == "":
		return fmt.Errorf("%s needs %s: the bench counts in SQL what it has sent", s.name("url"), s.name("clickhouse-http"))
	case c.URL != "" && c.Fsync:
		return fmt.Errorf("%s is for a service of the bench's own: leave %s out", s.name("fsync"), s.name("url"))
	case c.URL == "" && (c.Key != "" || c.ClickHouse != "" || c.ClickHouseHTTP != ""):
		return fmt.Errorf("%s is for a service elsewhere: name its gateway with %s", s.name("clickhouse-http"), s.name("url"))
	}
	return nil
}

// Run measures every workload and prints its table. Counts that are not what was sent are an error.
func (c *benchCmd) Run(ctx context.Context, p *program) error {
	dir, err := os.MkdirTemp(c.Dir, "warpline-bench-")
	if err != nil {
		return usage(fmt.Errorf("%s: %w", p.Settings.name("dir"), err))
	}
	defer os.RemoveAll(dir)
	var wrong []error
	for i, name := range c.Workload {
		if i > 0 && !c.JSON {
			fmt.Fprintln(p.Stdout)
		}
		results, err := c.workload(ctx, p, bench.Workload(name), filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		for _, r := range results {
			for _, w := range r.Wrong {
				wrong = append(wrong, fmt.Errorf("bench %s: %s", name, w))
			}
		}
	}
	return withCode(errors.Join(wrong...), exitUnbalanced)
}

// workload measures one and prints it; with --fsync both durabilities and the price.
func (c *benchCmd) workload(ctx context.Context, p *program, w bench.Workload, dir string) (results []*bench.Result, err error) {
	durabilities := []string{""} // as up has it by default, or the service elsewhere
	if c.Fsync {
		durabilities = []string{"os", "fsync"}
	}
	for i, durability := range durabilities {
		r, err := c.one(ctx, p, w, durability, dir)
		if err != nil {
			return nil, err
		}
		if i > 0 && !c.JSON {
			fmt.Fprintln(p.Stdout)
		}
		if err := c.print(p.Stdout, r); err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	if c.Fsync && !c.JSON {
		fmt.Fprintln(p.Stdout)
		return results, bench.PrintPrice(p.Stdout, results[0], results[1])
	}
	return results, nil
}

func (c *benchCmd) print(w io.Writer, r *bench.Result) error {
	if !c.JSON {
		return r.Print(w)
	}
	return newEncoder(w).Encode(r)
}

func (c *benchCmd) one(ctx context.Context, p *program, w bench.Workload, durability, dir string) (*bench.Result, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	o := bench.Options{Rate: c.Rate, NoLatency: c.NoLatency, LatencyFor: c.Latency, Rest: !c.NoRest && c.URL == "", Schema: schema(), Dir: dir}
	o.Config = bench.Config{Workload: w, Kernels: c.Kernels, Sessions: c.Sessions, Seed: c.Seed}
	if c.Kernels == 0 {
		o.Config.Kernels = benchKernels[w]
	}
	phases := newPhases(p.Stderr)
	defer phases.end()
	o.Progress = phases.tell
	if c.URL != "" {
		o.Config.Run, o.Config.Start = time.Now().UTC().Format(time.RFC3339Nano), time.Now().Add(-time.Hour)
		svc := &bench.Service{URL: c.URL, Key: c.Key, Read: bench.SQL{Addr: c.ClickHouseHTTP, User: c.ClickHouseUser,
			Password: c.ClickHousePassword, Database: c.ClickHouseDatabase}}
		return bench.Run(ctx, svc, o)
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it as a service: %w", err)
	}
	args := []string{"--log-level", "warn"}
	if durability != "" {
		args = append(args, "--durability", durability)
		o.Durability = durability
	}
	phases.tell("start warpline up", 0, 0)
	svc, err := bench.Start(ctx, binary, filepath.Join(dir, "data"), args...)
	if err != nil {
		return nil, err
	}
	defer svc.Stop()
	return bench.Run(ctx, svc, o)
}

// phases shows one bar after the other on a terminal, and elsewhere a line each. Safe for concurrent use.
type phases struct {
	mu   sync.Mutex
	w    io.Writer
	bars bool // a person watches
	name string
	bar  *progressbar.ProgressBar
}

func newPhases(w io.Writer) *phases { return &phases{w: w, bars: isTerminal(w)} }

func (p *phases) tell(name string, done, of int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name != p.name {
		p.finish()
		p.name = name
		if of <= 0 || !p.bars {
			fmt.Fprintf(p.w, "%s\n", name)
			return
		}
		p.bar = progressbar.NewOptions64(of, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(name),
			progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(500*time.Millisecond), progressbar.OptionSetWidth(20),
			progressbar.OptionSetItsString("rows"), progressbar.OptionShowIts())
	}
	if p.bar != nil {
		p.bar.Set64(max(0, min(done, of)))
	}
}

func (p *phases) finish() {
	if p.bar != nil {
		p.bar.Exit()
		fmt.Fprintln(p.w)
		p.bar = nil
	}
}

func (p *phases) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.finish()
}

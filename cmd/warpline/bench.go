package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/warpline/warpline/cmd/warpline/bench"
)

// benchCmd measures this machine, or a service that runs elsewhere. Load is generated into files first and sent from this process; what
// is measured runs as a process of its own, so that memory and CPU are its alone.
type benchCmd struct {
	Workload  []string      `default:"columnar" enum:"columnar,full,mixed,hour,pc,regions,trace,noisy" help:"${bench_workload}"`
	Kernels   int           `default:"0" help:"Kernels to send; 0 for 16 M columnar, 6 M full, 4 M mixed."`
	Sessions  int           `default:"8" help:"Sessions to send in parallel."`
	First     int           `name:"first-session-kernels" default:"0" help:"Kernels of the first session; 0 for as many as the others have."`
	Seed      uint64        `default:"1" help:"Equal seeds make equal data."`
	Rate      float64       `default:"0" help:"Kernel rows a second while latency is measured; 0 for half of what was reached."`
	Latency   time.Duration `name:"latency-for" default:"20s" help:"How long to measure latency."`
	NoLatency bool          `help:"Leave out latency."`
	NoRest    bool          `help:"Leave out bytes at rest."`
	JSON      bool          `name:"json" help:"Print JSON, one object a workload."`
	Dir       string        `placeholder:"DIR" help:"${bench_dir}"`
	Fsync     bool          `help:"Measure each workload twice, with --durability os and fsync, and print what fsync costs."`
	Against   string        `placeholder:"FILE" help:"${bench_against}"`
	Record    string        `placeholder:"FILE" help:"Write the figures to FILE, for --against."`
	benchSoakFlags
	benchReadFlags
	benchPCFlags
	benchNoisyFlags

	URL     string `name:"url" placeholder:"URL" help:"${bench_url}"`
	Key     string `secret:"" placeholder:"KEY" help:"The key to send with."`
	KeyFile string `placeholder:"FILE" help:"File that holds the key alone."`
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
	case c.Soak < 0 || c.Soak > 0 && (c.SoakSessions <= 0 || c.SoakKernels < 1):
		return fmt.Errorf("%s, %s, %s: %v, %v and %d: all must be above zero", s.name("soak"), s.name("soak-sessions"), s.name("soak-kernels"),
			c.Soak, c.SoakSessions, c.SoakKernels)
	case (c.Soak > 0 || c.Read || c.Fsync || c.JSON) && (c.Against != "" || c.Record != ""):
		return fmt.Errorf("%s and %s are for workloads alone, one run of each", s.name("against"), s.name("record"))
	case c.Soak > 0 && c.Read:
		return fmt.Errorf("%s and %s are two measurements: run one after the other", s.name("soak"), s.name("read"))
	case c.URL != "" && (c.Soak > 0 || c.Read || c.Fsync):
		return fmt.Errorf("%s, %s and %s are for a service of the bench's own: leave %s out", s.name("soak"), s.name("read"), s.name("fsync"),
			s.name("url"))
	case c.NeighbourSessions < 1 || c.NeighbourDeletions < 1:
		return fmt.Errorf("%s, %s: %d and %d: both must be above zero", s.name("neighbour-sessions"), s.name("neighbour-deletions"),
			c.NeighbourSessions, c.NeighbourDeletions)
	case c.First < 0:
		return fmt.Errorf("%s: %d: cannot be negative", s.name("first-session-kernels"), c.First)
	case c.URL != "" && c.ClickHouseHTTP == "":
		return fmt.Errorf("%s needs %s: the bench counts in SQL what it has sent", s.name("url"), s.name("clickhouse-http"))
	case c.URL == "" && (c.Key != "" || c.ClickHouse != "" || c.ClickHouseHTTP != ""):
		return fmt.Errorf("%s is for a service elsewhere: name its gateway with %s", s.name("clickhouse-http"), s.name("url"))
	case slices.ContainsFunc(c.Workload, ownService) && (c.URL != "" || c.Soak > 0 || c.Read || c.Fsync || c.Record != "" || c.Against != ""):
		return fmt.Errorf("%s pc, regions, trace and noisy are measured on a service of the bench's own, without %s, %s, %s, %s, %s and %s",
			s.name("workload"), s.name("url"), s.name("soak"), s.name("read"), s.name("fsync"), s.name("record"), s.name("against"))
	}
	return c.benchPCFlags.check(s, c.Rate)
}

// ownService reports whether a workload is measured on a service of the bench's own alone.
func ownService(workload string) bool {
	return slices.Contains([]bench.Workload{bench.PC, bench.Regions, bench.Trace, bench.Noisy}, bench.Workload(workload))
}

// Run measures every workload and prints its table. Counts that are not what was sent are an error.
func (c *benchCmd) Run(ctx context.Context, p *program) error {
	dir, err := os.MkdirTemp(c.Dir, "warpline-bench-")
	if err != nil {
		return usage(fmt.Errorf("%s: %w", p.Settings.name("dir"), err))
	}
	defer os.RemoveAll(dir)
	then, err := c.recorded()
	if err != nil {
		return usage(err)
	}
	now := &bench.Recorded{}
	var wrong []error
	for i, name := range c.Workload {
		if i > 0 && !c.JSON {
			fmt.Fprintln(p.Stdout)
		}
		if one := map[bench.Workload]func(context.Context, *program, string) error{bench.PC: c.pc,
			bench.Regions: c.captures, bench.Trace: c.trace, bench.Noisy: c.noisy}[bench.Workload(name)]; one != nil {
			if err := one(ctx, p, filepath.Join(dir, fmt.Sprint(i))); err != nil {
				return fmt.Errorf("bench %s: %w", name, err)
			}
			continue
		}
		if c.Soak > 0 || c.Read {
			of := c.soak
			if c.Read {
				of = c.read
			}
			if err := of(ctx, p, bench.Workload(name), filepath.Join(dir, fmt.Sprint(i))); err != nil {
				return fmt.Errorf("bench %s: %w", name, err)
			}
			continue
		}
		results, err := c.workload(ctx, p, bench.Workload(name), filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		for _, r := range results {
			now.Add(r)
			for _, w := range r.Wrong {
				wrong = append(wrong, fmt.Errorf("bench %s: %s", name, w))
			}
		}
	}
	if err := c.compare(p, now, then); err != nil {
		return err
	}
	return withCode(errors.Join(wrong...), exitUnbalanced)
}

// recorded reads the figures of --against, nil without it: before anything is measured.
func (c *benchCmd) recorded() (*bench.Recorded, error) {
	if c.Against == "" {
		return nil, nil
	}
	return bench.ReadRecorded(c.Against)
}

// compare prints and records the figures.
func (c *benchCmd) compare(p *program, now, then *bench.Recorded) (err error) {
	if then == nil && c.Record == "" {
		return nil
	}
	now.Unpack, err = bench.Unpack()
	if err != nil {
		return err
	}
	if then != nil {
		fmt.Fprintln(p.Stdout)
		if err := bench.PrintAgainst(p.Stdout, now, then); err != nil {
			return err
		}
	}
	if c.Record == "" {
		return nil
	}
	now.About = time.Now().UTC().Format("2 January 2006") + ", " + version()
	return now.Write(c.Record)
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

// tell prints a result. What is wrong with it is an error.
func (c *benchCmd) tell(p *program, r interface{ Print(io.Writer) error }, wrong []string) error {
	var err error
	if c.JSON {
		err = newEncoder(p.Stdout).Encode(r)
	} else {
		err = r.Print(p.Stdout)
	}
	var all []error
	for _, text := range wrong {
		all = append(all, errors.New(text))
	}
	return errors.Join(err, withCode(errors.Join(all...), exitUnbalanced))
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
	o.Config.First = c.First
	phases := newPhases(p.Stderr)
	defer phases.end()
	o.Progress = phases.tell
	if c.URL != "" {
		o.Config.Run, o.Config.Start = time.Now().UTC().Format(time.RFC3339Nano), time.Now().Add(-time.Hour)
		svc := &bench.Service{URL: c.URL, Key: c.Key, Read: bench.SQL{Addr: c.ClickHouseHTTP, User: c.ClickHouseUser,
			Password: c.ClickHousePassword, Database: c.ClickHouseDatabase}}
		return bench.Run(ctx, svc, o)
	}
	var args []string
	if durability != "" {
		args = append(args, "--durability", durability)
		o.Durability = durability
	}
	svc, err := c.start(ctx, phases, dir, args...)
	if err != nil {
		return nil, err
	}
	defer svc.Stop()
	return bench.Run(ctx, svc, o)
}

// start runs this program as a service of the bench's own. The caller stops it.
func (c *benchCmd) start(ctx context.Context, phases *phases, dir string, args ...string) (*bench.Service, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program to start it as a service: %w", err)
	}
	phases.tell("start warpline up", 0, 0)
	return bench.Start(ctx, binary, filepath.Join(dir, "data"), append([]string{"--log-level", "warn"}, args...)...)
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

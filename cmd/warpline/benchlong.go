package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/bench"
	"github.com/warpline/warpline/docs"
	"github.com/warpline/warpline/proto/tenant"
)

// benchSoakFlags make the bench load a service for long, as many short sessions do.
type benchSoakFlags struct {
	Soak         time.Duration `default:"0s" placeholder:"DURATION" help:"${bench_soak}"`
	SoakSessions float64       `default:"4" help:"With --soak: new sessions a second."`
	SoakKernels  int           `default:"20000" help:"With --soak: kernels of each session."`
}

// benchReadFlags make the bench ask.
type benchReadFlags struct {
	Read      bool `help:"${bench_read}"`
	ReadTimes int  `default:"5" help:"With --read: how often each question is asked."`
}

// benchNoisyFlags are of workload noisy.
type benchNoisyFlags struct {
	Neighbours         []string `placeholder:"NAME" help:"Workload noisy: measure beside these alone; by default all of ${bench_neighbours}."`
	NeighbourSessions  int      `default:"20000" help:"${bench_neighbour_sessions}"`
	NeighbourDeletions int      `default:"10000" help:"Workload noisy: sessions that neighbour deletions deletes."`
}

// own starts a service in a new folder dir. The caller calls done, which removes both.
func (c *benchCmd) own(ctx context.Context, p *program, dir string) (svc *bench.Service, ph *phases, done func(), err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, nil, nil, err
	}
	ph = newPhases(p.Stderr)
	svc, err = c.start(ctx, ph, dir)
	if err != nil {
		ph.end()
		os.RemoveAll(dir)
		return nil, nil, nil, err
	}
	return svc, ph, func() { svc.Stop(); ph.end(); os.RemoveAll(dir) }, nil
}

// soak loads a service, prints a line a minute, and then what they come to.
func (c *benchCmd) soak(ctx context.Context, p *program, w bench.Workload, dir string) error {
	svc, phases, done, err := c.own(ctx, p, dir)
	if err != nil {
		return err
	}
	defer done()
	o := bench.SoakOptions{For: c.Soak, SessionsPerSecond: c.SoakSessions, Dir: dir, Progress: phases.tell,
		Config: bench.Config{Workload: w, Kernels: c.SoakKernels, Seed: c.Seed}}
	if !c.JSON {
		o.Minute = func(m *bench.SoakMinute) {
			if m.Minute == 1 {
				fmt.Fprintln(p.Stdout, bench.SoakHead)
			}
			bench.PrintMinute(p.Stdout, m)
		}
	}
	s, err := bench.RunSoak(ctx, svc, o)
	if s == nil {
		return err
	}
	return errors.Join(err, c.tell(p, s, s.Wrong))
}

// read fills a service and asks.
func (c *benchCmd) read(ctx context.Context, p *program, w bench.Workload, dir string) error {
	svc, phases, done, err := c.own(ctx, p, dir)
	if err != nil {
		return err
	}
	defer done()
	o := bench.ReadOptions{Times: c.ReadTimes, Dir: dir, Progress: phases.tell,
		Config: bench.Config{Workload: w, Kernels: c.Kernels, Sessions: c.Sessions, Seed: c.Seed, First: c.First}}
	if c.Kernels == 0 {
		o.Config.Kernels = benchKernels[w]
	}
	for _, q := range docs.Questions() {
		o.Questions = append(o.Questions, bench.ReadQuestion{About: q.About, SQL: q.SQL})
	}
	for _, v := range readViews {
		o.Questions = append(o.Questions, bench.ReadQuestion{About: "view " + v.name, SQL: v.sql})
	}
	r, err := bench.RunRead(ctx, svc, o)
	if err != nil {
		return err
	}
	if c.JSON {
		return newEncoder(p.Stdout).Encode(r)
	}
	return r.Print(p.Stdout)
}

// noisy measures a quiet tenant beside noisy ones.
func (c *benchCmd) noisy(ctx context.Context, p *program, dir string) error {
	svc, phases, done, err := c.own(ctx, p, dir)
	if err != nil {
		return err
	}
	defer done()
	r, err := bench.RunNoisy(ctx, svc, bench.NoisyOptions{Seed: c.Seed, For: c.Latency, Only: c.Neighbours,
		Sessions: c.NeighbourSessions, Deletions: c.NeighbourDeletions, Dir: dir, Progress: phases.tell})
	if err != nil {
		return err
	}
	return c.tell(p, r, r.Wrong)
}

// readViews are views with what people ask of them first: a count, or the heaviest rows.
var readViews = []struct{ name, sql string }{
	{"kernels, counted", "SELECT count() FROM warpline.kernels"},
	{"kernels, the longest", "SELECT * FROM warpline.kernels ORDER BY duration_ns DESC LIMIT 10"},
	{"kernel_sums", "SELECT kernel, sum(total_ns) AS ns FROM warpline.kernel_sums GROUP BY kernel ORDER BY ns DESC LIMIT 10"},
	{"scope_sums", "SELECT scope, sum(total_ns) AS ns FROM warpline.scope_sums GROUP BY scope ORDER BY ns DESC LIMIT 10"},
	{"kernel_stats", "SELECT kernel, sum(total_ns) AS ns FROM warpline.kernel_stats GROUP BY kernel ORDER BY ns DESC LIMIT 10"},
	{"scope_stats", "SELECT scope, sum(total_ns) AS ns FROM warpline.scope_stats GROUP BY scope ORDER BY ns DESC LIMIT 10"},
	{"sessions", "SELECT * FROM warpline.sessions ORDER BY started_at DESC LIMIT 10"},
	{"pc_samples", "SELECT function, sum(samples) AS n FROM warpline.pc_samples GROUP BY function ORDER BY n DESC LIMIT 10"},
	{"pc_lines", "SELECT file, line, sum(samples) AS n FROM warpline.pc_lines GROUP BY file, line ORDER BY n DESC LIMIT 10"},
	{"source_profile, counted", "SELECT count() FROM warpline.source_profile"},
	{"source_profile", "SELECT function, pc_offset, samples FROM warpline.source_profile ORDER BY samples DESC LIMIT 10"},
	{"function_metrics", "SELECT * FROM warpline.function_metrics LIMIT 10"},
	{"line_metrics", "SELECT * FROM warpline.line_metrics LIMIT 10"},
	{"insights", "SELECT severity, count() FROM warpline.insights GROUP BY severity"},
	{"memcpys", "SELECT copy_kind, sum(bytes) AS n FROM warpline.memcpys GROUP BY copy_kind ORDER BY n DESC"},
	{"scopes", "SELECT path, sum(duration_ns) AS ns FROM warpline.scopes GROUP BY path ORDER BY ns DESC LIMIT 10"},
	{"device_metrics", "SELECT device_id, avg(gpu_util_pct), max(power_w) FROM warpline.device_metrics GROUP BY device_id"},
	{"host_metrics", "SELECT hostname, avg(cpu_pct) FROM warpline.host_metrics GROUP BY hostname"},
}

// benchPCFlags are of workloads pc, regions and trace.
type benchPCFlags struct {
	Pairs     int           `default:"0" help:"Workload pc: pairs to send with each size of batch; 0 for 2.5 M and 5 M."`
	Nodes     int           `default:"0" help:"Workload pc: measure a fleet of so many agents that send --rate pairs a second together."`
	Captures  int           `default:"0" help:"Workload regions: captures to send; 0 for 10."`
	Loops     int           `default:"0" help:"Workload regions: loops of each warp; 0 for 42, which make 1 M slices a capture."`
	TraceSize size          `default:"1GiB" help:"Workload trace: bytes of JSON in all traces together."`
	Traces    int           `default:"4" help:"Workload trace: traces to send at once."`
	For       time.Duration `name:"for" default:"10m" help:"Workload pc: how long the fleet sends."`
}

func (f benchPCFlags) check(s *settings, rate float64) error {
	switch {
	case f.Pairs < 0 || f.Nodes < 0 || f.Captures < 0 || f.Loops < 0 || f.For <= 0:
		return fmt.Errorf("%s, %s, %s, %s, %s: %d, %d, %d, %d and %v: cannot be negative, and a time must be above zero", s.name("pairs"),
			s.name("nodes"), s.name("captures"), s.name("loops"), s.name("for"), f.Pairs, f.Nodes, f.Captures, f.Loops, f.For)
	case f.regions().Bytes() > 2<<30:
		return fmt.Errorf("%s, %s: the buffers take %d bytes, and they are in memory: at most 2GiB", s.name("captures"), s.name("loops"),
			f.regions().Bytes())
	case f.TraceSize < 1<<20 || f.TraceSize > 1<<40 || f.Traces < 1 || f.Traces > 64:
		return fmt.Errorf("%s, %s: 1 to 64 traces of 1MiB to 1TiB in all", s.name("traces"), s.name("trace-size"))
	case f.Nodes > 0 && rate <= 0:
		return fmt.Errorf("%s needs %s: pairs a second over all nodes", s.name("nodes"), s.name("rate"))
	}
	return nil
}

// regions are the options of workload regions.
func (f benchPCFlags) regions() bench.RegionsOptions {
	return bench.RegionsOptions{Captures: f.Captures, Loops: f.Loops}
}

// pc measures workload pc: both sizes of batch, each on a service of its own, or a fleet.
func (c *benchCmd) pc(ctx context.Context, p *program, dir string) error {
	sizes := bench.PCBatchRows
	if c.Nodes > 0 {
		sizes = sizes[:1]
	}
	var wrong []error
	for i, rows := range sizes {
		if i > 0 && !c.JSON {
			fmt.Fprintln(p.Stdout)
		}
		r, err := c.pcOne(ctx, p, rows, filepath.Join(dir, fmt.Sprint(rows)))
		if err != nil {
			return err
		}
		if c.JSON {
			err = newEncoder(p.Stdout).Encode(r)
		} else {
			err = r.Print(p.Stdout)
		}
		if err != nil {
			return err
		}
		for _, w := range r.Wrong {
			wrong = append(wrong, errors.New(w))
		}
	}
	return withCode(errors.Join(wrong...), exitUnbalanced)
}

func (c *benchCmd) pcOne(ctx context.Context, p *program, rows int, dir string) (*bench.PCResult, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	phases := newPhases(p.Stderr)
	defer phases.end()
	svc, err := c.start(ctx, phases, dir)
	if err != nil {
		return nil, err
	}
	defer svc.Stop()
	return bench.RunPC(ctx, svc, rows, bench.PCOptions{Seed: c.Seed, Pairs: c.Pairs, Nodes: c.Nodes, Rate: c.Rate, For: c.For, Dir: dir,
		Rest: !c.NoRest, Progress: phases.tell})
}

// captures measures workload regions.
func (c *benchCmd) captures(ctx context.Context, p *program, dir string) error {
	svc, phases, done, err := c.own(ctx, p, dir)
	if err != nil {
		return err
	}
	defer done()
	o := c.benchPCFlags.regions()
	o.Seed, o.Rest, o.Dir, o.Progress = c.Seed, !c.NoRest, filepath.Join(dir, "gateway"), phases.tell
	r, err := bench.RunRegions(ctx, svc, o)
	if err != nil {
		return err
	}
	return c.tell(p, r, r.Wrong)
}

// trace measures workload trace. Limits grow with the traces.
func (c *benchCmd) trace(ctx context.Context, p *program, dir string) error {
	svc, phases, done, err := c.own(ctx, p, dir)
	if err != nil {
		return err
	}
	defer done()
	o := bench.TraceOptions{Seed: c.Seed, Bytes: int64(c.TraceSize), Sessions: c.Traces, Partitions: broker.DefaultLayout().Partitions,
		Rest: !c.NoRest, Dir: dir, Progress: phases.tell}
	if l := tenant.DefaultLimits(); o.Bytes/int64(o.Sessions) > l.MaxRawBytes {
		each := fmt.Sprint(o.Bytes/int64(o.Sessions)+1<<20, "B")
		o.Gateway = []string{"--limit-raw-body", each, "--limit-body", each, "--spool-max", fmt.Sprint(2*o.Bytes, "B")}
	}
	r, err := bench.RunTraces(ctx, svc, o)
	if err != nil {
		return err
	}
	return c.tell(p, r, r.Wrong)
}

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
	"github.com/warpline/warpline/proto/tenant"
)

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

package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/cmd/warpline/ikp"
)

// ikpCmd works on files of intra-kernel profilers; without a name it is the one that writes them.
type ikpCmd struct {
	Write ikpWriteCmd `cmd:"" default:"withargs" help:"${ikp_write}"`
	Plot  ikpPlotCmd  `cmd:"" help:"${ikp_plot}"`
}

// ikpWriteCmd makes the files of the intra-kernel profiler's host side, without a service.
type ikpWriteCmd struct {
	Input    string   `placeholder:"FILE" help:"${ikp_input}"`
	Events   string   `placeholder:"FILE" help:"The device's records; a name that ends in .gz is unpacked, - is stdin."`
	Counters string   `placeholder:"FILE" help:"The device's counters: how much each warp recorded."`
	Trace    string   `placeholder:"FILE" help:"${ikp_trace}"`
	Scale    *float64 `placeholder:"S" help:"What the times in the trace of --trace were multiplied with; by default the input's, or 1."`
	Out      string   `short:"o" required:"" placeholder:"DIR" help:"Folder to write to; it is made if it is not there."`
}

func (c *ikpWriteCmd) check(p *program) error {
	name := p.Settings.name
	stdin := 0
	for _, file := range []string{c.Input, c.Events, c.Counters, c.Trace} {
		if file == "-" {
			stdin++
		}
	}
	switch {
	case stdin > 1:
		return errors.New("only one of the files can be -: stdin is read once")
	case c.Trace != "" && (c.Events != "" || c.Counters != ""):
		return fmt.Errorf("%s is instead of %s and %s: give one or the other", name("trace"), name("events"), name("counters"))
	case c.Trace == "" && (c.Input == "" || c.Events == "" || c.Counters == ""):
		return fmt.Errorf("give %s, %s and %s, or %s", name("input"), name("events"), name("counters"), name("trace"))
	case c.Trace == "" && c.Scale != nil:
		return fmt.Errorf("%s is for %s: the scale of buffers is in the input, as options.scale", name("scale"), name("trace"))
	case c.Trace != "" && c.Input != "" && c.Scale != nil:
		return fmt.Errorf("%s: the input has a scale, as options.scale: give one of them", name("scale"))
	}
	return nil
}

// Run writes the files.
func (c *ikpWriteCmd) Run(ctx context.Context, p *program) error {
	w := ikp.Write{Input: c.Input, Events: c.Events, Counters: c.Counters, Trace: c.Trace, Scale: c.Scale, Out: c.Out,
		OutName: p.Settings.name("out")}
	return usageOf(w.Run(ctx, p.Stdin, p.Stderr))
}

// ikpPlotCmd draws distributions.
type ikpPlotCmd struct {
	Path    []string `arg:"" placeholder:"PATH" help:"${ikp_plot_path}"`
	Out     string   `short:"o" required:"" placeholder:"DIR" help:"Folder to write to; it is made if it is not there."`
	Regions []int    `placeholder:"ID" help:"Only the regions with these ids."`
	LogX    bool     `name:"logx" help:"Logarithmic axis of durations."`
	Format  []string `enum:"svg,png" default:"svg,png" help:"What to write: svg, png, or both."`
}

// Run draws.
func (c *ikpPlotCmd) Run(ctx context.Context, p *program) error {
	plot := ikp.Plot{Paths: c.Path, Regions: c.Regions, LogX: c.LogX, Formats: c.Format, Out: c.Out, OutName: p.Settings.name("out")}
	return usageOf(plot.Run(ctx, p.Stderr))
}

// usageOf gives errors about the command line their exit code.
func usageOf(err error) error {
	var wrong ikp.Misuse
	if errors.As(err, &wrong) {
		return usage(err)
	}
	return err
}

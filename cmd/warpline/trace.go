package main

import (
	"context"
	"fmt"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

// traceCmd works on traces in Chrome's JSON without a service.
type traceCmd struct {
	Lint traceLintCmd `cmd:"" help:"${trace_lint}"`
	Fix  traceFixCmd  `cmd:"" help:"${trace_fix}"`
	Open traceOpenCmd `cmd:"" help:"Serve a trace on this machine, and print the link that opens it in Perfetto's viewer."`
}

type traceLintCmd struct {
	File     string `arg:"" placeholder:"FILE" help:"A trace in Chrome's JSON, as PyTorch writes; packed with gzip or not, - is stdin."`
	Flows    bool   `help:"Print only the arrows that Perfetto draws, as CSV."`
	JSON     bool   `help:"One JSON object."`
	ExitCode bool   `help:"End with 1 if something is not drawn as it was meant."`
}

func (c *traceLintCmd) check(p *program) error {
	if c.Flows && c.JSON {
		return fmt.Errorf("%s is CSV: leave %s out", p.Settings.name("flows"), p.Settings.name("json"))
	}
	return nil
}

// Run says what viewers draw wrongly.
func (c *traceLintCmd) Run(ctx context.Context, p *program) error {
	l := trace.Lint{Path: c.File, Flows: c.Flows, JSON: c.JSON}
	found, err := l.Run(ctx, p.Stdin, p.Stdout)
	if err == nil && c.ExitCode && !c.Flows && found.Bad() {
		return fmt.Errorf("%s: not all is drawn as it was meant", c.File)
	}
	return err
}

type traceFixCmd struct {
	File   []string `arg:"" placeholder:"FILE" help:"Traces in Chrome's JSON, packed with gzip or not; several are ranks of a job."`
	Out    string   `short:"o" required:"" placeholder:"OUT" help:"File to write: .json and .json.gz for Chrome's JSON, else Perfetto's own."`
	Format string   `enum:",perfetto,chrome" default:"" help:"perfetto or chrome, whatever the name of OUT is."`
}

// Run writes the trace.
func (c *traceFixCmd) Run(ctx context.Context, p *program) error {
	_, err := (&trace.Fix{Paths: c.File, Out: c.Out, Format: c.Format}).Run(ctx, p.Stderr)
	return err
}

type traceOpenCmd struct {
	File string `arg:"" placeholder:"FILE" help:"A trace that Perfetto reads, packed with gzip or not."`
}

// Run serves the file until a signal.
func (c *traceOpenCmd) Run(ctx context.Context, p *program) error {
	return (&trace.Open{Path: c.File}).Run(ctx, p.Stdout, p.Stderr)
}

package main

import (
	"context"
	"fmt"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

// traceCmd works on traces in Chrome's JSON without a service.
type traceCmd struct {
	Lint traceLintCmd `cmd:"" help:"${trace_lint}"`
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

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/warpline/warpline/cmd/warpline/trace"
	stored "github.com/warpline/warpline/query/trace"
)

// traceCmd works on traces in Chrome's JSON, most of it without a service.
type traceCmd struct {
	Lint   traceLintCmd   `cmd:"" help:"${trace_lint}"`
	Fix    traceFixCmd    `cmd:"" help:"${trace_fix}"`
	Export traceExportCmd `cmd:"" help:"${trace_export}"`
	Open   traceOpenCmd   `cmd:"" help:"${trace_open}"`
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

// sessionFlags say whose events are read, and from where.
type sessionFlags struct {
	askFlags
	Session []string `placeholder:"ID" help:"${trace_session}"`
	Tenant  string   `placeholder:"NAME" help:"Of this tenant."`
}

// export writes the sessions to out.
func (c *sessionFlags) export(ctx context.Context, p *program, out, format string) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	e := trace.Export{Out: out, Format: format}
	var sessions []*stored.Session
	for _, id := range c.Session {
		s, err := stored.Find(ctx, conn, database, c.Tenant, id)
		if err != nil {
			return usage(err)
		}
		if slices.ContainsFunc(sessions, func(o *stored.Session) bool { return *o == *s }) {
			return usage(fmt.Errorf("session %s is named twice", s.ID))
		}
		sessions, e.Sessions = append(sessions, s), append(e.Sessions, s.ID)
	}
	e.Events = func(ctx context.Context, i int, w io.Writer) error {
		fmt.Fprintf(p.Stderr, "reading session %s of %s\n", sessions[i].ID, sessions[i].Source)
		n, err := stored.Write(ctx, conn, database, sessions[i], w)
		if err == nil && n == 0 {
			err = errors.New("there are no rows to draw: they were never sent, or their retention is over")
		}
		return err
	}
	_, err = e.Run(ctx, p.Stdout, p.Stderr)
	return err
}

type traceExportCmd struct {
	sessionFlags
	Out    string `short:"o" required:"" placeholder:"OUT" help:"${trace_export_out}"`
	Format string `enum:",perfetto,chrome" default:"" help:"perfetto or chrome, whatever the name of OUT is."`
}

func (c *traceExportCmd) check(p *program) error {
	var err error
	if len(c.Session) == 0 {
		err = fmt.Errorf("%s is missing: say which session to export; \"warpline report\" lists them", p.Settings.name("session"))
	}
	if c.Out == "-" && c.Format == "" {
		err = errors.Join(err, fmt.Errorf("%s is missing: standard output has no name that says perfetto or chrome", p.Settings.name("format")))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run writes the trace.
func (c *traceExportCmd) Run(ctx context.Context, p *program) error {
	return c.export(ctx, p, c.Out, c.Format)
}

type traceOpenCmd struct {
	File string `arg:"" optional:"" placeholder:"FILE" help:"A trace that Perfetto reads, packed with gzip or not."`
	sessionFlags
}

func (c *traceOpenCmd) check(p *program) error {
	if (c.File == "") == (len(c.Session) == 0) {
		return fmt.Errorf("give a file, or a session of a service by %s", p.Settings.name("session"))
	}
	return c.clickhouseFlags.check(p.Settings)
}

// Run serves the file, or what is exported of sessions, until a signal.
func (c *traceOpenCmd) Run(ctx context.Context, p *program) error {
	if c.File == "" {
		dir, err := os.MkdirTemp("", "warpline-trace-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.File = filepath.Join(dir, "session.pftrace")
		if err := c.export(ctx, p, c.File, trace.FormatPerfetto); err != nil {
			return err
		}
	}
	return (&trace.Open{Path: c.File}).Run(ctx, p.Stdout, p.Stderr)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/sink"
)

// replayCmd brings rows back that ClickHouse lost.
type replayCmd struct {
	reachFlags
	clickhouseFlags
	Tenant string `help:"Only this tenant's rows."`
	Table  string `placeholder:"NAME" help:"Only this table, as kernels_data; by default each that lacks rows."`
	From   string `placeholder:"DAY" help:"Only what arrived on this day or later, as 2026-11-20, or how many days ago, as 7d."`
	To     string `placeholder:"DAY" help:"Only what arrived on this day or before."`
	DryRun bool   `help:"Only say what would come back."`
	JSON   bool   `help:"Print JSON for programs."`
}

func (c *replayCmd) check(p *program) error {
	_, err := scopeOf(p.Settings, c.Tenant, c.From, c.To)
	if c.Table != "" && schema().Table(c.Table) == nil {
		err = errors.Join(err, fmt.Errorf("%s: there is no table %q: \"warpline audit\" names tables as they are", p.Settings.name("table"),
			c.Table))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run brings back what it can, and fails with exit code 5 where the books say that something is still missing.
func (c *replayCmd) Run(ctx context.Context, p *program) error {
	of, err := scopeOf(p.Settings, c.Tenant, c.From, c.To)
	if err != nil {
		return usage(err)
	}
	srv, err := writeServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	streams, err := nc.Streams(ctx)
	if err != nil {
		return err
	}
	r, err := srv.Replayer(ctx, streams, schema())
	if err != nil {
		return err
	}
	defer r.Conn.Close()
	desk, err := nc.Desk(ctx, func(err error) { fmt.Fprintln(p.Stderr, "warning:", err) })
	if err != nil {
		return err
	}
	working, end, err := repairs(ctx, p, streams)
	if err != nil {
		return err
	}
	defer end()
	var out sink.ReplayReport
	replay := func() (err error) {
		out, err = r.Replay(working, sink.ReplayScope{Scope: of, Table: c.Table, DryRun: c.DryRun})
		return err
	}
	if c.DryRun {
		err = replay()
	} else {
		err = desk.Restore(ctx, admin.CLI(), of.Tenant, c.Table, replay)
	}
	if err != nil {
		return fmt.Errorf("%w: run it again, what came back stays", err)
	}
	if err := c.print(p, out); err != nil {
		return err
	}
	if len(out.Left) == 0 {
		return nil
	}
	left := make([]string, len(out.Left))
	for i, b := range out.Left {
		left[i] = fmt.Sprintf("tenant %s, table %s, received in %s: %s", b.Tenant, b.Table, b.Day, b.Problem)
	}
	if c.DryRun {
		return withCode(fmt.Errorf("the books do not balance (run it without --dry-run):\n  %s", strings.Join(left, "\n  ")), exitUnbalanced)
	}
	return withCode(fmt.Errorf("what is still wrong is beyond what ROWS holds: put the ClickHouse partition back from a backup, or delete "+
		"the sessions of that time (warpline session delete) and send them again:\n  %s", strings.Join(left, "\n  ")), exitUnbalanced)
}

func (c *replayCmd) print(p *program, out sink.ReplayReport) error {
	if c.JSON {
		enc := newEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if len(out.Tables) > 0 {
		fmt.Fprintln(w, "TABLE\tMISSING\tBACK\tCHUNKS")
	}
	for _, t := range out.Tables {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\n", t.Table, t.Missing, t.Back, t.Chunks)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(out.Tables) == 0 {
		fmt.Fprintln(p.Stderr, "nothing is missing that ROWS holds")
	}
	if out.Chunks == 0 {
		fmt.Fprintln(p.Stderr, "replay window: ROWS holds no chunk")
	} else {
		fmt.Fprintf(p.Stderr, "replay window: %s, the oldest of %s (%s ago)\n", plural(int64(out.Chunks), "chunk"),
			out.Oldest.UTC().Format(time.DateTime), time.Since(out.Oldest).Round(time.Second))
	}
	for _, b := range out.Beyond {
		if b.Chunks > 0 {
			fmt.Fprintf(p.Stderr, "beyond reach: %s: %s\n", plural(int64(b.Chunks), "chunk"), b.Why)
		} else {
			fmt.Fprintf(p.Stderr, "beyond reach: %s\n", b.Why)
		}
	}
	return nil
}

// repairs takes the turn of who changes rows by hand, of which there is one in a service, and says so where it has to wait.
func repairs(ctx context.Context, p *program, streams *broker.Streams) (working context.Context, end func(), err error) {
	return admin.AwaitTurn(ctx, streams, admin.Repair, func() {
		fmt.Fprintln(p.Stderr, "another replay or drop is under way in this service, or was killed just now: waiting for its end")
	})
}

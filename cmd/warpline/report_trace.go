package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/query/report"
)

// reportTraceCmd prints where the time of traces went.
type reportTraceCmd struct {
	askFlags
	Session string `placeholder:"ID" help:"This trace, or those that begin so."`
	Job     string `placeholder:"NAME" help:"The ranks of this job, side by side."`
	Against string `placeholder:"ID" help:"Say what changed by name from this trace, or those that begin so."`
	Tenant  string `placeholder:"NAME" help:"Only this tenant."`
	Top     int    `default:"10" help:"Rows of each list."`
	JSON    bool   `help:"Print JSON for programs."`
}

func (c *reportTraceCmd) check(p *program) error {
	var err error
	if c.Top < 1 || c.Top > 1000 {
		err = fmt.Errorf("%s: %d is outside 1 to 1000", p.Settings.name("top"), c.Top)
	}
	if c.Against != "" && c.Session == "" && c.Job == "" {
		err = errors.Join(err, fmt.Errorf("%s compares two traces: say with %s which is the other", p.Settings.name("against"),
			p.Settings.name("session")))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run reads and prints.
func (c *reportTraceCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := report.ReadTrace(ctx, conn, report.TraceQuery{Database: database, Tenant: c.Tenant, Session: c.Session, Job: c.Job,
		Against: c.Against, Top: c.Top})
	if err != nil {
		return err
	}
	return p.show(r, c.JSON, nil)
}

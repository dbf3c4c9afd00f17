package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/warpline/warpline/query/report"
)

// reportRegionsCmd prints what warps did inside a kernel.
type reportRegionsCmd struct {
	askFlags
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Tenant  string `placeholder:"NAME" help:"Only this tenant."`
	Kernel  string `placeholder:"NAME" help:"Only this kernel."`
	Against string `placeholder:"ID" help:"Say what changed from this session, or those that begin so."`
	Top     int    `default:"10" help:"Captures, and warps that end last."`
	JSON    bool   `help:"Print JSON for programs."`
}

func (c *reportRegionsCmd) check(p *program) error {
	var err error
	if c.Top < 1 || c.Top > 1000 {
		err = fmt.Errorf("%s: %d is outside 1 to 1000", p.Settings.name("top"), c.Top)
	}
	if c.Against != "" && c.Session == "" {
		err = errors.Join(err, fmt.Errorf("%s compares two captures: say with %s which is the other", p.Settings.name("against"),
			p.Settings.name("session")))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run reads and prints.
func (c *reportRegionsCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	r, err := report.ReadRegions(ctx, conn, report.RegionsQuery{Database: database, Tenant: c.Tenant, Session: c.Session, Kernel: c.Kernel,
		Against: c.Against, Top: c.Top})
	if err != nil {
		return err
	}
	return p.show(r, c.JSON, c.nothing(r))
}

// nothing is an error when the command named something and nothing is like it.
func (c *reportRegionsCmd) nothing(r *report.Regions) error {
	var named []string
	for _, n := range [][2]string{{"session", c.Session}, {"kernel", c.Kernel}, {"tenant", c.Tenant}} {
		if n[1] != "" {
			named = append(named, fmt.Sprintf("%s %q", n[0], n[1]))
		}
	}
	switch {
	case len(r.Captures) > 0 && c.Against != "" && r.Base == 0:
		of := ""
		if c.Kernel != "" {
			of = fmt.Sprintf(" and kernel %q", c.Kernel)
		}
		return fmt.Errorf("no captures of session %q%s to compare with: \"warpline report regions\" shows what there is", c.Against, of)
	case len(named) == 0 || len(r.Captures) > 0:
		return nil
	}
	return fmt.Errorf("no captures of %s: \"warpline report regions\" without it shows what there is", strings.Join(named, ", "))
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/warpline/warpline/query/report"
)

// reportMemoryCmd prints what is known of the memory of some ranks.
type reportMemoryCmd struct {
	askFlags
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Job     string `placeholder:"ID" help:"Only this job."`
	Rank    string `default:"all" placeholder:"RANKS" help:"Only these ranks of each job: all, or a list as 0,2,4-7."`
	Tenant  string `placeholder:"NAME" help:"Only this tenant."`
	JSON    bool   `help:"Print JSON for programs."`
}

func (c *reportMemoryCmd) check(p *program) error {
	_, err := report.ParseRanks(c.Rank)
	if err != nil {
		err = fmt.Errorf("%s: %w", p.Settings.name("rank"), err)
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run reads and prints.
func (c *reportMemoryCmd) Run(ctx context.Context, p *program) error {
	ranks, err := report.ParseRanks(c.Rank)
	if err != nil {
		return err
	}
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	m, err := report.ReadMemory(ctx, conn, report.MemoryQuery{Database: database, Tenant: c.Tenant,
		Session: c.Session, Job: c.Job, Ranks: ranks})
	if err != nil {
		return err
	}
	nothing := c.nothing(m)
	if c.JSON {
		enc := newEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(m), nothing)
	}
	if nothing != nil {
		return nothing
	}
	width, colour := p.look(p.Stdout)
	return m.Print(p.Stdout, report.Style{Width: width, Colour: colour})
}

// nothing is an error when the command named something and nothing is like it.
func (c *reportMemoryCmd) nothing(m *report.Memory) error {
	var named []string
	for _, n := range [][2]string{{"session", c.Session}, {"job", c.Job}, {"tenant", c.Tenant}} {
		if n[1] != "" {
			named = append(named, fmt.Sprintf("%s %q", n[0], n[1]))
		}
	}
	if !m.Query.Ranks.All() {
		named = append(named, "rank "+m.Query.Ranks.String())
	}
	if len(named) == 0 || len(m.Series) > 0 {
		return nil
	}
	return fmt.Errorf("no memory telemetry of %s: \"warpline report memory\" without it shows what there is", strings.Join(named, ", "))
}

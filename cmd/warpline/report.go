package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/query/report"
)

// reportCmd is the reports there are; without a name it is that on everything.
type reportCmd struct {
	All     reportAllCmd     `cmd:"" default:"withargs" help:"${report_all}"`
	Memory  reportMemoryCmd  `cmd:"" help:"Memory of each rank and device over time, and what is odd about it."`
	Stalls  reportStallsCmd  `cmd:"" help:"Where warps waited and why: kernels, lines and reasons, and which shares rose."`
	Regions reportRegionsCmd `cmd:"" help:"What warps did inside a kernel: regions, late blocks and warps, what changed."`
	Trace   reportTraceCmd   `cmd:"" help:"Where the time of a Chrome trace went: GPUs, launches, ops, steps, ranks, what changed."`
}

// reportAllCmd prints what is known of some sessions.
type reportAllCmd struct {
	askFlags
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Tenant  string `placeholder:"NAME" help:"Only this tenant."`
	Top     int    `default:"10" help:"Rows of each list."`
	JSON    bool   `help:"Print JSON for programs."`
}

func (c *reportAllCmd) check(p *program) error {
	if c.Top < 1 || c.Top > 1000 {
		return fmt.Errorf("%s: %d is outside 1 to 1000", p.Settings.name("top"), c.Top)
	}
	return c.clickhouseFlags.check(p.Settings)
}

// Run reads and prints.
func (c *reportAllCmd) Run(ctx context.Context, p *program) error {
	srv, err := readServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	r, err := readReport(ctx, srv, report.Query{Database: srv.Database, Tenant: c.Tenant, Session: c.Session, Top: c.Top})
	if err != nil {
		return err
	}
	nothing := c.nothing(r)
	if c.JSON {
		enc := newEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(r), nothing)
	}
	if nothing != nil {
		return nothing
	}
	return printReport(p, p.Stdout, r, srv, 0)
}

// nothing is an error when the command named something and nothing is like it.
func (c *reportAllCmd) nothing(r *report.Report) error {
	if c.Session == "" && c.Tenant == "" || len(r.Sessions)+len(r.Rejects)+len(r.Skipped) > 0 || r.Books.Events > 0 {
		return nil
	}
	var named []string
	if c.Session != "" {
		named = append(named, fmt.Sprintf("no session begins with %q", c.Session))
	}
	if c.Tenant != "" {
		named = append(named, fmt.Sprintf("tenant %q", c.Tenant))
	}
	if c.Session == "" {
		return fmt.Errorf("nothing is here of %s: \"warpline report\" without it shows what there is", named[0])
	}
	return fmt.Errorf("%s: \"warpline report\" without it lists those there are", strings.Join(named, " of "))
}

func readReport(ctx context.Context, srv service.ClickHouse, q report.Query) (*report.Report, error) {
	conn, err := srv.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return report.Read(ctx, conn, q)
}

func printReport(p *program, w io.Writer, r *report.Report, srv service.ClickHouse, sent uint64) error {
	width, colour := p.look(w)
	at := ""
	if srv.HTTP != "" {
		at = "http://" + srv.HTTP
		if srv.TLS {
			at = "https://" + srv.HTTP
		}
	}
	return r.Print(w, report.Style{Width: width, Colour: colour, HTTP: at, User: srv.User, Login: login(srv), Sent: sent})
}

// show prints a report as text, or as JSON for programs. nothing is an error when the command named something and nothing is like it.
func (p *program) show(r interface {
	Print(w io.Writer, st report.Style) error
}, asJSON bool, nothing error) error {
	if asJSON {
		enc := newEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return errors.Join(enc.Encode(r), nothing)
	}
	if nothing != nil {
		return nothing
	}
	width, colour := p.look(p.Stdout)
	return r.Print(p.Stdout, report.Style{Width: width, Colour: colour})
}

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
	return p.show(m, c.JSON, c.nothing(m))
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

package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/warpline/warpline/query/report"
)

// selectionFlags say which PC samples and kernels are meant.
type selectionFlags struct {
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Tenant  string `placeholder:"NAME" help:"Only this tenant."`
	App     string `placeholder:"NAME" help:"Only sessions of this program."`
	Host    string `placeholder:"NAME" help:"Only sessions of this host."`
	Build   string `placeholder:"ID" help:"Only samples of the cubin with this build id, or of those that begin so."`
	Since   string `placeholder:"TIME" help:"${selection_since}"`
	Until   string `placeholder:"TIME" help:"Only minutes that begin before this time."`
}

// selection reads the flags; now is what durations are counted back from.
func (f selectionFlags) selection(s *settings, now time.Time) (report.Selection, error) {
	since, err := parseMoment(s, "since", f.Since, now)
	until, more := parseMoment(s, "until", f.Until, now)
	if err = errors.Join(err, more); err == nil && f.Since != "" && f.Until != "" && !since.Before(until) {
		err = fmt.Errorf("%s: %s is not before %s %s", s.name("since"), f.Since, s.name("until"), f.Until)
	}
	return report.Selection{Tenant: f.Tenant, Session: f.Session, App: f.App, Host: f.Host, Build: f.Build, Since: since, Until: until}, err
}

// parseMoment reads a time as flags have it: RFC 3339, or how long ago, as 90m, 24h and 7d. "" is the zero time.
func parseMoment(s *settings, flag, text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.Year() >= 1970 && at.Year() < 2262 {
		return at, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= 20_000 {
			return now.AddDate(0, 0, -int(n)), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 && ago <= 20_000*24*time.Hour {
		return now.Add(-ago), nil
	}
	return time.Time{}, fmt.Errorf("%s: %q: write a time as 2026-11-20T12:00:00Z, or how long ago as 90m, 24h or 7d", s.name(flag), text)
}

// reportStallsCmd prints where and why warps waited.
type reportStallsCmd struct {
	askFlags
	selectionFlags
	BaseBuild string `placeholder:"ID" help:"${report_base_build}"`
	BaseSince string `placeholder:"TIME" help:"${report_base_since}"`
	BaseUntil string `placeholder:"TIME" help:"${report_base_until}"`
	Top       int    `default:"10" help:"Kernels, lines of each, and shares that rose."`
	JSON      bool   `help:"Print JSON for programs."`
}

func (c *reportStallsCmd) check(p *program) error {
	_, err := c.query(p.Settings, time.Now())
	if c.Top < 1 || c.Top > 1000 {
		err = errors.Join(err, fmt.Errorf("%s: %d is outside 1 to 1000", p.Settings.name("top"), c.Top))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// query makes of the flags what is asked, and what it is compared with.
func (c *reportStallsCmd) query(s *settings, now time.Time) (report.StallsQuery, error) {
	q := report.StallsQuery{Top: c.Top}
	var err error
	q.Selection, err = c.selection(s, now)
	if c.BaseBuild == "" && c.BaseSince == "" && c.BaseUntil == "" || err != nil {
		return q, err
	}
	base := q.Selection
	if c.BaseBuild != "" {
		base.Build = c.BaseBuild
	}
	if c.BaseSince != "" || c.BaseUntil != "" {
		var more error
		base.Since, err = parseMoment(s, "base-since", c.BaseSince, now)
		base.Until, more = parseMoment(s, "base-until", c.BaseUntil, now)
		if err = errors.Join(err, more); err != nil {
			return q, err
		}
		if base.Until.IsZero() { // what came before
			base.Until = q.Since
		}
		if c.BaseBuild == "" && c.Since == "" && c.Until == "" {
			return q, fmt.Errorf("%s compares two times: say with %s which is the other", s.name("base-since"), s.name("since"))
		}
		if !base.Until.IsZero() && !base.Since.Before(base.Until) {
			return q, fmt.Errorf("%s is not before the end of the base, %s: give %s", s.name("base-since"), base.Until.UTC().Format(time.RFC3339),
				s.name("base-until"))
		}
	} else if c.Build == "" {
		q.NotIn = c.BaseBuild // all other builds
	}
	if base == q.Selection {
		return q, fmt.Errorf("%s: the base is what is asked for: name another build or another time", s.name("base-build"))
	}
	q.Base = &base
	return q, nil
}

// Run reads and prints.
func (c *reportStallsCmd) Run(ctx context.Context, p *program) error {
	q, err := c.query(p.Settings, time.Now())
	if err != nil {
		return err
	}
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	q.Database = database
	s, err := report.ReadStalls(ctx, conn, q)
	if err != nil {
		return err
	}
	var nothing error
	if named := q.Named(); named != "" && s.Samples == 0 {
		nothing = fmt.Errorf("no PC samples of %s: \"warpline report stalls\" without it shows what there is", named)
	}
	return p.show(s, c.JSON, nothing)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/rejects"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/query/report"
)

type rejectCmd struct {
	List   rejectListCmd   `cmd:"" help:"List refused lines and bodies, newest first."`
	Show   rejectShowCmd   `cmd:"" help:"Show rejects whole, with the bytes that were kept."`
	Drop   rejectDropCmd   `cmd:"" help:"Drop rejects with their bytes; what they count for in usage stays."`
	Replay rejectReplayCmd `cmd:"" help:"Send kept bytes again, as their tenant: what today's version reads is stored, once."`
}

// rejectFlags pick rejects.
type rejectFlags struct {
	Tenant  string `help:"Only this tenant."`
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Reason  string `help:"Only this reason, as bad_json."`
	Type    string `placeholder:"NAME" help:"Only this type of event, as kernel_event_batch."`
	From    string `placeholder:"TIME" help:"Only those since then: 2026-11-20T12:00:00Z, or 24h ago as 24h."`
	To      string `placeholder:"TIME" help:"Only those before then."`
}

// newestFlags pick the newest of them.
type newestFlags struct {
	rejectFlags
	Limit int `default:"50" help:"Most rejects, the newest."`
}

func (f newestFlags) filter(s *settings, ids []string) (rejects.Filter, error) {
	out, err := f.rejectFlags.filter(s, ids)
	if out.Limit = f.Limit; f.Limit < 1 {
		err = errors.Join(err, fmt.Errorf("%s: %d: must be at least 1", s.name("limit"), f.Limit))
	}
	return out, err
}

func (f rejectFlags) filter(s *settings, ids []string) (rejects.Filter, error) {
	out := rejects.Filter{IDs: ids, Tenant: f.Tenant, Session: f.Session, Reason: f.Reason, Type: f.Type}
	var errs []error
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"from", f.From, &out.From}, {"to", f.To, &out.To}} {
		var err error
		*t.to, err = parseMoment(s, t.flag, t.text, time.Now())
		errs = append(errs, err)
	}
	return out, errors.Join(append(errs, out.Check())...)
}

type rejectListCmd struct {
	askFlags
	newestFlags
	JSON bool `help:"One JSON object a line, payload included."`
}

func (c *rejectListCmd) check(p *program) error {
	_, err := c.filter(p.Settings, nil)
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run asks the view rejects.
func (c *rejectListCmd) Run(ctx context.Context, p *program) error {
	f, err := c.filter(p.Settings, nil)
	if err != nil {
		return err
	}
	all, more, err := c.read(ctx, p, f)
	if err != nil || len(all) == 0 {
		return err
	}
	enc := newEncoder(p.Stdout)
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "ID\tAT\tTENANT\tSESSION\tREASON\tTYPE\tEVENTS\tSIZE\tREPLAYED\tDETAIL")
	}
	for i := range all {
		r := &all[i]
		if c.JSON {
			if err := enc.Encode(r); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(w, rejectLine(r))
	}
	if more {
		fmt.Fprintf(p.Stderr, "these are the newest %d; --limit shows more\n", len(all))
	}
	return w.Flush()
}

// rejectLine is a row for people, its cells divided by tabs.
func rejectLine(r *rejects.Reject) string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s", r.ID, r.At.UTC().Format(time.DateTime), r.Tenant,
		report.Printable(r.Session), r.Reason, report.Printable(r.Type), r.Events, humanize.IBytes(r.Bytes), replayedOf(r),
		report.Printable(r.Detail))
}

func replayedOf(r *rejects.Reject) string {
	switch {
	case !r.ReplayedAt.IsZero():
		return "taken"
	case r.Attempts > 0:
		return fmt.Sprintf("refused %d×", r.Attempts)
	}
	return "-"
}

// read reads rejects, and says so when there are none.
func (f askFlags) read(ctx context.Context, p *program, of rejects.Filter) ([]rejects.Reject, bool, error) {
	conn, database, err := f.ask(ctx)
	if err != nil {
		return nil, false, err
	}
	defer conn.Close()
	all, more, err := rejects.Read(ctx, conn, database, of)
	if err == nil && len(all) == 0 {
		fmt.Fprintln(p.Stderr, "nothing was refused")
	}
	return all, more, err
}

type rejectShowCmd struct {
	askFlags
	ID   []string `arg:"" help:"Ids of rejects, or how they begin, as \"warpline reject list\" shows them."`
	JSON bool     `help:"One JSON object a line."`
}

func (c *rejectShowCmd) check(p *program) error {
	return errors.Join(rejects.Filter{IDs: c.ID}.Check(), c.clickhouseFlags.check(p.Settings))
}

// Run shows each whole.
func (c *rejectShowCmd) Run(ctx context.Context, p *program) error {
	all, _, err := c.read(ctx, p, rejects.Filter{IDs: c.ID, Limit: 1000})
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("no reject has such an id: see \"warpline reject list\"")
	}
	for i := range all {
		r := &all[i]
		if c.JSON {
			if err := newEncoder(p.Stdout).Encode(r); err != nil {
				return err
			}
			continue
		}
		w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
		for _, f := range [][2]string{{"reject", r.ID}, {"at", r.At.UTC().Format(time.DateTime)}, {"tenant", r.Tenant},
			{"session", report.Printable(r.Session)}, {"source", r.Source}, {"stage", r.Stage}, {"reason", r.Reason},
			{"detail", report.Printable(r.Detail)}, {"type", report.Printable(r.Type)}, {"events", fmt.Sprint(r.Events)},
			{"bytes", fmt.Sprintf("%d, %d are kept", r.Bytes, len(r.Payload))}, {"replayed", replayedOf(r)}} {
			fmt.Fprintf(w, "%s\t%s\n", f[0], f[1])
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "\n%s\n\n", strings.TrimRight(report.Printable(r.Payload), " "))
	}
	return nil
}

type rejectReplayCmd struct {
	reachFlags
	clickhouseFlags
	newestFlags
	ID   []string      `arg:"" optional:"" help:"Ids of rejects, or how they begin; or pick them with flags."`
	URL  string        `placeholder:"URL" help:"The gateway; by default that of the \"warpline up\" on --data."`
	Wait time.Duration `default:"30s" help:"Longest to wait until SQL says what became of them."`
	JSON bool          `help:"One JSON object a line."`
}

func (c *rejectReplayCmd) check(p *program) error {
	f, err := c.filter(p.Settings, c.ID)
	if err == nil && !f.Picks() {
		err = errors.Join(err, errors.New("which rejects? name their ids, or pick them with --tenant, --session, --reason, --type or --from"))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run sends them and says what became of each.
func (c *rejectReplayCmd) Run(ctx context.Context, p *program) error {
	f, err := c.filter(p.Settings, c.ID)
	if err != nil {
		return err
	}
	srv, err := readServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, more, err := rejects.Read(ctx, conn, srv.Database, f)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintln(p.Stderr, "nothing was refused that these pick")
		return nil
	}
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	url := c.URL
	if url == "" {
		url, _ = service.GatewayOf(c.Data)
	}
	r := rejects.Replayer{URL: url, Keys: desk.Keys, Conn: conn, Database: srv.Database, Wait: c.Wait}
	var outcomes []rejects.Outcome
	err = desk.Replay(ctx, admin.CLI(), f.Tenant, len(all), func() error {
		outcomes, err = r.Replay(ctx, all)
		return err
	})
	if err != nil && url == "" {
		err = fmt.Errorf("%w: name the gateway with --url", err)
	}
	if err != nil {
		return unreachable(err)
	}
	return c.tell(p, outcomes, more)
}

func (c *rejectReplayCmd) tell(p *program, outcomes []rejects.Outcome, more bool) error {
	taken, left := 0, 0
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "ID\tTENANT\tSESSION\tREASON\tNOW\tWHY")
	}
	for i := range outcomes {
		o := &outcomes[i]
		now := "refused"
		switch {
		case o.Taken:
			now, taken = "taken", taken+1
		case o.Left:
			now, left = "left", left+1
		}
		if c.JSON {
			if err := newEncoder(p.Stdout).Encode(o); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", o.ID, o.Tenant, report.Printable(o.Session), o.Reason, now, report.Printable(o.Why))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "%d taken, %d left, %d not taken\n", taken, left, len(outcomes)-taken-left)
	if more {
		fmt.Fprintf(p.Stderr, "these were the newest %d; --limit picks more\n", len(outcomes))
	}
	if taken+left < len(outcomes) {
		return errors.New("not all were taken: what is refused again keeps its place")
	}
	return nil
}

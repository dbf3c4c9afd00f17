package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/report"
)

type sessionCmd struct {
	List   sessionListCmd   `cmd:"" help:"List sessions, newest first."`
	Export sessionExportCmd `cmd:"" help:"Write all that is known of a session to stdout, one JSON object a row."`
	Delete sessionDeleteCmd `cmd:"" help:"Delete sessions: rows, what waits in the streams, names, objects. What they send later is dropped."`
}

type sessionListCmd struct {
	askFlags
	Tenant string `help:"Only this tenant."`
	Limit  int    `default:"50" help:"Most sessions to print."`
	JSON   bool   `help:"One JSON object a line."`
}

func (c *sessionListCmd) check(p *program) error {
	if c.Limit < 1 {
		return fmt.Errorf("%s: %d: must be at least 1", p.Settings.name("limit"), c.Limit)
	}
	return c.clickhouseFlags.check(p.Settings)
}

type sessionRow struct {
	Tenant       string    `json:"tenant"`
	Session      string    `json:"session_id"`
	Source       string    `json:"source"`
	App          string    `json:"app"`
	Host         string    `json:"host"`
	State        string    `json:"state"`
	StartedAt    time.Time `json:"started_at"`
	LastReceived time.Time `json:"last_received_at"`
	Events       uint64    `json:"events"`
	Kernels      uint64    `json:"kernels"`
}

// line is the row for people, its cells divided by tabs.
func (r sessionRow) line() string {
	started := "–" // its beginning has not come, which the view says with 1970
	if r.StartedAt.Unix() > 0 {
		started = r.StartedAt.Format("2006-01-02 15:04:05")
	}
	if report.IsCubin(r.Session) { // a file that is kept: it has no beginning and no end
		r.State, r.App, r.Host, started = "stored", "(cubin)", "–", "–"
	}
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d", r.Tenant, report.Printable(r.Session), r.State, report.Printable(r.App),
		report.Printable(r.Host),
		started, humanize.Time(r.LastReceived), r.Events, r.Kernels)
}

// Run asks the view sessions.
func (c *sessionListCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	where, args := "1", []any{}
	if c.Tenant != "" {
		where, args = "tenant = ?", []any{c.Tenant}
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT toString(tenant), toString(session_id), toString(source), toString(app), "+
		"toString(host), state, started_at, last_received_at, events, kernels FROM `%s`.sessions WHERE %s ORDER BY last_received_at DESC LIMIT "+
		"%d",
		database, where, c.Limit), args...)
	if err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	defer rows.Close()
	enc := newEncoder(p.Stdout)
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "TENANT\tSESSION\tSTATE\tAPP\tHOST\tSTARTED\tLAST HEARD\tEVENTS\tKERNELS")
	}
	n := 0
	for ; rows.Next(); n++ {
		var r sessionRow
		if err := rows.Scan(&r.Tenant, &r.Session, &r.Source, &r.App, &r.Host, &r.State, &r.StartedAt,
			&r.LastReceived, &r.Events, &r.Kernels); err != nil {
			return fmt.Errorf("read sessions: %w", err)
		}
		if c.JSON {
			if err := enc.Encode(r); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintln(w, r.line())
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read sessions: %w", err)
	}
	if n == 0 {
		fmt.Fprintln(p.Stderr, "no sessions")
		return nil
	}
	return w.Flush()
}

type sessionDeleteCmd struct {
	reachFlags
	clickhouseFlags
	deleteFlags
	Tenant   string   `arg:"" help:"Tenant of the sessions."`
	Sessions []string `arg:"" name:"session" help:"Session ids, as \"warpline session list\" shows them."`
}

// maxSessionArgs keeps one command's tombstones few enough to wait for.
const maxSessionArgs = 10_000

func (c *sessionDeleteCmd) check(p *program) error {
	err := errors.Join(tenant.CheckName(c.Tenant), c.clickhouseFlags.check(p.Settings), c.deleteFlags.check(p))
	if len(c.Sessions) > maxSessionArgs {
		err = errors.Join(err, fmt.Errorf("%d sessions at once: name at most %d", len(c.Sessions), maxSessionArgs))
	}
	for _, s := range c.Sessions {
		err = errors.Join(err, stream.CheckSession(s))
	}
	return err
}

// Run publishes a tombstone for each session and waits until they are carried out.
func (c *sessionDeleteCmd) Run(ctx context.Context, p *program) error {
	e, err := c.deleteFlags.begin(ctx, p, c.reachFlags, c.clickhouseFlags)
	if err != nil {
		return err
	}
	defer e.close()
	ids := slices.Compact(slices.Sorted(slices.Values(c.Sessions)))
	have, err := e.Find(ctx, c.Tenant, ids)
	if err != nil {
		return orAway(err)
	}
	var unknown []string
	for i, id := range ids {
		if have[i].Nothing() {
			unknown = append(unknown, id)
		}
		if e.Conn != nil {
			fmt.Fprintf(p.Stderr, "session %q of tenant %s: %s\n", id, c.Tenant, foundWords(have[i]))
		}
		e.add(stream.Deletion{Tenant: c.Tenant, Session: id})
	}
	if len(unknown) > 0 && !c.Force {
		named := fmt.Sprintf("session %q", unknown[0])
		if len(ids) > 1 {
			named = fmt.Sprintf("%d of the %d sessions named, %q among them", len(unknown), len(ids), unknown[0])
		}
		return fmt.Errorf("nothing is known of %s%s, and nothing was deleted: \"warpline session list --tenant %s\" lists those there are; "+
			"--force deletes what may be on its way",
			named, longerID(ctx, e.Conn, e.Database, c.Tenant, unknown[0]), c.Tenant)
	}
	desk, err := e.desk(ctx)
	if err != nil {
		return err
	}
	e.record = func(order func() error) error { return desk.DeleteSessions(ctx, admin.CLI(), c.Tenant, ids, order) }
	return e.carryOut(ctx, fmt.Sprintf("Delete %s of tenant %s for good?", plural(int64(len(e.deletions)), "session"), c.Tenant))
}

type windowCmd struct {
	Accept windowAcceptCmd `cmd:"" help:"Accept the other bytes that a window came with again (409 window_identity_conflict)."`
}

type windowAcceptCmd struct {
	reachFlags
	Tenant  string `arg:"" help:"Tenant of the window."`
	Session string `arg:"" help:"Session id."`
	Window  string `arg:"" help:"Window id, as the alert shows it."`
}

func (c *windowAcceptCmd) check(*program) error {
	if c.Session == "" || c.Window == "" {
		return errors.New("session and window cannot be empty: copy them from the alert")
	}
	return tenant.CheckName(c.Tenant)
}

// Run lets the next upload of the window in; what was stored of the first one stays.
func (c *windowAcceptCmd) Run(ctx context.Context, p *program) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	streams, err := conn.Streams(ctx)
	if err != nil {
		return err
	}
	if err := ingest.AcceptConflict(ctx, streams, c.Tenant, c.Session, c.Window); err != nil {
		return fmt.Errorf("accept window %s: %w", c.Window, err)
	}
	fmt.Fprintf(p.Stderr, "window %s: the next upload is accepted; the agent retries by itself\n", c.Window)
	return nil
}

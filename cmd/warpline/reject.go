package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/query/report"
)

type rejectCmd struct {
	List rejectListCmd `cmd:"" help:"List refused lines and bodies, newest first."`
}

type rejectListCmd struct {
	askFlags
	Tenant  string `help:"Only this tenant."`
	Session string `placeholder:"ID" help:"Only this session, or those that begin so."`
	Reason  string `help:"Only this reason, as bad_json."`
	Limit   int    `default:"50" help:"Most lines to print."`
	JSON    bool   `help:"One JSON object a line, payload included."`
}

func (c *rejectListCmd) check(p *program) error {
	if c.Limit < 1 {
		return fmt.Errorf("%s: %d: must be at least 1", p.Settings.name("limit"), c.Limit)
	}
	return c.clickhouseFlags.check(p.Settings)
}

type rejectRow struct {
	At      time.Time `json:"at"`
	Tenant  string    `json:"tenant"`
	Session string    `json:"session_id"`
	Source  string    `json:"source"`
	Reason  string    `json:"reason"`
	Detail  string    `json:"detail"`
	Type    string    `json:"type"`
	Events  uint64    `json:"events"`
	Bytes   uint64    `json:"bytes"`
	Payload string    `json:"payload"`
	Ref     string    `json:"payload_ref,omitempty"`
}

// line is the row for people, its cells divided by tabs.
func (r rejectRow) line() string {
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s", r.At.Format("2006-01-02 15:04:05"), r.Tenant,
		report.Printable(r.Session), r.Reason, report.Printable(r.Type),
		r.Events, humanize.IBytes(r.Bytes), report.Printable(r.Detail))
}

// Run asks the view rejects.
func (c *rejectListCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	where, args := []string{"1"}, []any{}
	for _, f := range []struct{ column, value string }{{"tenant", c.Tenant}, {"reason", c.Reason}} {
		if f.value != "" {
			where, args = append(where, f.column+" = ?"), append(args, f.value)
		}
	}
	if c.Session != "" {
		begins, asked := report.SessionBegins("session_id", c.Session)
		where, args = append(where, begins), append(args, asked...)
	}
	rows, err := conn.Query(ctx, fmt.Sprintf(`SELECT at, toString(tenant), toString(session_id), toString(source), toString(reason), detail,`+
		` toString(type), events, bytes, payload, payload_ref
		FROM `+"`%s`"+`.rejects WHERE %s ORDER BY at DESC LIMIT %d`, database, strings.Join(where, " AND "), c.Limit), args...)
	if err != nil {
		return fmt.Errorf("read rejects: %w", err)
	}
	defer rows.Close()
	enc := newEncoder(p.Stdout)
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "AT\tTENANT\tSESSION\tREASON\tTYPE\tEVENTS\tSIZE\tDETAIL")
	}
	n := 0
	for ; rows.Next(); n++ {
		var r rejectRow
		if err := rows.Scan(&r.At, &r.Tenant, &r.Session, &r.Source, &r.Reason, &r.Detail, &r.Type,
			&r.Events, &r.Bytes, &r.Payload, &r.Ref); err != nil {
			return fmt.Errorf("read rejects: %w", err)
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
		return fmt.Errorf("read rejects: %w", err)
	}
	if n == 0 {
		fmt.Fprintln(p.Stderr, "nothing was refused")
		return nil
	}
	return w.Flush()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/warpline/warpline/cmd/warpline/cost"
	"github.com/warpline/warpline/cmd/warpline/doctor"
	"github.com/warpline/warpline/cmd/warpline/proof"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/table"
)

// auditCmd proves that what the streams and the ledger say is what ClickHouse holds.
type auditCmd struct {
	reachFlags
	clickhouseFlags
	Tenant string `help:"Only this tenant's books; streams and lanes are left out then, as with --from and --to."`
	From   string `placeholder:"DAY" help:"Only what arrived on this day or later, as 2026-11-20, or how many days ago, as 7d."`
	To     string `placeholder:"DAY" help:"Only what arrived on this day or before."`
	Deep   bool   `help:"${audit_deep}"`
	JSON   bool   `help:"Print JSON for programs."`
	Accept bool   `help:"${audit_accept}"`
}

func (c *auditCmd) check(p *program) error {
	of, err := c.scope(p.Settings)
	if c.Accept && of != (sink.Scope{}) {
		err = errors.Join(err, fmt.Errorf("%s goes without %s, %s and %s: what the roles found belongs to no tenant", p.Settings.name("accept"),
			p.Settings.name("tenant"), p.Settings.name("from"), p.Settings.name("to")))
	}
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// scope is what the flags pick.
func (c *auditCmd) scope(s *settings) (sink.Scope, error) { return scopeOf(s, c.Tenant, c.From, c.To) }

// scopeOf reads the flags that pick a tenant and days.
func scopeOf(s *settings, tenantName, from, to string) (sink.Scope, error) {
	of := sink.Scope{Tenant: tenantName}
	var errs []error
	if tenantName != "" {
		if err := tenant.CheckName(tenantName); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name("tenant"), err))
		}
	}
	for _, d := range []struct {
		flag, text string
		to         *int32
	}{{"from", from, &of.From}, {"to", to, &of.To}} {
		var err error
		*d.to, err = parseDay(s, d.flag, d.text, time.Now())
		errs = append(errs, err)
	}
	if of.From > 0 && of.To > 0 && of.From > of.To {
		errs = append(errs, fmt.Errorf("%s is after %s: exchange them", s.name("from"), s.name("to")))
	}
	return of, errors.Join(errs...)
}

// parseDay reads a day, in days since the epoch; "" is 0.
func parseDay(s *settings, flag, text string, now time.Time) (int32, error) {
	if text == "" {
		return 0, nil
	}
	if at, err := time.Parse(time.DateOnly, text); err == nil && at.Year() > 1970 && at.Year() < 2106 {
		return table.DayOf(at.UnixNano()), nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil && n <= 10_000 {
			return table.DayOf(now.AddDate(0, 0, -int(n)).UnixNano()), nil
		}
	}
	return 0, fmt.Errorf("%s: %q: write a day as 2026-11-20, or how many days ago as 7d", s.name(flag), text)
}

// Run prints the proof, and fails with exit code 5 where it does not hold.
func (c *auditCmd) Run(ctx context.Context, p *program) error {
	srv, err := readServer(c.clickhouseFlags, c.Data)
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
	conn, err := srv.OpenIn(ctx, srv.Database)
	if err != nil {
		return err
	}
	defer conn.Close()
	of, err := c.scope(p.Settings)
	if err != nil {
		return usage(err)
	}
	r, err := proof.Make(ctx, streams, conn, schema(), of, c.Deep)
	if err != nil {
		return err
	}
	if err := c.print(p, r); err != nil {
		return err
	}
	if c.Accept {
		for _, f := range r.Found {
			fmt.Fprintln(p.Stderr, "accepted: "+f.String())
		}
		if err := streams.AcceptFindings(ctx); err != nil {
			return fmt.Errorf("accept what was found: %w", err)
		}
		for _, l := range r.LostParts {
			fmt.Fprintln(p.Stderr, "accepted: "+l.String())
		}
		if err := ingest.AcceptParts(ctx, streams); err != nil {
			return err
		}
		r.Found, r.LostParts = nil, nil
		for _, w := range r.BrokenWindows() {
			fmt.Fprintln(p.Stderr, "accepted: "+w)
		}
		for i := range r.Windows {
			r.Windows[i].Accepted = true
		}
	}
	for _, w := range r.Windows {
		if w.Short && (!w.Broken || w.Accepted) {
			fmt.Fprintf(p.Stderr, "note: %s; %s\n", w.Found, w.Fix)
		}
	}
	if of != (sink.Scope{}) && len(r.Usage) == 0 && len(r.Books) == 0 {
		r.Notes = append(r.Notes, "nothing came of the tenant on those days that the books know: \"warpline tenant list\" lists the tenants")
	}
	for _, n := range r.Notes {
		fmt.Fprintln(p.Stderr, "note: "+n)
	}
	problems := r.Problems()
	if len(problems) == 0 {
		if of != (sink.Scope{}) {
			fmt.Fprintln(p.Stderr, "the tables hold what was given to each tenant on those days"+deepWords(r.Deep))
			return nil
		}
		since := ""
		if len(r.Notes) > 0 {
			since = "since the present streams were made, "
		}
		fmt.Fprintln(p.Stderr, since+"every range of every lane was inserted once, the tables hold what the ledger says, and the streams have "+
			"what they say they have"+deepWords(r.Deep))
		return nil
	}
	return withCode(fmt.Errorf("the books do not balance (when the service is busy, try again once it is quiet; --accept forgets what the "+
		"roles found and you have read):\n  %s", strings.Join(problems, "\n  ")), exitUnbalanced)
}

// deepWords say what --deep looked at.
func deepWords(d *sink.Deep) string {
	if d == nil {
		return ""
	}
	words := fmt.Sprintf("; %s of chunks of %s were looked at", plural(int64(d.Rows), "row"), plural(int64(d.Ranges), "range"))
	if d.Unproven > 0 {
		words += fmt.Sprintf(", and of %d more, which an older version inserted, the ledger does not have the chunks", d.Unproven)
	}
	return words
}

func (c *auditCmd) print(p *program, r proof.Proof) error {
	if c.JSON {
		enc := newEncoder(p.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	}
	good := func(problems ...string) string { // the words themselves are on stderr
		if len(problems) == 0 || problems[0] == "" {
			return "ok"
		}
		return "WRONG"
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	c.printBooks(w, r)
	if c.Tenant != "" || c.From != "" || c.To != "" {
		return w.Flush()
	}
	fmt.Fprintln(w, "\nLANE\tMARK\tRANGES\tROWS\t")
	for _, l := range r.Lanes {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%s\n", l.Lane, l.Mark, l.Ranges, l.Rows, good(l.Problems...))
	}
	fmt.Fprintln(w, "\nTABLE\tLEDGER\tSTORED\t\t")
	for _, t := range r.Tables {
		stored := fmt.Sprint(t.Stored)
		if t.Merges {
			stored += " merged"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", t.Table, t.Ledger, stored, good(t.Problems...))
	}
	fmt.Fprintln(w, "\nSTREAM\tMESSAGES\tREAD\t\t")
	for _, s := range r.Streams {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", s.Stream, s.Messages, s.Read, good(s.Problems...))
	}
	if len(r.Windows) > 0 {
		fmt.Fprintln(w, "\nREPLAY WINDOW\tREACHES BACK\tOF\t")
	}
	for _, of := range r.Windows {
		good := "ok"
		if of.Short {
			good = "SHORT"
		}
		fmt.Fprintf(w, "%s\t%v\t%v\t%s\n", of.Stream, seconds(of.Seconds), seconds(of.Promised), good)
	}
	if len(r.Found) > 0 {
		fmt.Fprintln(w, "\nFOUND\tPARTITION\tCOUNT\tUNTIL")
		for _, f := range r.Found {
			fmt.Fprintf(w, "%s in %s\t%d\t%d\t%s\n", f.Kind, f.Stream, f.Partition, f.Count, f.Until.UTC().Format("2006-01-02 15:04:05"))
		}
	}
	return w.Flush()
}

func seconds(s float64) time.Duration { return time.Duration(s) * time.Second }

// printBooks prints what became of events, and what is wrong in the books; of one tenant all of them.
func (c *auditCmd) printBooks(w io.Writer, r proof.Proof) {
	fmt.Fprintln(w, "TENANT\tDAY\tACCEPTED\tSTORED\tREJECTED\tDUPLICATES\tPENDING\tDOOR\tLOST\t")
	for _, u := range r.Usage {
		more, good := "", "ok"
		if r.PendingMore {
			more = "+"
		}
		if u.Problem != "" {
			good = "WRONG"
		}
		fmt.Fprintf(w, "%s\t%s\t%d%s\t%d\t%d\t%d\t%d%s\t%d\t%d\t%s\n", u.Tenant, u.Day, u.Accepted, more, u.Stored, u.Rejected,
			u.Duplicates, u.Pending, more, u.Door, u.Lost, good)
	}
	head := "\nTENANT\tDAY\tTABLE\tGIVEN\tDELETED\tSTORED\t"
	for _, b := range r.Books {
		if c.Tenant == "" && b.Problem == "" {
			continue
		}
		if head != "" {
			fmt.Fprintln(w, head)
			head = ""
		}
		stored, good := fmt.Sprint(b.Stored), "ok"
		if b.Merges {
			stored += " merged"
		}
		if b.Problem != "" {
			good = "WRONG"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\t%s\n", b.Tenant, b.Day, b.Table, b.Given, b.Deleted, stored, good)
	}
}

// doctorCmd looks for what will hurt a running service later.
type doctorCmd struct {
	reachFlags
	clickhouseFlags
	NATSMonitor string `placeholder:"URL" help:"Monitoring address of a NATS server, as http://127.0.0.1:8222, to see how often it syncs."`
	JSON        bool   `help:"One JSON object a line, with check, ok, found and fix."`
}

func (c *doctorCmd) check(p *program) error {
	if u, err := url.Parse(c.NATSMonitor); c.NATSMonitor != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return fmt.Errorf("%s: %q: write it as http://127.0.0.1:8222", p.Settings.name("nats-monitor"), c.NATSMonitor)
	}
	return c.clickhouseFlags.check(p.Settings)
}

// Run prints what each check found, and fails where something is to be done.
func (c *doctorCmd) Run(ctx context.Context, p *program) error {
	srv, err := readServer(c.clickhouseFlags, c.Data)
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
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	keys, err := ingest.NewKeys(streams.Keys).List(ctx)
	if err != nil {
		return err
	}
	tenants, err := ingest.NewTenants(streams.Keys).List(ctx)
	if err != nil {
		return err
	}
	classes, _ := ingest.ReadClasses(ctx, streams.Keys) // without any, the check says so
	patient := doctor.Patient{Streams: streams, Conn: conn, Database: srv.Database, Schema: schema(), Keys: keys, Tenants: tenants,
		Classes: classes, HTTP: srv.HTTP, Monitor: c.NATSMonitor}
	if r, err := service.ReadRunning(c.Data); err == nil && service.Held(c.Data) {
		patient.Dir, patient.Gateway = c.Data, "http://"+r.Gateway
		if c.NATS == "" {
			patient.NATSSync = r.NATSSync
		}
		if r.GatewayTLS {
			patient.Gateway = "https://" + r.Gateway
		}
	}
	if writer, err := writeServer(c.clickhouseFlags, c.Data); err == nil && c.ClickHouse == "" && writer.User == engine.Writer {
		sees, err := writer.Open(ctx)
		if err != nil {
			return err
		}
		defer sees.Close()
		patient.Writer = sees
	}
	wrong := 0
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	for _, f := range patient.Examine(ctx) {
		if !f.OK {
			wrong++
		}
		if c.JSON {
			if err := newEncoder(p.Stdout).Encode(f); err != nil {
				return err
			}
			continue
		}
		said := "ok"
		if !f.OK {
			said = "LOOK"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", said, f.Check, f.Found)
		if f.Fix != "" {
			fmt.Fprintf(w, "\t\t  %s\n", f.Fix)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("%s to look at: each line above says what to do", plural(int64(wrong), "thing"))
	}
	return nil
}

// costCmd reckons what a month costs.
type costCmd struct {
	askFlags
	natsFlags
	Tenant          string  `help:"Only the load of this tenant."`
	EventsPerSecond float64 `placeholder:"N" help:"The load to reckon with; by default that of the last full days, at most 7."`
	PriceGBMonth    float64 `name:"price-gb-month" default:"0.10" placeholder:"USD" help:"What a gigabyte of disk costs in a month."`
	PriceCoreHour   float64 `default:"0.05" placeholder:"USD" help:"What a core costs in an hour."`
	CPUPerEvent     float64 `name:"cpu-us-per-event" default:"2.6" placeholder:"N" help:"${cost_cpu}"`
	Busy            float64 `default:"0.5" placeholder:"SHARE" help:"Share of the cores that works on average; the rest is for peaks."`
	RetentionDays   float64 `placeholder:"N" help:"Days that raw rows are kept; by default as the retention class of the tenant says."`
	RollupDays      float64 `placeholder:"N" help:"Days that rollups are kept; by default as the retention class of the tenant says."`
	JSON            bool    `help:"Print JSON for programs."`
}

func (c *costCmd) check(p *program) error {
	for flag, v := range map[string]float64{"events-per-second": c.EventsPerSecond, "price-gb-month": c.PriceGBMonth,
		"price-core-hour": c.PriceCoreHour, "cpu-us-per-event": c.CPUPerEvent, "retention-days": c.RetentionDays, "rollup-days": c.RollupDays} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s: %v: use a positive number", p.Settings.name(flag), v)
		}
	}
	for flag, v := range map[string]float64{"retention-days": c.RetentionDays, "rollup-days": c.RollupDays} {
		if v > tenant.MaxDays {
			return fmt.Errorf("%s: %v: use at most %d days", p.Settings.name(flag), v, tenant.MaxDays)
		}
	}
	if !(c.Busy > 0 && c.Busy <= 1) {
		return fmt.Errorf("%s: %v: use a share above 0, at most 1", p.Settings.name("busy"), c.Busy)
	}
	return c.clickhouseFlags.check(p.Settings)
}

// days are those that the flags give, or else those of the tenant's retention class, which NATS has. Where no service is named that would
// tell, they are the program's own.
func (c *costCmd) days(ctx context.Context) (cost.Days, error) {
	if c.RetentionDays > 0 && c.RollupDays > 0 || c.NATS == "" && !service.Held(c.Data) {
		return cost.DaysOf(nil, nil).Or(c.RetentionDays, c.RollupDays), nil
	}
	nc, err := reachFlags{c.Data, c.natsFlags}.connect(ctx)
	if err != nil {
		return cost.Days{}, err
	}
	defer nc.Close()
	streams, err := nc.Streams(ctx)
	if err != nil {
		return cost.Days{}, err
	}
	classes, _ := ingest.ReadClasses(ctx, streams.Keys) // without any there is what records say
	var record *tenant.Record
	if c.Tenant != "" {
		r, err := ingest.NewTenants(streams.Keys).Get(ctx, c.Tenant)
		if err == nil {
			record = &r
		} else if !errors.Is(err, ingest.ErrNoTenant) {
			return cost.Days{}, err
		}
	}
	return cost.DaysOf(record, classes).Or(c.RetentionDays, c.RollupDays), nil
}

// Run prints the sum and how it comes about.
func (c *costCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	days, err := c.days(ctx)
	if err != nil {
		return err
	}
	b, err := cost.Reckon(ctx, conn, database, schema(), cost.Question{Tenant: c.Tenant, EventsPerSecond: c.EventsPerSecond,
		CPUMicros: c.CPUPerEvent, Busy: c.Busy, RawDays: days.Raw, RollupDay: days.Rollup,
		Prices: cost.Prices{GBMonth: c.PriceGBMonth, CoreHour: c.PriceCoreHour}})
	if err != nil {
		return err
	}
	if c.JSON {
		return newEncoder(p.Stdout).Encode(b)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	for _, l := range [][2]string{
		{"load", fmt.Sprintf("%.0f events/s", b.Load)},
		{"days", fmt.Sprintf("%g of raw rows, %g of rollups: %s", days.Raw, days.Rollup, days.Of)},
		{"raw rows", fmt.Sprintf("%.0f events/s × 86400 s × %g days × %.2f B = %.1f GB", b.Load, days.Raw, b.RawBytesPerEvent,
			b.RawGB)},
		{"rollups, facts", fmt.Sprintf("%.0f events/s × 86400 s × %g days × %.3f B = %.1f GB", b.Load, days.Rollup, b.RollupBytesPerEvent,
			b.RollupGB)},
		{"cores", fmt.Sprintf("%.0f events/s × %g µs / %g = %.2f", b.Load, c.CPUPerEvent, c.Busy, b.Cores)},
		{"disk", fmt.Sprintf("%.1f GB × %g USD = %.2f USD a month", b.RawGB+b.RollupGB, c.PriceGBMonth, b.USDStorage)},
		{"CPU", fmt.Sprintf("%.2f cores × 730 h × %g USD = %.2f USD a month", b.Cores, c.PriceCoreHour, b.USDCPU)},
		{"together", fmt.Sprintf("%.2f USD a month", b.USDMonth)},
	} {
		fmt.Fprintf(w, "%s\t%s\n", l[0], l[1])
	}
	if err := w.Flush(); err != nil {
		return err
	}
	whose := ""
	if c.Tenant != "" && !b.OwnBytes {
		whose = " of all tenants, since the sink has not measured this one yet"
	}
	fmt.Fprintf(p.Stderr, "bytes of an event as they are at rest now, of %d events%s; a service with few events has more for each\n",
		b.RawEvents, whose)
	return nil
}

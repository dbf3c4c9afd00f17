package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// classesFlag says which retention classes a service has.
type classesFlag struct {
	RetentionClass []string `name:"retention-class" placeholder:"NAME=RAW/ROLLUP" help:"${retention_classes}"`
}

// classes are those and class default, whose days the limits have.
func (f classesFlag) classes(d tenant.Limits) (tenant.Classes, error) {
	return tenant.ParseClasses(f.RetentionClass, d)
}

func (f classesFlag) check(s *settings, d tenant.Limits) error {
	if _, err := f.classes(d); err != nil {
		return fmt.Errorf("%s: %w", s.name("retention-class"), err)
	}
	return nil
}

// classFlag gives a new key or tenant a retention class.
type classFlag struct {
	RetentionClass string `name:"retention-class" own:"" placeholder:"NAME" help:"${retention_class}"`
}

func (f classFlag) check(s *settings, l tenant.Limits) error {
	if f.RetentionClass != "" && (l.RetentionDays != 0 || l.RollupDays != 0) {
		return errClassAndDays(s)
	}
	return nil
}

// give looks the class up and puts it into limits.
func (f classFlag) give(ctx context.Context, keys *ingest.Keys, l *tenant.Limits) error {
	if f.RetentionClass == "" {
		return nil
	}
	return giveClass(ctx, keys, l, f.RetentionClass)
}

func giveClass(ctx context.Context, keys *ingest.Keys, l *tenant.Limits, name string) error {
	if name == "" {
		return tenant.Classes{}.Give(l, "")
	}
	classes, err := ingest.ReadClasses(ctx, keys.Bucket())
	if err != nil {
		return err
	}
	return classes.Give(l, name)
}

// changeClassFlag changes the retention class of a key or a tenant; "" is none again.
type changeClassFlag struct {
	RetentionClass *string `name:"retention-class" own:"" placeholder:"NAME" help:"${change_retention_class}"`
}

func (f changeClassFlag) check(s *settings, c changeLimitFlags) error {
	if f.RetentionClass != nil && (c.RetentionDays != nil || c.RollupDays != nil) {
		return errClassAndDays(s)
	}
	return nil
}

// look returns what gives limits the class; whoever names days leaves the class.
func (f changeClassFlag) look(ctx context.Context, keys *ingest.Keys, c changeLimitFlags) (func(*tenant.Limits), error) {
	name := f.RetentionClass
	if name == nil {
		return func(l *tenant.Limits) {
			if c.RetentionDays != nil || c.RollupDays != nil {
				l.RetentionClass = ""
			}
		}, nil
	}
	var of tenant.Limits
	if err := giveClass(ctx, keys, &of, *name); err != nil {
		return nil, err
	}
	return func(l *tenant.Limits) {
		l.RetentionClass, l.RetentionDays, l.RollupDays = of.RetentionClass, of.RetentionDays, of.RollupDays
	}, nil
}

func errClassAndDays(s *settings) error {
	return fmt.Errorf("%s says the days: leave %s and %s out", s.name("retention-class"), s.name("retention-days"), s.name("rollup-days"))
}

type tenantRetainCmd struct {
	reachFlags
	clickhouseFlags
	Tenant  string        `arg:"" help:"The tenant."`
	Class   string        `arg:"" help:"The retention class."`
	DryRun  bool          `help:"Only say which rows would be kept for how long."`
	NoWait  bool          `help:"Come back once the request is stored; the service carries it out."`
	Timeout time.Duration `name:"wait" default:"1h" help:"How long to wait until it is carried out."`
}

func (c *tenantRetainCmd) check(p *program) error {
	if c.Timeout <= 0 {
		return fmt.Errorf("%s: %v: must be positive", p.Settings.name("wait"), c.Timeout)
	}
	return errors.Join(tenant.CheckName(c.Tenant), c.clickhouseFlags.check(p.Settings))
}

// Run stores the request and waits until every lane of the sink has carried it out.
func (c *tenantRetainCmd) Run(ctx context.Context, p *program) error {
	nc, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer nc.Close()
	streams, err := nc.Streams(ctx)
	if err != nil {
		return err
	}
	desk, err := nc.Desk(ctx, func(err error) { fmt.Fprintln(p.Stderr, "warning:", err) })
	if err != nil {
		return err
	}
	if c.DryRun {
		class, err := desk.ClassOf(ctx, c.Class)
		if err != nil {
			return err
		}
		return c.dryRun(ctx, p, class)
	}
	r, err := desk.Retain(ctx, admin.CLI(), streams, c.Tenant, c.Class, 0)
	if denied := (*admin.Denied)(nil); errors.As(err, &denied) {
		return err
	}
	if err != nil {
		return unreachable(fmt.Errorf("store the request: %w: run the same again", err))
	}
	if have, err := desk.Tenants.Get(ctx, c.Tenant); errors.Is(err, ingest.ErrNoTenant) {
		fmt.Fprintf(p.Stderr, "tenant %s has no record, so only what it has stored is of class %s: \"warpline tenant list\" lists the tenants, "+
			"\"warpline tenant create %[1]s --retention-class %[2]s\" is for what it sends from now on\n", c.Tenant, c.Class)
	} else if err != nil || have.Limits.RetentionClass != c.Class {
		fmt.Fprintf(p.Stderr, "what tenant %s sends from now on is not of class %s: \"warpline tenant set %[1]s --retention-class %[2]s\"\n",
			c.Tenant, c.Class)
	}
	if c.NoWait {
		fmt.Fprintln(p.Stderr, "the request is stored; the service carries it out")
		return nil
	}
	if nc.Alone {
		return unreachable(errors.New("nothing runs here: the request is stored and is carried out at the next start"))
	}
	fmt.Fprintln(p.Stderr, "the request is stored; it begins in some 3 minutes, when no insert of before can be on its way any more")
	return c.await(ctx, p, desk, streams, r.ID)
}

// await waits until every lane is done.
func (c *tenantRetainCmd) await(ctx context.Context, p *program, desk *admin.Desk, streams *broker.Streams, id string) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	why := ""
	for {
		r, err := desk.Retained(ctx, admin.CLI(), streams, c.Tenant)
		switch {
		case err != nil && ctx.Err() == nil:
			return unreachable(fmt.Errorf("%w: run the same again", err))
		case err == nil && r.ID != id:
			return fmt.Errorf("somebody else asked for class %s meanwhile: the service carries that out", r.Class)
		}
		if r.Why != why {
			why = r.Why
			if why != "" {
				fmt.Fprintln(p.Stderr, why)
			}
		}
		if r.Done {
			var rows uint64
			for _, n := range r.Moved {
				rows += n
			}
			if why != "" {
				return errors.New(why)
			}
			fmt.Fprintf(p.Stderr, "%s in %s of tenant %s have class %s now\n", plural(int64(rows), "row"), plural(int64(len(r.Moved)), "table"),
				c.Tenant, c.Class)
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not carried out yet: %d of %d lanes are done; the service goes on; run the same again to wait: %w", r.LanesDone,
				streams.Lanes, ctx.Err())
		case <-tick.C:
		}
	}
}

// dryRun prints what the tenant has, and for how long it would be kept.
func (c *tenantRetainCmd) dryRun(ctx context.Context, p *program, class tenant.Class) error {
	srv, err := readServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	all, err := admin.Retainable(ctx, conn, srv.Database, schema(), c.Tenant, class)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		fmt.Fprintf(p.Stderr, "tenant %s has no rows that would be kept for another time\n", c.Tenant)
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "TABLE\tCAME IN\tROWS\tDAYS\tWOULD BE")
	for _, k := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\n", k.Table, k.Came, k.Rows, k.Days, k.WouldBe)
	}
	return w.Flush()
}

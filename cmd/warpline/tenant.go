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
)

type tenantCmd struct {
	Create  tenantCreateCmd  `cmd:"" help:"Give a tenant limits for all its keys together."`
	List    tenantListCmd    `cmd:"" help:"List the tenants that have data, keys or limits of their own."`
	Show    tenantShowCmd    `cmd:"" help:"Show the limits of a tenant and its keys."`
	Set     tenantSetCmd     `cmd:"" help:"Change limits or note of a tenant, within 10 s."`
	Disable tenantDisableCmd `cmd:"" help:"Refuse all that a tenant sends, within 10 s, until it is enabled."`
	Enable  tenantEnableCmd  `cmd:"" help:"Take again what a tenant sends."`
	Delete  tenantDeleteCmd  `cmd:"" help:"Forget a tenant's limits. It must have no valid key; what it sent stays (see purge)."`
	Retain  tenantRetainCmd  `cmd:"" help:"Give what a tenant has sent so far a retention class too."`
	SQLUser tenantSQLUserCmd `cmd:"" name:"sql-user" help:"Make a tenant a user of its own on a ClickHouse server, or drop it."`
	Purge   tenantPurgeCmd   `cmd:"" help:"Delete all that a tenant has sent so far, its books included. What it sends later is kept."`
}

type tenantListCmd struct {
	reachFlags
	clickhouseFlags
	JSON bool `help:"One JSON object a line."`
}

func (c *tenantListCmd) check(p *program) error { return c.clickhouseFlags.check(p.Settings) }

type tenantRow struct {
	Tenant       string    `json:"tenant"`
	Sessions     uint64    `json:"sessions"`
	Events       uint64    `json:"events"`
	Bytes        uint64    `json:"bytes"`
	LastReceived time.Time `json:"last_received_at"`
	Keys         int       `json:"keys"` // valid ones
	Disabled     bool      `json:"disabled"`
	admin.Limits
}

// Run joins what ClickHouse and the bucket of keys know.
func (c *tenantListCmd) Run(ctx context.Context, p *program) error {
	srv, err := readServer(c.clickhouseFlags, c.Data)
	if err != nil {
		return err
	}
	conn, err := srv.Open(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT tenant, sum(sessions), sum(events), sum(bytes), max(last) FROM ("+
		"SELECT toString(tenant) AS tenant, uniqExact(session_id) AS sessions, toUInt64(0) AS events, toUInt64(0) AS bytes, "+
		"CAST(max(last_received_at), 'DateTime64(9, \\'UTC\\')') AS last FROM `%[1]s`.sessions_data GROUP BY tenant "+
		"UNION ALL SELECT toString(tenant), toUInt64(0), sum(events), sum(bytes), toDateTime64(0, 9, 'UTC') FROM `%[1]s`.usage GROUP BY "+
		"tenant) GROUP BY tenant", srv.Database))
	if err != nil {
		return fmt.Errorf("read tenants: %w", err)
	}
	defer rows.Close()
	all := map[string]*tenantRow{}
	for rows.Next() {
		r := &tenantRow{}
		if err := rows.Scan(&r.Tenant, &r.Sessions, &r.Events, &r.Bytes, &r.LastReceived); err != nil {
			return fmt.Errorf("read tenants: %w", err)
		}
		all[r.Tenant] = r
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("read tenants: %w", err)
	}
	keys, done, err := openKeys(ctx, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	list, err := keys.List(ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	for _, k := range list {
		if k.Tenant == "" {
			continue // an operator's
		}
		if all[k.Tenant] == nil {
			all[k.Tenant] = &tenantRow{Tenant: k.Tenant}
		}
		if ok, _ := k.Valid(time.Now()); ok {
			all[k.Tenant].Keys++
		}
	}
	records, err := ingest.NewTenants(keys.Bucket()).List(ctx)
	if err != nil {
		return err
	}
	for _, r := range records {
		if all[r.Name] == nil {
			all[r.Name] = &tenantRow{Tenant: r.Name}
		}
		all[r.Name].Disabled, all[r.Name].Limits = !r.Disabled.IsZero(), admin.Limits(r.Limits)
	}
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	enc := newEncoder(p.Stdout)
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	if !c.JSON {
		fmt.Fprintln(w, "TENANT\tSESSIONS\tEVENTS\tSENT\tLAST HEARD\tVALID KEYS\tLIMITS")
	}
	for _, name := range names {
		r := all[name]
		if c.JSON {
			if err := enc.Encode(r); err != nil {
				return err
			}
			continue
		}
		last := "never"
		if r.LastReceived.Unix() > 0 {
			last = humanize.Time(r.LastReceived)
		}
		limits := limitsOf(tenant.Limits(r.Limits))
		if r.Disabled {
			limits = "disabled; " + limits
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%d\t%s\n", r.Tenant, r.Sessions, r.Events, humanize.IBytes(r.Bytes), last, r.Keys, limits)
	}
	return w.Flush()
}

type tenantPurgeCmd struct {
	reachFlags
	clickhouseFlags
	deleteFlags
	Tenant     string `arg:"" help:"The tenant."`
	RevokeKeys bool   `help:"${purge_revoke_keys}"`
}

func (c *tenantPurgeCmd) check(p *program) error {
	return errors.Join(tenant.CheckName(c.Tenant), c.clickhouseFlags.check(p.Settings), c.deleteFlags.check(p))
}

// Run publishes a tombstone in every partition and waits until they are carried out.
func (c *tenantPurgeCmd) Run(ctx context.Context, p *program) error {
	e, err := c.deleteFlags.begin(ctx, p, c.reachFlags, c.clickhouseFlags)
	if err != nil {
		return err
	}
	defer e.close()
	have, err := e.Find(ctx, c.Tenant, []string{""})
	if err != nil {
		return orAway(err)
	}
	desk, err := e.desk(ctx)
	if err != nil {
		return err
	}
	valid, err := desk.ValidKeys(ctx, admin.CLI(), c.Tenant)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	if have[0].Nothing() && !c.Force {
		switch {
		case len(valid) == 0:
			return fmt.Errorf("nothing is known of tenant %s: \"warpline tenant list\" lists those there are; --force deletes what may be on its "+
				"way", c.Tenant)
		case !c.RevokeKeys:
			return fmt.Errorf("nothing is stored of tenant %s, which has %s: --revoke-keys ends that; --force deletes what may be on its way",
				c.Tenant, plural(int64(len(valid)), "valid key"))
		}
	}
	if e.Conn != nil {
		fmt.Fprintf(p.Stderr, "tenant %s: %s\n", c.Tenant, foundWords(have[0]))
	}
	if len(valid) > 0 && !c.RevokeKeys {
		fmt.Fprintf(p.Stderr, "tenant %s keeps %s, and what is sent from now on is kept; --revoke-keys ends that\n", c.Tenant,
			plural(int64(len(valid)), "valid key"))
	}
	e.add(stream.Deletion{Tenant: c.Tenant})
	e.record = func(publish func() error) error { return desk.Purge(ctx, admin.CLI(), c.Tenant, publish) }
	e.before = func() error {
		if !c.RevokeKeys {
			return nil
		}
		return desk.RevokeAll(ctx, admin.CLI(), valid, func(k tenant.Key) {
			fmt.Fprintf(p.Stderr, "key %s is revoked; gateways refuse it within 10 s, and what they take until then is kept\n", k.ID)
		})
	}
	if err := e.carryOut(ctx, fmt.Sprintf("Delete all that tenant %s has sent, for good?", c.Tenant)); err != nil || !c.RevokeKeys {
		return err
	}
	if err := dropSQLUser(ctx, c.clickhouseFlags, c.Tenant); err != nil { // whoever purges need not be let see users
		fmt.Fprintln(p.Stderr, "warning:", err)
	}
	return nil
}

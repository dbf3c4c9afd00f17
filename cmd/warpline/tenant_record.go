package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/alecthomas/kong"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/report"
	"github.com/warpline/warpline/query/tenantsql"
)

type tenantCreateCmd struct {
	reachFlags
	Tenant string `arg:"" help:"Name of the tenant."`
	Note   string `help:"A few words on who it is."`
	keyLimitFlags
	classFlag
}

func (c *tenantCreateCmd) check(p *program) error {
	return errors.Join(tenant.CheckName(c.Tenant), limitFlags(c.keyLimitFlags).check(p.Settings),
		c.classFlag.check(p.Settings, limitFlags(c.keyLimitFlags).limits()))
}

// Run stores the tenant. It has no key yet.
func (c *tenantCreateCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	limits := limitFlags(c.keyLimitFlags).limits()
	if err := c.give(ctx, desk.Keys, &limits); err != nil {
		return err
	}
	r, err := desk.Create(ctx, admin.CLI(), c.Tenant, c.Note, limits)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "tenant %s; limits, for all its keys together: %s; \"warpline key create %[1]s\" makes a key\n", r.Name,
		limitsOf(r.Limits))
	return nil
}

type tenantSetCmd struct {
	reachFlags
	Tenant string  `arg:"" help:"The tenant."`
	Note   *string `help:"A few words on who it is."`
	changeLimitFlags
	changeClassFlag
}

func (c *tenantSetCmd) check(p *program) error {
	return errors.Join(c.changeLimitFlags.check(p.Settings), c.changeClassFlag.check(p.Settings, c.changeLimitFlags))
}

// Run changes what is given and leaves the rest.
func (c *tenantSetCmd) Run(ctx context.Context, p *program) error {
	return changeTenant(ctx, p, c.reachFlags, func(d *admin.Desk) (admin.Tenant, error) {
		class, err := c.look(ctx, d.Keys, c.changeLimitFlags)
		if err != nil {
			return admin.Tenant{}, err
		}
		return d.Change(ctx, admin.CLI(), c.Tenant, 0, func(r *tenant.Record) error {
			set(&r.Note, c.Note)
			c.apply(&r.Limits)
			class(&r.Limits)
			return nil
		})
	})
}

type tenantDisableCmd struct {
	reachFlags
	clickhouseFlags
	Tenant string `arg:"" help:"The tenant."`
}

func (c *tenantDisableCmd) check(p *program) error { return c.clickhouseFlags.check(p.Settings) }

// Run lets gateways refuse the tenant, and with --clickhouse drops its user there. What it has sent stays.
func (c *tenantDisableCmd) Run(ctx context.Context, p *program) error {
	err := changeTenant(ctx, p, c.reachFlags, func(d *admin.Desk) (admin.Tenant, error) {
		return d.Disable(ctx, admin.CLI(), c.Tenant, 0)
	})
	if err != nil {
		return err
	}
	return dropSQLUser(ctx, c.clickhouseFlags, c.Tenant)
}

type tenantEnableCmd struct {
	reachFlags
	Tenant string `arg:"" help:"The tenant."`
}

// Run lets the tenant in again.
func (c *tenantEnableCmd) Run(ctx context.Context, p *program) error {
	return changeTenant(ctx, p, c.reachFlags, func(d *admin.Desk) (admin.Tenant, error) {
		return d.Enable(ctx, admin.CLI(), c.Tenant, 0)
	})
}

func changeTenant(ctx context.Context, p *program, reach reachFlags, change func(*admin.Desk) (admin.Tenant, error)) error {
	desk, done, err := openDesk(ctx, p, reach)
	if err != nil {
		return err
	}
	defer done()
	r, err := change(desk)
	if err != nil {
		return err
	}
	state := "enabled"
	if !r.Disabled.IsZero() {
		state = "disabled"
	}
	fmt.Fprintf(p.Stderr, "tenant %s is %s; limits: %s; gateways keep to it within 10 s\n", r.Name, state, limitsOf(r.Limits))
	return nil
}

// tenantFile is the file of --tenants.
func tenantFile(path string, classes tenant.Classes) service.TenantFile {
	return service.TenantFile{Path: path, Limits: func(values map[string]string) (tenant.Limits, error) { return limitsIn(values, classes) }}
}

// checkTenants reads the file once, so that a bad one is told before anything starts.
func checkTenants(s *settings, path string, f classesFlag, d tenant.Limits) error {
	classes, err := f.classes(d)
	if path == "" || err != nil { // which is told of its own flag
		return nil
	}
	if _, _, err := tenantFile(path, classes).Read(); err != nil {
		return fmt.Errorf("%s: %w", s.name("tenants"), err)
	}
	return nil
}

// limitsIn makes limits of values by the names of flags, as the flags would.
func limitsIn(values map[string]string, classes tenant.Classes) (tenant.Limits, error) {
	var f struct {
		keyLimitFlags
		classFlag
	}
	parser, err := kong.New(&f, helpTexts, kong.Exit(func(int) {}), kong.NoDefaultHelp())
	if err != nil {
		return tenant.Limits{}, fmt.Errorf("BUG: %w", err)
	}
	var args []string
	for name, value := range values {
		args = append(args, "--"+name+"="+value)
	}
	slices.Sort(args)
	if _, err := parser.Parse(args); err != nil {
		return tenant.Limits{}, err
	}
	limits := limitFlags(f.keyLimitFlags).limits()
	if err := errors.Join(limitFlags(f.keyLimitFlags).check(&settings{}), f.classFlag.check(&settings{}, limits)); err != nil {
		return tenant.Limits{}, err
	}
	if f.RetentionClass == "" {
		return limits, nil
	}
	return limits, classes.Give(&limits, f.RetentionClass)
}

type tenantDeleteCmd struct {
	reachFlags
	clickhouseFlags
	Tenant string `arg:"" help:"The tenant."`
}

func (c *tenantDeleteCmd) check(p *program) error { return c.clickhouseFlags.check(p.Settings) }

// Run forgets the record of a tenant that has no valid key, which would have the service's limits then.
func (c *tenantDeleteCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	if err := desk.Delete(ctx, admin.CLI(), c.Tenant, 0); err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "tenant %s has no limits of its own any more; \"warpline tenant purge %[1]s\" deletes what it sent\n", c.Tenant)
	return dropSQLUser(ctx, c.clickhouseFlags, c.Tenant)
}

type tenantSQLUserCmd struct {
	reachFlags
	clickhouseFlags
	webSecretFlags
	Tenant       string `arg:"" help:"The tenant."`
	Password     string `secret:"" placeholder:"SECRET" help:"Password of its user; by default one is made, and printed once."`
	PasswordFile string `placeholder:"FILE" help:"File that holds the password alone."`
	NewPassword  bool   `help:"Make a new password and print it: otherwise a user that is there keeps the one that it has."`
	Drop         bool   `help:"Drop the tenant's users, with their views and policies."`
	Cluster      string `name:"clickhouse-cluster" placeholder:"NAME" help:"Do so on every server of this cluster."`
	Memory       size   `default:"1GiB" help:"Most memory of one question; all of the user's together may take twice as much."`
	AtOnce       int    `default:"4" placeholder:"N" help:"Questions of the user at once."`
	ReadRows     int64  `default:"2000000000" placeholder:"N" help:"Most rows that one question may read."`
	Queries      int    `default:"600" placeholder:"N" help:"Questions of the user in a minute."`
	BusySeconds  int    `default:"120" placeholder:"N" help:"Seconds that all its questions of a minute may take together."`
}

func (c *tenantSQLUserCmd) check(p *program) error {
	s := p.Settings
	if c.ClickHouse == "" {
		return fmt.Errorf("%s is missing: name a ClickHouse server; of the embedded one of \"warpline up\" tenants ask at /clickhouse/, with "+
			"a key of scope read", s.name("clickhouse"))
	}
	if c.Password != "" && c.NewPassword {
		return fmt.Errorf("%s and %s: give one of them", s.name("password"), s.name("new-password"))
	}
	if c.Password != "" && len(c.Password) < 12 {
		return fmt.Errorf("%s: use at least 12 characters", s.name("password"))
	}
	return errors.Join(tenant.CheckName(c.Tenant), c.clickhouseFlags.check(s), c.webSecretFlags.check(s), c.bounds().Check())
}

func (c *tenantSQLUserCmd) bounds() tenantsql.Bounds {
	b := tenantsql.DefaultBounds()
	b.Memory, b.AtOnce, b.ReadRows, b.Queries, b.BusySeconds = int64(c.Memory), c.AtOnce, c.ReadRows, c.Queries, c.BusySeconds
	return b
}

// Run makes the user, or brings it up to date, and prints a password that it made.
func (c *tenantSQLUserCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	users, closed, err := openUsers(ctx, c.clickhouseFlags, c.Cluster)
	if err != nil {
		return err
	}
	defer closed()
	users.Bounds = c.bounds()
	if c.Drop {
		if err := desk.SQLUser(ctx, admin.CLI(), c.Tenant, true, func() error { return users.Drop(ctx, c.Tenant) }); err != nil {
			return err
		}
		fmt.Fprintf(p.Stderr, "tenant %s has no user on this server\n", c.Tenant)
		return nil
	}
	had, err := users.Has(ctx, c.Tenant)
	if err != nil {
		return err
	}
	password, made := c.Password, ""
	if password == "" && (c.NewPassword || !had) {
		made = rand.Text()
		password = made
	}
	web := ""
	if c.WebSecret != "" {
		web = tenantsql.WebPassword(c.WebSecret, c.Tenant)
	}
	err = desk.SQLUser(ctx, admin.CLI(), c.Tenant, false, func() error { return users.Make(ctx, c.Tenant, password, web) })
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Stderr, "tenant %s: user %s, database %[2]s; it was tried, and sees the rows of the tenant alone\n", c.Tenant,
		tenantsql.UserName(c.Tenant))
	if made != "" {
		fmt.Fprintln(p.Stderr, "its password, which is not shown again:")
		fmt.Fprintln(p.Stdout, made)
	}
	return nil
}

// openUsers connects to a ClickHouse server as a user that may make others; the caller calls closed.
func openUsers(ctx context.Context, f clickhouseFlags, cluster string) (u tenantsql.Users, closed func(), err error) {
	srv := f.server()
	conn, err := srv.Open(ctx)
	if err != nil {
		return u, nil, err
	}
	return tenantsql.Users{Conn: conn, Database: srv.Database, Cluster: cluster, Schema: schema(), Bounds: tenantsql.DefaultBounds(),
		Login: func(ctx context.Context, user, password string) (driver.Conn, error) {
			as := srv
			as.User, as.Password = user, password
			return as.Open(ctx)
		}}, func() { conn.Close() }, nil
}

// dropSQLUser drops the user of a tenant on the server that --clickhouse names, if it has one there.
func dropSQLUser(ctx context.Context, f clickhouseFlags, of string) error {
	if f.ClickHouse == "" {
		return nil
	}
	u, closed, err := openUsers(ctx, f, "")
	if err == nil {
		defer closed()
		err = u.Drop(ctx, of)
	}
	if err != nil {
		return fmt.Errorf("the rest is done, but a user of tenant %s in ClickHouse may still read: %w; then \"warpline tenant sql-user %[1]s "+
			"--drop\"", of, err)
	}
	return nil
}

// webSecretFlags are the secret that `warpline web` and the users that it asks as have in common.
type webSecretFlags struct {
	WebSecret     string `secret:"" placeholder:"SECRET" help:"${web_secret}"`
	WebSecretFile string `placeholder:"FILE" help:"File that holds that secret alone."`
}

func (f webSecretFlags) check(s *settings) error {
	if f.WebSecret == "" {
		return nil
	}
	if err := tenantsql.CheckWebSecret(f.WebSecret); err != nil {
		return fmt.Errorf("%s: %w", s.name("web-secret"), err)
	}
	return nil
}

type tenantShowCmd struct {
	reachFlags
	Tenant string `arg:"" help:"The tenant."`
	JSON   bool   `help:"One JSON object."`
}

// tenantShown is what is shown of a tenant.
type tenantShown struct {
	admin.RecordShown
	Keys []admin.KeyShown `json:"keys"` // valid ones
}

// Run shows the record, which a tenant need not have, and the keys.
func (c *tenantShowCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	r, valid, err := desk.Show(ctx, admin.CLI(), c.Tenant)
	if err != nil {
		return err
	}
	if c.JSON {
		keys := make([]admin.KeyShown, len(valid))
		for i := range valid {
			keys[i] = admin.ShowKey(valid[i])
		}
		return newEncoder(p.Stdout).Encode(tenantShown{admin.ShowRecord(r.Record), keys})
	}
	state := "enabled"
	if !r.Disabled.IsZero() {
		state = "disabled since " + r.Disabled.Format("2006-01-02 15:04 UTC")
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "tenant\t%s\nstate\t%s\nlimits\t%s\n", r.Name, state, limitsOf(r.Limits))
	if r.Revision == 0 {
		fmt.Fprintln(w, "\tor, since it has none of its own, those of its widest key")
	}
	if r.Declared {
		fmt.Fprintln(w, "declared\tin the file of --tenants")
	}
	if r.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", report.Printable(r.Note))
	}
	for _, k := range valid {
		may := limitsOf(k.Limits)
		if k.Scope != tenant.ScopeIngest {
			may = "scope " + k.Scope.String()
		}
		fmt.Fprintf(w, "key\t%s\t%s\t%s\n", k.ID, may, report.Printable(k.Note))
	}
	return w.Flush()
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/report"
)

type keyCmd struct {
	Create keyCreateCmd `cmd:"" help:"Make a key and print it. It is shown this once and stored only as a hash."`
	Set    keySetCmd    `cmd:"" help:"Change limits, expiry or note of a key, within 10 s."`
	Rotate keyRotateCmd `cmd:"" help:"Make a key like another, which works for a while beside it and then ends."`
	Revoke keyRevokeCmd `cmd:"" help:"Make a key stop working, within 10 s, for good."`
	List   keyListCmd   `cmd:"" help:"List the keys there are, without their secrets."`
	Show   keyShowCmd   `cmd:"" help:"Show a key, without its secret: whose it is, what it opens, its limits and when it ends."`
}

type keyCreateCmd struct {
	reachFlags
	Tenant         string        `arg:"" optional:"" help:"Tenant that the key's data belongs to; by default \"default\"."`
	Scope          string        `default:"ingest" placeholder:"WORD" help:"What it opens: ingest, read or admin."`
	Operator       bool          `help:"Make an operator's key, which belongs to no tenant: it reads and administers all, and stores nothing."`
	Note           string        `help:"A few words on who has it."`
	Expires        time.Duration `default:"0s" help:"How long it works, as 720h; 0 for ever."`
	NoLaunchStacks bool          `help:"Keep the launch stacks of PC samples out of the tables."`
	keyLimitFlags
	classFlag
}

func (c *keyCreateCmd) check(p *program) error {
	if c.Expires < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", p.Settings.name("expires"), c.Expires)
	}
	like, err := c.like()
	if err == nil && c.RetentionClass != "" && (c.Operator || like.Scope != tenant.ScopeIngest) {
		err = errors.New("a retention class is for keys of scope ingest: leave it out")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", p.Settings.name("scope"), err)
	}
	return errors.Join(tenant.CheckName(cmp.Or(c.Tenant, service.DefaultTenant)), limitFlags(c.keyLimitFlags).check(p.Settings),
		c.classFlag.check(p.Settings, like.Limits))
}

// like is what the key has but its id and its times.
func (c *keyCreateCmd) like() (tenant.Key, error) {
	scope, err := tenant.ParseScope(c.Scope)
	if err != nil {
		return tenant.Key{}, err
	}
	limits := limitFlags(c.keyLimitFlags).limits()
	limits.NoLaunchStacks = c.NoLaunchStacks
	if scope == tenant.ScopeOperator {
		return tenant.Key{}, errors.New("an operator's key is made with --operator")
	}
	if (c.Operator || scope != tenant.ScopeIngest) && limits != (tenant.Limits{}) {
		return tenant.Key{}, errors.New("limits are for keys of scope ingest: leave them out")
	}
	if c.Operator {
		if c.Tenant != "" || scope != tenant.ScopeIngest {
			return tenant.Key{}, errors.New("with --operator the key has no tenant and no other scope: leave them out")
		}
		return tenant.Key{Scope: tenant.ScopeOperator, Note: c.Note}, nil
	}
	return tenant.Key{Tenant: cmp.Or(c.Tenant, service.DefaultTenant), Scope: scope, Note: c.Note, Limits: limits}, nil
}

// Run prints the secret alone on stdout, for scripts.
func (c *keyCreateCmd) Run(ctx context.Context, p *program) error {
	like, err := c.like()
	if err != nil {
		return err
	}
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	if c.Expires > 0 {
		like.Expires = time.Now().Add(c.Expires).UTC()
	}
	if err := c.give(ctx, desk.Keys, &like.Limits); err != nil {
		return err
	}
	secret, made, err := desk.MakeKey(ctx, admin.CLI(), like)
	if err != nil {
		return fmt.Errorf("create the key: %w", err)
	}
	key := made.Key
	of := ownerOf(key)
	if c.Tenant == "" && !c.Operator {
		of += ", since none was named (\"warpline key create NAME\" makes one of another)"
	}
	fmt.Fprintf(p.Stderr, "key %s of %s; %s; keep it, it is shown this once\n", key.ID, of, mayOf(key))
	_, err = fmt.Fprintln(p.Stdout, secret)
	return err
}

type keySetCmd struct {
	reachFlags
	ID             string         `arg:"" help:"Id of the key, as \"warpline key list\" shows it."`
	Note           *string        `help:"A few words on who has it."`
	Expires        *time.Duration `placeholder:"DURATION" help:"How long it works from now on, as 720h; 0 for ever."`
	NoLaunchStacks *bool          `negatable:"" help:"Keep the launch stacks of PC samples out of the tables."`
	changeLimitFlags
	changeClassFlag
}

func (c *keySetCmd) check(p *program) error {
	if c.Expires != nil && *c.Expires < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", p.Settings.name("expires"), *c.Expires)
	}
	return errors.Join(c.changeLimitFlags.check(p.Settings), c.changeClassFlag.check(p.Settings, c.changeLimitFlags))
}

// Run changes what is given and leaves the rest.
func (c *keySetCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	class, err := c.look(ctx, desk.Keys, c.changeLimitFlags)
	if err != nil {
		return err
	}
	key, err := desk.ChangeKey(ctx, admin.CLI(), c.ID, 0, func(k *tenant.Key) error {
		set(&k.Note, c.Note)
		set(&k.Limits.NoLaunchStacks, c.NoLaunchStacks)
		if c.Expires != nil {
			k.Expires = time.Time{}
			if *c.Expires > 0 {
				k.Expires = time.Now().Add(*c.Expires).UTC()
			}
		}
		c.apply(&k.Limits)
		class(&k.Limits)
		return nil
	})
	if err != nil {
		return fmt.Errorf("change the key: %w", err)
	}
	fmt.Fprintf(p.Stderr, "key %s of %s; %s; gateways keep to it within 10 s\n", key.ID, ownerOf(key.Key), mayOf(key.Key))
	return nil
}

type keyRotateCmd struct {
	reachFlags
	ID      string        `arg:"" help:"Id of the key, as \"warpline key list\" shows it."`
	Overlap time.Duration `default:"24h" help:"How long the old key works beside the new one."`
}

func (c *keyRotateCmd) check(p *program) error {
	if c.Overlap < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", p.Settings.name("overlap"), c.Overlap)
	}
	return nil
}

// Run prints the new secret alone on stdout, for scripts.
func (c *keyRotateCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	secret, made, old, err := desk.RotateKey(ctx, admin.CLI(), c.ID, 0, c.Overlap)
	if secret != "" {
		if _, err := fmt.Fprintln(p.Stdout, secret); err != nil {
			return err
		}
	}
	if err != nil {
		return fmt.Errorf("rotate: %w", err)
	}
	ends := ""
	if !made.Expires.IsZero() {
		ends = ", which ends at " + made.Expires.Format(keyTime)
	}
	fmt.Fprintf(p.Stderr, "key %s of %s%s; keep it, it is shown this once; key %s works until %s\n", made.ID, ownerOf(made.Key), ends, old.ID,
		old.Expires.Format(keyTime))
	return nil
}

type keyRevokeCmd struct {
	reachFlags
	ID string `arg:"" help:"Id of the key, as \"warpline key list\" shows it."`
}

// Run revokes the one key that has this id.
func (c *keyRevokeCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	key, err := desk.RevokeKey(ctx, admin.CLI(), c.ID, 0)
	if err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	fmt.Fprintf(p.Stderr, "key %s of %s is revoked; gateways refuse it within 10 s\n", key.ID, ownerOf(key.Key))
	return nil
}

type keyListCmd struct {
	reachFlags
	JSON bool `help:"One JSON object a line."`
}

// Run lists the keys.
func (c *keyListCmd) Run(ctx context.Context, p *program) error {
	keys, done, err := openKeys(ctx, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	all, err := keys.List(ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	if c.JSON {
		enc := newEncoder(p.Stdout)
		for _, k := range all {
			if err := enc.Encode(admin.ShowKey(k)); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tTENANT\tSCOPE\tSTATE\tCREATED\tEXPIRES\tLIMITS\tNOTE")
	for _, k := range all {
		expires := "never"
		if !k.Expires.IsZero() {
			expires = humanize.Time(k.Expires)
		}
		limits := "-"
		if k.Scope == tenant.ScopeIngest {
			limits = limitsOf(k.Limits)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, cmp.Or(k.Tenant, "-"), k.Scope, stateOf(k),
			k.Created.Format("2006-01-02 15:04"), expires, limits, report.Printable(k.Note))
	}
	return w.Flush()
}

// keyTime is how times of keys are written.
const keyTime = "2006-01-02 15:04:05 UTC"

func stateOf(k tenant.Key) string {
	ok, _ := k.Valid(time.Now())
	switch {
	case ok:
		return "valid"
	case !k.Revoked.IsZero():
		return "revoked"
	}
	return "expired"
}

type keyShowCmd struct {
	reachFlags
	ID   string `arg:"" help:"Id of the key, as \"warpline key list\" shows it."`
	JSON bool   `help:"One JSON object."`
}

// Run shows what is stored of a key.
func (c *keyShowCmd) Run(ctx context.Context, p *program) error {
	desk, done, err := openDesk(ctx, p, c.reachFlags)
	if err != nil {
		return err
	}
	defer done()
	k, err := desk.Key(ctx, admin.CLI(), c.ID)
	if err != nil {
		return err
	}
	if c.JSON {
		return newEncoder(p.Stdout).Encode(admin.ShowKey(k.Key))
	}
	state, expires := stateOf(k.Key), "never"
	if !k.Revoked.IsZero() {
		state += " at " + k.Revoked.Format(keyTime)
	}
	if !k.Expires.IsZero() {
		expires = k.Expires.Format(keyTime) + ", " + humanize.Time(k.Expires)
	}
	if k.LastsSeconds != 0 {
		expires += ", since it was rotated"
	}
	w := tabwriter.NewWriter(p.Stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "key\t%s\ntenant\t%s\nscope\t%s\nstate\t%s\ncreated\t%s\nexpires\t%s\n", k.ID, cmp.Or(k.Tenant, "none, it is an "+
		"operator's"), k.Scope, state, k.Created.Format(keyTime), expires)
	if k.Scope == tenant.ScopeIngest {
		fmt.Fprintf(w, "limits\t%s\n", limitsOf(k.Limits))
	}
	if k.Note != "" {
		fmt.Fprintf(w, "note\t%s\n", report.Printable(k.Note))
	}
	return w.Flush()
}

// ownerOf says whose a key is.
func ownerOf(k tenant.Key) string {
	if k.Scope == tenant.ScopeOperator {
		return "the operator"
	}
	return "tenant " + k.Tenant
}

// mayOf says what a key may: keys of scope ingest alone have limits.
func mayOf(k tenant.Key) string {
	if k.Scope == tenant.ScopeIngest {
		return "limits: " + limitsOf(k.Limits)
	}
	return "scope " + k.Scope.String()
}

// limitsOf names the limits that a key has of its own, as the flags do that made them.
func limitsOf(l tenant.Limits) string {
	number := func(n float64) string {
		if n >= 1e15 { // for no limit
			return strconv.FormatFloat(n, 'g', -1, 64)
		}
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	bytes := func(n float64) string { return size(n).String() }
	seconds := func(n float64) string { return duration(n).String() }
	var own []string
	if l.RetentionClass != "" {
		own = append(own, "retention-class "+l.RetentionClass)
		l.RetentionDays, l.RollupDays = 0, 0 // which it says
	}
	for _, f := range []struct {
		name  string
		value float64
		text  func(float64) string
	}{
		{"events-per-second", l.EventsPerSecond, number}, {"bytes-per-second", l.BytesPerSecond, bytes},
		{"raw-bytes-per-second", l.RawBytesPerSecond, bytes},
		{"requests-per-second", l.RequestsPerSecond, number}, {"burst-seconds", l.BurstSeconds, number}, {"body", float64(l.MaxBodyBytes), bytes},
		{"raw-body", float64(l.MaxRawBytes), bytes}, {"ratio", l.MaxRatio, number}, {"line", float64(l.MaxLineBytes), bytes},
		{"cubin", float64(l.MaxCubinBytes), bytes},
		{"retention-days", float64(l.RetentionDays), number}, {"rollup-days", float64(l.RollupDays), number},
		{"uploads-at-once", float64(l.UploadsAtOnce), number},
		{"names", float64(l.Names), number}, {"name-length", float64(l.NameBytes), bytes},
		{"open-scopes", float64(l.OpenScopes), number},
		{"active-sessions", float64(l.ActiveSessions), number},
		{"pending-bytes", float64(l.PendingBytes), bytes},
		{"past", l.PastSeconds, seconds}, {"future", l.FutureSeconds, seconds},
		{"quota-events-per-day", l.EventsPerDay, number}, {"quota-bytes-per-day", l.BytesPerDay, bytes},
		{"quota-trickle", l.QuotaTrickle, number},
	} {
		if f.value != 0 {
			own = append(own, f.name+" "+f.text(f.value))
		}
	}
	if l.QuotaPolicy != "" {
		own = append(own, "quota-policy "+l.QuotaPolicy)
	}
	if l.RawRows != "" {
		own = append(own, "raw-rows "+l.RawRows)
	}
	if l.NoLaunchStacks {
		own = append(own, "no launch stacks")
	}
	if len(own) == 0 {
		return "the service's"
	}
	return strings.Join(own, ", ")
}

func openKeys(ctx context.Context, f reachFlags) (*ingest.Keys, func(), error) {
	c, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	kv, err := c.Keys(ctx)
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return ingest.NewKeys(kv), c.Close, nil
}

// openDesk leads to what administrators do.
func openDesk(ctx context.Context, p *program, f reachFlags) (*admin.Desk, func(), error) {
	c, err := f.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	d, err := c.Desk(ctx, func(err error) { fmt.Fprintln(p.Stderr, "warning:", err) })
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return d, c.Close, nil
}

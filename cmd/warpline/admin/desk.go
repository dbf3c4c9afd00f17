// Package admin administers tenants and keys: what the commands and the admin API do, each in one function of Desk, and the API itself.
//
// Begin with Desk. A Desk knows who asks (Who): a person at the machine may do everything, a key of scope admin what concerns its own
// tenant, and what it may not see is not there. API serves the same over HTTP, and describes itself (openapi.go).
package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/active"
	"github.com/warpline/warpline/proto/tenant"
)

// Desk does what administrators ask for. Its fields must not change while it works. It is safe for concurrent use.
type Desk struct {
	Keys    *ingest.Keys
	Tenants *ingest.Tenants
	// Defaults are the service's limits: what a tenant has that has none of its own. An administrator's keys stay within them.
	Defaults tenant.Limits
	// Log is where changes are recorded, nil: nowhere. Warn is told of what could not be; it may be nil.
	Log  *Log
	Warn func(error)
}

// NewDesk returns a desk for the records in a bucket of keys.
func NewDesk(keys *ingest.Keys, defaults tenant.Limits) *Desk {
	return &Desk{Keys: keys, Tenants: ingest.NewTenants(keys.Bucket()), Defaults: defaults.Or(tenant.DefaultLimits())}
}

// Denied is why something was not done.
type Denied struct {
	Status int    // as HTTP has it
	Code   string // for programs
	Why    string // for people, with what to do
}

// Error implements error.
func (d *Denied) Error() string { return d.Why }

// Who is somebody who asks. The zero value may do nothing.
type Who struct {
	key  tenant.Key
	all  bool // it may see and do everything
	file bool
}

// CLI is a person or program that has the data folder, or NATS's token, and so may do everything.
func CLI() Who { return Who{all: true} }

// Holder is whoever sent a key.
func Holder(k tenant.Key) Who { return Who{key: k, all: k.Scope == tenant.ScopeOperator} }

// File is the file of --tenants.
func File() Who { return Who{all: true, file: true} }

// Name is what the log says of them: the id of their key, cli or file.
func (w Who) Name() string {
	switch {
	case w.file:
		return "file"
	case w.key.ID == "":
		return "cli"
	}
	return w.key.ID
}

// sees reports whether what a tenant has is there for them.
func (w Who) sees(of string) bool {
	return w.all || w.key.Scope == tenant.ScopeAdmin && w.key.Tenant != "" && w.key.Tenant == of
}

// operate returns why they may not do what the operator alone may.
func (w Who) operate(what string) error {
	if w.all {
		return nil
	}
	return &Denied{http.StatusForbidden, "operator_only",
		what + " is the operator's: ask for it, or use a key of `warpline key create --operator`"}
}

// NoTenant is what whoever asks for a tenant is told that is not there for them, whether it exists or not.
func NoTenant(name string) *Denied {
	return &Denied{http.StatusNotFound, "no_such_tenant", "there is no tenant " + name + " here: ask for the tenants that there are"}
}

// anyRevision is that of a change that is made whatever the record has become.
const anyRevision = 0

// tries bounds how often such a change begins again.
const tries = 20

// attempt repeats a change that somebody else's came before, when the revision does not matter.
func attempt(ctx context.Context, revision uint64, change func() error) error {
	for range tries {
		if err := change(); revision != anyRevision || !errors.Is(err, ingest.ErrChanged) || ctx.Err() != nil {
			return changed(err)
		}
	}
	return &Denied{http.StatusConflict, "busy", "it changes all the time: try again"}
}

// settle checks limits that were changed. Their retention class, if that is another now, says their days; days that are others leave it.
func (d *Desk) settle(ctx context.Context, was tenant.Limits, now *tenant.Limits) error {
	if err := now.Check(); err != nil {
		return bad(err)
	}
	if now.ActiveSessions > active.Most {
		return bad(fmt.Errorf("limit-active-sessions: %d: use at most %d, or 0 for any number", now.ActiveSessions, active.Most))
	}
	switch {
	case now.RetentionClass != was.RetentionClass && now.RetentionClass == "":
		return nil
	case now.RetentionClass != was.RetentionClass:
		classes, err := ingest.ReadClasses(ctx, d.Keys.Bucket())
		if err != nil {
			return err
		}
		if err := classes.Give(now, now.RetentionClass); err != nil {
			return bad(fmt.Errorf("retention-class: %w", err))
		}
	case now.RetentionDays != was.RetentionDays || now.RollupDays != was.RollupDays:
		now.RetentionClass = ""
	}
	return nil
}

// changed says of a lost race what to do.
func changed(err error) error {
	if errors.Is(err, ingest.ErrChanged) {
		return &Denied{http.StatusPreconditionFailed, "changed", err.Error()}
	}
	return err
}

// SQLUser records that a tenant gets a user of its own on a ClickHouse server, or loses it. It must be there and enabled to get one.
func (d *Desk) SQLUser(ctx context.Context, who Who, of string, drop bool, do func() error) error {
	if err := who.operate("to make users in ClickHouse"); err != nil {
		return err
	}
	c := changeOf{tenant: of, action: "tenant sql-user", object: of, change: map[string]any{"drop": drop}, urgent: drop}
	if !drop {
		t, _, err := d.Show(ctx, who, of)
		if err != nil {
			return err
		}
		if !t.Disabled.IsZero() {
			return &Denied{http.StatusConflict, "tenant_disabled", "tenant " + of + " is disabled: \"warpline tenant enable " + of + "\" first"}
		}
	}
	return d.record(ctx, who, &c, do)
}

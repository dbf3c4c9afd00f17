package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// Tenant is what is known of a tenant. It need not have a record: a key is enough, and then its limits are the service's.
type Tenant struct {
	tenant.Record
	ValidKeys int    `json:"valid_keys"`
	Revision  uint64 `json:"-"` // of the record, 0 of none
}

// List returns the tenants that have a record or a key, by name.
func (d *Desk) List(ctx context.Context, who Who) ([]Tenant, error) {
	keys, err := d.Keys.All(ctx)
	if err != nil {
		return nil, err
	}
	records, err := d.Tenants.List(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]*Tenant{}
	for _, r := range records {
		all[r.Name] = &Tenant{Record: r}
	}
	for i := range keys {
		k := &keys[i].Key
		if k.Tenant == "" {
			continue // an operator's
		}
		if all[k.Tenant] == nil {
			all[k.Tenant] = &Tenant{Record: tenant.Record{Name: k.Tenant}}
		}
		if ok, _ := k.Valid(time.Now()); ok {
			all[k.Tenant].ValidKeys++
		}
	}
	out := make([]Tenant, 0, len(all))
	for name, t := range all {
		if who.sees(name) {
			out = append(out, *t)
		}
	}
	slices.SortFunc(out, func(a, b Tenant) int { return cmp.Compare(a.Name, b.Name) })
	return out, nil
}

// Show returns a tenant that has a record or a valid key, with these keys.
func (d *Desk) Show(ctx context.Context, who Who, name string) (t Tenant, valid []tenant.Key, err error) {
	if !who.sees(name) || tenant.CheckName(name) != nil {
		return t, nil, NoTenant(name)
	}
	t.Record, t.Revision, err = d.Tenants.Stored(ctx, name)
	none := errors.Is(err, ingest.ErrNoTenant)
	if err != nil && !none {
		return t, nil, err
	}
	valid, listErr := d.ValidKeys(ctx, who, name)
	if listErr != nil {
		return t, nil, listErr
	}
	if none && len(valid) == 0 {
		return t, nil, &Denied{http.StatusNotFound, "no_such_tenant", err.Error()}
	}
	t.Name, t.ValidKeys = name, len(valid)
	return t, valid, nil
}

// Create stores a tenant. It has no key yet.
func (d *Desk) Create(ctx context.Context, who Who, name, note string, limits tenant.Limits) (Tenant, error) {
	if err := who.operate("to make a tenant"); err != nil {
		return Tenant{}, err
	}
	if err := errors.Join(tenant.CheckName(name), tenant.CheckNote(note)); err != nil {
		return Tenant{}, bad(err)
	}
	if err := d.settle(ctx, tenant.Limits{}, &limits); err != nil {
		return Tenant{}, err
	}
	var t Tenant
	made := tenant.Record{Name: name, Note: note, Limits: limits}
	c := changeOf{tenant: name, action: "tenant create", object: name, change: difference(nil, made)}
	err := d.record(ctx, who, &c, func() (err error) {
		t.Record, t.Revision, err = d.Tenants.Add(ctx, name, note, limits)
		if errors.Is(err, ingest.ErrTenantExists) {
			return &Denied{http.StatusConflict, "tenant_exists", err.Error()}
		}
		return err
	})
	return t, err
}

// bad is what is wrong with what was asked for.
func bad(err error) error { return &Denied{http.StatusBadRequest, "bad_request", err.Error()} }

// Change alters the record of a tenant, at a revision or, with 0, as it is. A tenant that a file declares stays as it is.
func (d *Desk) Change(ctx context.Context, who Who, name string, revision uint64, change func(*tenant.Record) error) (Tenant, error) {
	return d.change(ctx, who, name, revision, changeOf{action: "tenant set"}, change)
}

func (d *Desk) change(ctx context.Context, who Who, name string, revision uint64, c changeOf, change func(*tenant.Record) error) (
	Tenant, error) {
	if !who.sees(name) {
		return Tenant{}, NoTenant(name)
	}
	if err := who.operate("to change a tenant"); err != nil {
		return Tenant{}, err
	}
	var t Tenant
	err := attempt(ctx, revision, func() error {
		was, at, err := d.own(ctx, name, revision)
		if err != nil {
			return err
		}
		t.Record, t.Revision = was, at
		if err := change(&t.Record); err != nil {
			return err
		}
		if t.Record == was {
			return nil
		}
		if t.Name != was.Name || !t.Created.Equal(was.Created) || t.Declared != was.Declared {
			return fmt.Errorf("BUG: admin: tenant %s became another", name)
		}
		if err := tenant.CheckNote(t.Note); err != nil {
			return bad(err)
		}
		if err := d.settle(ctx, was.Limits, &t.Limits); err != nil {
			return err
		}
		c.tenant, c.object, c.change = name, name, difference(was, t.Record)
		return d.record(ctx, who, &c, func() (err error) {
			t.Revision, err = d.Tenants.Replace(ctx, t.Record, at)
			return err
		})
	})
	return t, err
}

// own is the record of a tenant that commands may change, if it is of a revision that is not 0.
func (d *Desk) own(ctx context.Context, name string, revision uint64) (tenant.Record, uint64, error) {
	r, at, err := d.Tenants.Stored(ctx, name)
	switch {
	case errors.Is(err, ingest.ErrNoTenant) || tenant.CheckName(name) != nil:
		return r, 0, &Denied{http.StatusNotFound, "no_such_tenant", err.Error()}
	case err != nil:
		return r, 0, err
	case revision != anyRevision && at != revision:
		return r, 0, ingest.ErrChanged
	case r.Declared:
		return r, 0, &Denied{http.StatusConflict, "declared", fmt.Sprintf("tenant %s is declared in the file of --tenants: change it there, the "+
			"gateways look every 2 s", name)}
	}
	return r, at, nil
}

// Disable lets gateways refuse a tenant. What it has sent stays.
func (d *Desk) Disable(ctx context.Context, who Who, name string, revision uint64) (Tenant, error) {
	return d.change(ctx, who, name, revision, changeOf{action: "tenant disable", urgent: true}, func(r *tenant.Record) error {
		if r.Disabled.IsZero() {
			r.Disabled = time.Now().UTC()
		}
		return nil
	})
}

// Enable lets a tenant in again.
func (d *Desk) Enable(ctx context.Context, who Who, name string, revision uint64) (Tenant, error) {
	return d.change(ctx, who, name, revision, changeOf{action: "tenant enable"}, func(r *tenant.Record) error {
		r.Disabled = time.Time{}
		return nil
	})
}

// Delete forgets the record of a tenant that has no valid key, which would have the service's limits then.
func (d *Desk) Delete(ctx context.Context, who Who, name string, revision uint64) error {
	if !who.sees(name) {
		return NoTenant(name)
	}
	if err := who.operate("to delete a tenant"); err != nil {
		return err
	}
	return attempt(ctx, revision, func() error {
		was, at, err := d.own(ctx, name, revision)
		if err != nil {
			return err
		}
		_, valid, err := d.Show(ctx, who, name)
		if err != nil {
			return err
		}
		if n := len(valid); n > 0 {
			return &Denied{http.StatusConflict, "has_keys", fmt.Sprintf("tenant %s has %s, which would have the service's limits: revoke them "+
				"first, or \"warpline tenant disable %[1]s\"", name, plural(n, "valid key"))}
		}
		c := changeOf{tenant: name, action: "tenant delete", object: name, change: difference(was, nil)}
		return d.record(ctx, who, &c, func() error { return d.Tenants.Remove(ctx, name, at) })
	})
}

// Declare stores a tenant as a file has it, and reports whether it was otherwise.
func (d *Desk) Declare(ctx context.Context, name, note string, disabled bool, limits tenant.Limits) (bool, error) {
	was, _, err := d.Tenants.Stored(ctx, name)
	none := errors.Is(err, ingest.ErrNoTenant)
	if err != nil && !none {
		return false, err
	}
	set := func(r *tenant.Record) {
		r.Declared, r.Note, r.Limits = true, note, limits
		switch {
		case !disabled:
			r.Disabled = time.Time{}
		case r.Disabled.IsZero():
			r.Disabled = time.Now().UTC()
		}
	}
	now := was
	if now.Name = name; none {
		was = tenant.Record{}
	}
	if set(&now); now == was {
		return false, nil
	}
	c := changeOf{tenant: name, action: "tenant declare", object: name, change: difference(was, now), urgent: true}
	return true, d.record(ctx, File(), &c, func() error {
		if none {
			if _, err := d.Tenants.Create(ctx, name, note, limits); err != nil && !errors.Is(err, ingest.ErrTenantExists) {
				return err
			}
		}
		_, err := d.Tenants.Change(ctx, name, set)
		return err
	})
}

// Undeclare leaves a tenant as it is, for commands to change.
func (d *Desk) Undeclare(ctx context.Context, name string) error {
	c := changeOf{tenant: name, action: "tenant undeclare", object: name, urgent: true}
	return d.record(ctx, File(), &c, func() error {
		_, err := d.Tenants.Change(ctx, name, func(r *tenant.Record) { r.Declared = false })
		return err
	})
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

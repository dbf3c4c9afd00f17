package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// KeysOf returns the keys of a tenant, of "" all that are there for who asks, in no order. Revoked and expired ones are among them.
func (d *Desk) KeysOf(ctx context.Context, who Who, of string) ([]ingest.StoredKey, error) {
	if of != "" && (!who.sees(of) || tenant.CheckName(of) != nil) {
		return nil, NoTenant(of)
	}
	all, err := d.Keys.All(ctx)
	if err != nil {
		return nil, err
	}
	out := all[:0]
	for _, k := range all {
		if who.sees(k.Tenant) && (of == "" || k.Tenant == of) {
			out = append(out, k)
		}
	}
	return out, nil
}

// ValidKeys returns those keys of a tenant that work now.
func (d *Desk) ValidKeys(ctx context.Context, who Who, of string) (valid []tenant.Key, err error) {
	keys, err := d.KeysOf(ctx, who, of)
	for i := range keys {
		if ok, _ := keys[i].Valid(time.Now()); ok {
			valid = append(valid, keys[i].Key)
		}
	}
	return valid, err
}

// RevokeAll ends keys for good, and calls told after each.
func (d *Desk) RevokeAll(ctx context.Context, who Who, keys []tenant.Key, told func(tenant.Key)) error {
	for _, k := range keys {
		if _, err := d.RevokeKey(ctx, who, k.ID, anyRevision); err != nil {
			return fmt.Errorf("revoke key %s: %w: nothing was deleted yet", k.ID, err)
		}
		if told != nil {
			told(k)
		}
	}
	return nil
}

// Key finds a key. Whoever has a key of their own names it by its whole id; at the machine its beginning or the secret is enough.
func (d *Desk) Key(ctx context.Context, who Who, id string) (ingest.StoredKey, error) {
	if who.key.ID == "" && who.all {
		k, err := d.Keys.Named(ctx, id)
		return k, err
	}
	all, err := d.KeysOf(ctx, who, "")
	if err != nil {
		return ingest.StoredKey{}, err
	}
	var found []ingest.StoredKey
	for _, k := range all {
		if k.ID == id {
			found = append(found, k)
		}
	}
	switch len(found) {
	case 0:
		return ingest.StoredKey{}, &Denied{http.StatusNotFound, "no_such_key", "there is no key of this id here: ask for the keys that there are"}
	case 1:
		return found[0], nil
	}
	return ingest.StoredKey{}, &Denied{http.StatusConflict, "ambiguous_key", fmt.Sprintf("%d keys have this id: name the one by its secret, "+
		"with \"warpline key\"", len(found))}
}

// MakeKey makes a key with tenant, scope, note, limits and expiry of like, and returns its secret, which is stored nowhere.
func (d *Desk) MakeKey(ctx context.Context, who Who, like tenant.Key) (secret string, made ingest.StoredKey, err error) {
	if like.Tenant != "" && !who.sees(like.Tenant) {
		return "", made, NoTenant(like.Tenant)
	}
	if !who.all && !who.key.MayMake(like) {
		return "", made, &Denied{http.StatusForbidden, "stronger_key", "a key of scope " + like.Scope.String() + " is the operator's to make"}
	}
	if err := errors.Join(like.Check(), tenant.CheckNote(like.Note), ingestLimits(&like)); err != nil {
		return "", made, bad(err)
	}
	if err := d.settle(ctx, tenant.Limits{}, &like.Limits); err != nil {
		return "", made, err
	}
	if !like.Expires.IsZero() && !like.Expires.After(time.Now()) {
		return "", made, bad(errors.New("expires: it is over: name a time to come"))
	}
	if err := d.within(ctx, who, &like); err != nil {
		return "", made, err
	}
	like = tenant.Key{Tenant: like.Tenant, Scope: like.Scope, Note: like.Note, Limits: like.Limits, Expires: like.Expires}
	c := changeOf{tenant: like.Tenant, action: "key create", change: difference(nil, like)}
	err = d.record(ctx, who, &c, func() (err error) {
		secret, made, err = d.Keys.Add(ctx, like)
		c.object, c.change = made.ID, difference(nil, made.Key)
		return err
	})
	return secret, made, err
}

// ingestLimits returns an error when the key has limits that nothing looks at.
func ingestLimits(k *tenant.Key) error {
	if k.Scope != tenant.ScopeIngest && k.Limits != (tenant.Limits{}) {
		return errors.New("limits are for keys of scope ingest: leave them out")
	}
	return nil
}

// within returns an error when an administrator gives a key more than its tenant has. The limits of a tenant without a record are the
// service's: a key of it that the operator made wider stays so, and makes no others wide.
func (d *Desk) within(ctx context.Context, who Who, k *tenant.Key) error {
	if who.all {
		return nil
	}
	r, err := d.Tenants.Get(ctx, k.Tenant)
	if err != nil && !errors.Is(err, ingest.ErrNoTenant) {
		return err
	}
	if err := k.Limits.Above(r.Limits.Or(d.Defaults)); err != nil {
		return &Denied{http.StatusForbidden, "stronger_key", err.Error() + ": a key may be narrower than its tenant, not wider"}
	}
	return nil
}

// find is Key for a change at a revision that is not 0.
func (d *Desk) find(ctx context.Context, who Who, id string, revision uint64) (ingest.StoredKey, error) {
	k, err := d.Key(ctx, who, id)
	if err == nil && revision != anyRevision && k.Revision != revision {
		err = ingest.ErrChanged
	}
	return k, err
}

// ChangeKey alters note, expiry or limits of a key, at a revision or, with 0, as it is. Gateways keep to it within 10 s.
func (d *Desk) ChangeKey(ctx context.Context, who Who, id string, revision uint64, change func(*tenant.Key) error) (
	now ingest.StoredKey, err error) {
	err = attempt(ctx, revision, func() error {
		was, err := d.find(ctx, who, id, revision)
		if err != nil {
			return err
		}
		if !was.Revoked.IsZero() {
			return &Denied{http.StatusConflict, "key_ended", fmt.Sprintf("key %s is revoked, for good: make another with \"warpline key create "+
				"%s\"", was.ID, was.Tenant)}
		}
		k := was.Key
		if err := change(&k); err != nil {
			return err
		}
		if !k.Expires.Equal(was.Expires) {
			k.LastsSeconds = 0 // it is as long again as whoever changed it said
		}
		if now = was; k == was.Key {
			return nil
		}
		if k.Scope != tenant.ScopeIngest && k.Limits != was.Limits {
			return bad(fmt.Errorf("key %s has scope %s: limits are for keys of scope ingest", k.ID, k.Scope))
		}
		if err := tenant.CheckNote(k.Note); err != nil && k.Note != was.Note {
			return bad(err)
		}
		if k.Limits != was.Limits {
			if err := d.settle(ctx, was.Limits, &k.Limits); err != nil {
				return err
			}
			if err := d.within(ctx, who, &k); err != nil {
				return err
			}
		}
		c := changeOf{tenant: k.Tenant, action: "key set", object: k.ID, change: difference(was.Key, k)}
		return d.record(ctx, who, &c, func() (err error) {
			now, err = d.Keys.Alter(ctx, was, func(stored *tenant.Key) error { *stored = k; return nil })
			return err
		})
	})
	return now, err
}

// RotateKey makes a key like another, which works for overlap beside it and then ends. The secret is stored nowhere.
func (d *Desk) RotateKey(ctx context.Context, who Who, id string, revision uint64, overlap time.Duration) (
	secret string, made, old ingest.StoredKey, err error) {
	err = attempt(ctx, revision, func() error {
		was, err := d.find(ctx, who, id, revision)
		if err != nil {
			return err
		}
		if ok, why := was.Valid(time.Now()); !ok {
			return &Denied{http.StatusConflict, "key_ended", fmt.Sprintf("%s: make a new one with `warpline key create %s`", why, was.Tenant)}
		}
		c := changeOf{tenant: was.Tenant, action: "key rotate", object: was.ID}
		return d.record(ctx, who, &c, func() (err error) {
			secret, made, old, err = d.Keys.Succeed(ctx, was, overlap)
			replaced := difference(was.Key, old.Key)
			replaced["replaced_by"] = [2]any{nil, made.ID}
			c.change = replaced
			return err
		})
	})
	return secret, made, old, err
}

// RevokeKey ends a key for good; gateways refuse it within 10 s. Revoking twice keeps the first time.
func (d *Desk) RevokeKey(ctx context.Context, who Who, id string, revision uint64) (ingest.StoredKey, error) {
	var now ingest.StoredKey
	err := attempt(ctx, revision, func() error {
		was, err := d.find(ctx, who, id, revision)
		if err != nil {
			return err
		}
		if now = was; !was.Revoked.IsZero() {
			return nil
		}
		k := was.Key
		k.Revoked = time.Now().UTC()
		c := changeOf{tenant: k.Tenant, action: "key revoke", object: k.ID, change: difference(was.Key, k), urgent: true}
		return d.record(ctx, who, &c, func() (err error) {
			now, err = d.Keys.Alter(ctx, was, func(stored *tenant.Key) error { *stored = k; return nil })
			return err
		})
	})
	return now, err
}

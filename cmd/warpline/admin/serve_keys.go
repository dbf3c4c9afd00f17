package admin

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// What comes and goes of keys.
type (
	keyList struct {
		Keys []KeyShown `json:"keys"`
		Next string     `json:"next,omitempty"`
	}
	keyNew struct {
		Tenant  string    `json:"tenant"`
		Scope   string    `json:"scope"`
		Note    string    `json:"note"`
		Expires time.Time `json:"expires"`
		askedLimits
	}
	keyFields struct {
		Note    string    `json:"note"`
		Expires time.Time `json:"expires"`
		askedLimits
	}
	// keyMade has the secret, this one time.
	keyMade struct {
		Secret string `json:"secret"`
		KeyShown
	}
	keyRotation struct {
		OverlapSeconds int64 `json:"overlap_seconds"`
	}
	keyRotated struct {
		keyMade
		Replaces KeyShown `json:"replaces"`
	}
)

// overlapDefault and overlapMost bound how long an old key works beside its successor.
const (
	overlapDefault = 24 * 60 * 60
	overlapMost    = 366 * 24 * 60 * 60
)

func (c *call) listKeys() (any, error) {
	stored, err := c.api.Desk.KeysOf(c.ctx, c.who, c.vars["tenant"])
	if err != nil {
		return nil, err
	}
	if of := c.vars["tenant"]; of != "" && len(stored) == 0 {
		if _, err := c.api.Desk.Tenants.Get(c.ctx, of); errors.Is(err, ingest.ErrNoTenant) {
			return nil, NoTenant(of)
		}
	}
	slices.SortFunc(stored, func(a, b ingest.StoredKey) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Tenant, b.Tenant), a.Created.Compare(b.Created))
	})
	stored, next, err := page(c, stored, func(k *ingest.StoredKey) string { return k.ID })
	keys := make([]KeyShown, len(stored))
	for i := range stored {
		keys[i] = ShowKey(stored[i].Key)
	}
	return keyList{keys, next}, err
}

func (c *call) createKey() (any, error) {
	in := keyNew{Tenant: c.vars["tenant"], Scope: tenant.ScopeIngest.String()}
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	if of := c.vars["tenant"]; of != "" && in.Tenant != of {
		return nil, bad(errors.New("tenant: it is in the path: leave it out"))
	}
	scope, err := tenant.ParseScope(in.Scope)
	if err != nil {
		return nil, bad(err)
	}
	if in.Tenant == "" && !c.who.all { // a key without a tenant is an operator's, or nobody's
		in.Tenant = c.who.key.Tenant
	}
	limits, err := in.of(tenant.Limits{})
	if err != nil {
		return nil, err
	}
	secret, made, err := c.api.Desk.MakeKey(c.ctx, c.who, tenant.Key{Tenant: in.Tenant, Scope: scope, Note: in.Note, Expires: in.Expires.UTC(),
		Limits: limits})
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Location", Path+"keys/"+made.ID)
	c.at(made.Revision)
	return keyMade{secret, ShowKey(made.Key)}, nil
}

func (c *call) showKey() (any, error) {
	k, err := c.api.Desk.Key(c.ctx, c.who, c.vars["id"])
	c.at(k.Revision)
	return ShowKey(k.Key), err
}

func (c *call) changeKey() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	k, err := c.api.Desk.ChangeKey(c.ctx, c.who, c.vars["id"], at, func(k *tenant.Key) error {
		in := keyFields{k.Note, k.Expires, asked(k.Limits)}
		if err := decode(c.body, &in); err != nil {
			return err
		}
		k.Note = in.Note
		k.Limits, err = in.of(k.Limits)
		if !k.Expires.Equal(in.Expires) {
			k.Expires = in.Expires.UTC()
		}
		return err
	})
	c.at(k.Revision)
	return ShowKey(k.Key), err
}

func (c *call) rotateKey() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	in := keyRotation{overlapDefault}
	if err := decode(c.body, &in); err != nil {
		return nil, err
	}
	if in.OverlapSeconds < 0 || in.OverlapSeconds > overlapMost {
		return nil, bad(errors.New("overlap_seconds: use a number from 0 to 31622400"))
	}
	secret, made, old, err := c.api.Desk.RotateKey(c.ctx, c.who, c.vars["id"], at, time.Duration(in.OverlapSeconds)*time.Second)
	if secret == "" || err != nil && made.ID == "" {
		return nil, err
	}
	if err != nil { // the new key works, and the old one goes on: better known than lost
		c.api.Logger.Error("a key was rotated, and the old one does not end", "key", old.ID, "err", err)
	}
	c.w.Header().Set("Location", Path+"keys/"+made.ID)
	c.at(made.Revision)
	return keyRotated{keyMade{secret, ShowKey(made.Key)}, ShowKey(old.Key)}, nil
}

func (c *call) revokeKey() (any, error) {
	at, err := c.revision()
	if err != nil {
		return nil, err
	}
	k, err := c.api.Desk.RevokeKey(c.ctx, c.who, c.vars["id"], at)
	c.at(k.Revision)
	return ShowKey(k.Key), err
}

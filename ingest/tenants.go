package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/tenant"
)

// tenantPrefix begins the names of tenants' records in the bucket of keys. Keys are there by their hash, which has no dot.
const tenantPrefix = "tenant."

// ErrNoTenant is that a tenant has no record.
var ErrNoTenant = errors.New("the tenant has no record")

// ErrTenantExists is that a tenant has a record already.
var ErrTenantExists = errors.New("the tenant is there already")

// Tenants is the records of tenants, in the bucket of keys. Use NewTenants. It is safe for concurrent use; the bucket's connection belongs
// to the caller.
type Tenants struct{ kv jetstream.KeyValue }

// NewTenants returns the tenants in the bucket stream.KeysBucket.
func NewTenants(kv jetstream.KeyValue) *Tenants { return &Tenants{kv: kv} }

// Create stores a new tenant. One that has a record already is an error.
func (t *Tenants) Create(ctx context.Context, name, note string, limits tenant.Limits) (tenant.Record, error) {
	r, _, err := t.Add(ctx, name, note, limits)
	return r, err
}

// Add is Create, and returns the revision of the record too.
func (t *Tenants) Add(ctx context.Context, name, note string, limits tenant.Limits) (r tenant.Record, revision uint64, err error) {
	r = tenant.Record{Name: name, Note: note, Created: time.Now().UTC(), Limits: limits}
	value, err := encodeRecord(r)
	if err != nil {
		return r, 0, err
	}
	revision, err = t.kv.Create(ctx, tenantPrefix+name, value)
	switch {
	case err == nil:
		return r, revision, nil
	case broker.IsWrongSequence(err), errors.Is(err, jetstream.ErrKeyExists):
		return r, 0, fmt.Errorf("%w: change %s with `warpline tenant set %[2]s`", ErrTenantExists, name)
	}
	return r, 0, fmt.Errorf("store tenant: %w", err)
}

// Get returns the record of a tenant, ErrNoTenant if it has none.
func (t *Tenants) Get(ctx context.Context, name string) (tenant.Record, error) {
	r, _, err := t.Stored(ctx, name)
	return r, err
}

// Stored is Get, and returns the revision of the record too.
func (t *Tenants) Stored(ctx context.Context, name string) (tenant.Record, uint64, error) {
	if err := tenant.CheckName(name); err != nil {
		return tenant.Record{}, 0, err
	}
	e, err := t.kv.Get(ctx, tenantPrefix+name)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return tenant.Record{}, 0, fmt.Errorf("%w: %s: `warpline tenant create %[2]s` makes one", ErrNoTenant, name)
	}
	if err != nil {
		return tenant.Record{}, 0, fmt.Errorf("read tenant %s: %w", name, err)
	}
	r, err := parseTenant(name, e.Value())
	return r, e.Revision(), err
}

// Change reads the record of a tenant, lets change alter it, and stores it. Two that change it at once do not undo each other's work.
func (t *Tenants) Change(ctx context.Context, name string, change func(*tenant.Record)) (tenant.Record, error) {
	for range recordTries {
		r, revision, err := t.Stored(ctx, name)
		if err != nil {
			return r, err
		}
		change(&r)
		if _, err = t.Replace(ctx, r, revision); !errors.Is(err, ErrChanged) {
			return r, err
		}
	}
	return tenant.Record{}, fmt.Errorf("tenant %s changes all the time: try again", name)
}

// Replace stores a record in place of that of a revision, and returns its own; ErrChanged if there is another by now.
func (t *Tenants) Replace(ctx context.Context, r tenant.Record, revision uint64) (uint64, error) {
	value, err := encodeRecord(r)
	if err != nil {
		return 0, err
	}
	now, err := t.kv.Update(ctx, tenantPrefix+r.Name, value, revision)
	switch {
	case err == nil:
		return now, nil
	case broker.IsWrongSequence(err):
		return 0, ErrChanged
	}
	return 0, fmt.Errorf("store tenant: %w", err)
}

// Remove deletes the record of a revision; ErrChanged if there is another by now. The tenant's keys then have the service's limits, and its
// data stays.
func (t *Tenants) Remove(ctx context.Context, name string, revision uint64) error {
	err := t.kv.Delete(ctx, tenantPrefix+name, jetstream.LastRevision(revision))
	if broker.IsWrongSequence(err) {
		return ErrChanged
	}
	return err
}

// List returns all records by name. One that cannot be read, which somebody else wrote, is left out.
func (t *Tenants) List(ctx context.Context) ([]tenant.Record, error) {
	w, err := t.kv.Watch(ctx, tenantPrefix+"*", jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("list tenants: %w", err)
	}
	defer w.Stop()
	var all []tenant.Record
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list tenants: %w", ctx.Err())
		case e, ok := <-w.Updates():
			if !ok {
				return nil, errors.New("list tenants: the connection to NATS was closed")
			}
			if e == nil {
				slices.SortFunc(all, func(a, b tenant.Record) int { return strings.Compare(a.Name, b.Name) })
				return all, nil
			}
			if r, err := parseTenant(strings.TrimPrefix(e.Key(), tenantPrefix), e.Value()); err == nil {
				all = append(all, r)
			}
		}
	}
}

func encodeRecord(r tenant.Record) ([]byte, error) {
	if err := tenant.CheckName(r.Name); err != nil {
		return nil, err
	}
	value, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode tenant: %w", err)
	}
	return value, nil
}

func parseTenant(name string, value []byte) (tenant.Record, error) {
	var r tenant.Record
	if err := json.Unmarshal(value, &r); err != nil {
		return r, fmt.Errorf("not a stored tenant: %w", err)
	}
	if r.Name != name {
		return r, fmt.Errorf("not a stored tenant: it is called %q", r.Name)
	}
	return r, tenant.CheckName(name)
}

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
	r := tenant.Record{Name: name, Note: note, Created: time.Now().UTC(), Limits: limits}
	value, err := encodeRecord(r)
	if err != nil {
		return r, err
	}
	_, err = t.kv.Create(ctx, tenantPrefix+name, value)
	switch {
	case err == nil:
		return r, nil
	case broker.IsWrongSequence(err), errors.Is(err, jetstream.ErrKeyExists):
		return r, fmt.Errorf("%w: change %s with `warpline tenant set %[2]s`", ErrTenantExists, name)
	}
	return r, fmt.Errorf("store tenant: %w", err)
}

// Get returns the record of a tenant, ErrNoTenant if it has none.
func (t *Tenants) Get(ctx context.Context, name string) (tenant.Record, error) {
	r, _, err := t.get(ctx, name)
	return r, err
}

func (t *Tenants) get(ctx context.Context, name string) (tenant.Record, uint64, error) {
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
		r, revision, err := t.get(ctx, name)
		if err != nil {
			return r, err
		}
		change(&r)
		value, err := encodeRecord(r)
		if err != nil {
			return r, err
		}
		_, err = t.kv.Update(ctx, tenantPrefix+name, value, revision)
		if err == nil || !broker.IsWrongSequence(err) {
			return r, err
		}
	}
	return tenant.Record{}, fmt.Errorf("tenant %s changes all the time: try again", name)
}

// Delete removes the record of a tenant, whose keys then have the service's limits. Its data stays.
func (t *Tenants) Delete(ctx context.Context, name string) error {
	_, revision, err := t.get(ctx, name)
	if err != nil {
		return err
	}
	return t.kv.Delete(ctx, tenantPrefix+name, jetstream.LastRevision(revision))
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

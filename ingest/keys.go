package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/tenant"
)

// Keys is the bucket of keys. It stores hashes and never secrets. Use NewKeys. It is safe for concurrent use; the bucket's
// connection belongs to the caller.
type Keys struct{ kv jetstream.KeyValue }

// NewKeys returns the keys in the bucket stream.KeysBucket.
func NewKeys(kv jetstream.KeyValue) *Keys { return &Keys{kv: kv} }

// Create makes a key for a tenant and returns its secret, which is stored nowhere. Zero limits are the service's defaults; ttl 0
// means that the key does not expire. Gateways take it at once.
func (k *Keys) Create(ctx context.Context, tenantName, note string, limits tenant.Limits, ttl time.Duration) (
	secret string, key tenant.Key, err error) {
	secret = tenant.NewSecret()
	key, err = k.Put(ctx, secret, tenantName, note, limits, ttl)
	return secret, key, err
}

// Put stores a key for a secret that exists already, or replaces what is stored for it, a revocation included.
func (k *Keys) Put(ctx context.Context, secret, tenantName, note string, limits tenant.Limits, ttl time.Duration) (tenant.Key, error) {
	if err := tenant.CheckName(tenantName); err != nil {
		return tenant.Key{}, err
	}
	secret = strings.TrimSpace(secret)
	if len(secret) < 8 {
		return tenant.Key{}, errors.New("a key needs at least 8 characters: let warpline make one")
	}
	key := tenant.Key{ID: tenant.ID(secret), Tenant: tenantName, Note: note, Created: time.Now().UTC(), Limits: limits}
	if ttl > 0 {
		key.Expires = key.Created.Add(ttl)
	}
	value, err := json.Marshal(key)
	if err != nil {
		return tenant.Key{}, fmt.Errorf("encode key: %w", err)
	}
	if _, err := k.kv.Put(ctx, tenant.Hash(secret), value); err != nil {
		return tenant.Key{}, fmt.Errorf("store key: %w", err)
	}
	return key, nil
}

// Revoke ends a key, named by its whole secret or by the beginning of its id (with or without tenant.Prefix), and returns it. A name
// that fits no key or several is an error. Revoking twice keeps the first time.
func (k *Keys) Revoke(ctx context.Context, idOrSecret string) (tenant.Key, error) {
	idOrSecret = strings.TrimSpace(idOrSecret)
	hash := tenant.Hash(idOrSecret)
	prefix := strings.TrimPrefix(idOrSecret, tenant.Prefix)
	if prefix == "" {
		return tenant.Key{}, errors.New("which key? name it by its id, see `warpline key list`")
	}
	for range recordTries {
		entries, err := k.entries(ctx)
		if err != nil {
			return tenant.Key{}, err
		}
		var found []keyEntry
		for _, e := range entries {
			if e.hash == hash {
				found = []keyEntry{e}
				break
			}
			// What is longer than an id must be the whole secret, and that is compared by its hash.
			if strings.HasPrefix(e.key.ID, prefix) {
				found = append(found, e)
			}
		}
		switch {
		case len(found) == 0:
			return tenant.Key{}, fmt.Errorf("no key %q: see `warpline key list`", tenant.ID(idOrSecret))
		case len(found) > 1:
			return tenant.Key{}, fmt.Errorf("%d keys begin with %q: name more of it", len(found), prefix)
		}
		e := found[0]
		if !e.key.Revoked.IsZero() {
			return e.key, nil
		}
		e.key.Revoked = time.Now().UTC()
		value, err := json.Marshal(e.key)
		if err != nil {
			return tenant.Key{}, fmt.Errorf("encode key: %w", err)
		}
		_, err = k.kv.Update(ctx, e.hash, value, e.revision)
		if err == nil {
			return e.key, nil
		} else if !broker.IsWrongSequence(err) {
			return tenant.Key{}, fmt.Errorf("store key: %w", err)
		}
	}
	return tenant.Key{}, errors.New("the key changes all the time: try again")
}

// List returns all keys, revoked and expired ones included, by tenant and then by time of creation. A value that is not a key, which
// somebody else wrote, is left out: gateways refuse it, and it must not hide the others.
func (k *Keys) List(ctx context.Context) ([]tenant.Key, error) {
	entries, err := k.entries(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]tenant.Key, len(entries))
	for i := range entries {
		out[i] = entries[i].key
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Tenant != out[j].Tenant {
			return out[i].Tenant < out[j].Tenant
		}
		return out[i].Created.Before(out[j].Created)
	})
	return out, nil
}

type keyEntry struct {
	hash     string
	revision uint64
	key      tenant.Key
}

func (k *Keys) entries(ctx context.Context) ([]keyEntry, error) {
	w, err := k.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer w.Stop()
	var out []keyEntry
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("list keys: %w", ctx.Err())
		case e, ok := <-w.Updates():
			if !ok {
				return nil, errors.New("list keys: the connection to NATS was closed")
			}
			if e == nil {
				return out, nil
			}
			key, err := parseKey(e.Value())
			if err != nil {
				continue
			}
			out = append(out, keyEntry{hash: e.Key(), revision: e.Revision(), key: key})
		}
	}
}

func parseKey(value []byte) (tenant.Key, error) {
	var key tenant.Key
	if err := json.Unmarshal(value, &key); err != nil {
		return key, fmt.Errorf("not a stored key: %w", err)
	}
	return key, tenant.CheckName(key.Tenant)
}

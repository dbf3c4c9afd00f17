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

// Bucket is the bucket itself, for NewTenants.
func (k *Keys) Bucket() jetstream.KeyValue { return k.kv }

// Create makes a key for a tenant and returns its secret, which is stored nowhere. Zero limits are the service's defaults; ttl 0
// means that the key does not expire. Gateways take it at once.
func (k *Keys) Create(ctx context.Context, tenantName, note string, limits tenant.Limits, ttl time.Duration) (
	secret string, key tenant.Key, err error) {
	return k.Make(ctx, tenant.Key{Tenant: tenantName, Note: note, Limits: limits}, ttl)
}

// Make is Create for a key of any scope: like is what it has of tenant, scope, note and limits.
func (k *Keys) Make(ctx context.Context, like tenant.Key, ttl time.Duration) (secret string, key tenant.Key, err error) {
	secret = tenant.NewSecret()
	key, err = k.put(ctx, secret, like, ttl)
	return secret, key, err
}

// Put stores a key for a secret that exists already, or replaces what is stored for it, a revocation included.
func (k *Keys) Put(ctx context.Context, secret, tenantName, note string, limits tenant.Limits, ttl time.Duration) (tenant.Key, error) {
	return k.put(ctx, secret, tenant.Key{Tenant: tenantName, Note: note, Limits: limits}, ttl)
}

func (k *Keys) put(ctx context.Context, secret string, key tenant.Key, ttl time.Duration) (tenant.Key, error) {
	if err := key.Check(); err != nil {
		return tenant.Key{}, err
	}
	secret = strings.TrimSpace(secret)
	if len(secret) < 8 {
		return tenant.Key{}, errors.New("a key needs at least 8 characters: let warpline make one")
	}
	key.ID, key.Created = tenant.ID(secret), time.Now().UTC()
	if ttl > 0 {
		key.Expires = key.Created.Add(ttl)
	}
	value, err := json.Marshal(key)
	if err != nil {
		return tenant.Key{}, fmt.Errorf("encode key: %w", err)
	}
	if _, err := k.kv.Put(ctx, recordName(tenant.Hash(secret), key.Scope), value); err != nil {
		return tenant.Key{}, fmt.Errorf("store key: %w", err)
	}
	return key, nil
}

// Revoke ends a key, which is named as for Change, and returns it. Revoking twice keeps the first time.
func (k *Keys) Revoke(ctx context.Context, idOrSecret string) (tenant.Key, error) {
	return k.Change(ctx, idOrSecret, func(key *tenant.Key) error {
		if key.Revoked.IsZero() {
			key.Revoked = time.Now().UTC()
		}
		return nil
	})
}

// Rotate makes a key with the tenant, scope, note and limits of another, and lets the old one work for overlap more, unless it ends before
// that. It returns the new secret, which is stored nowhere, and both keys.
func (k *Keys) Rotate(ctx context.Context, idOrSecret string, overlap time.Duration) (secret string, made, old tenant.Key, err error) {
	old, err = k.Change(ctx, idOrSecret, func(key *tenant.Key) error {
		if ok, why := key.Valid(time.Now()); !ok {
			return fmt.Errorf("%s: make a new one with `warpline key create %s`", why, key.Tenant)
		}
		return nil
	})
	if err != nil {
		return "", made, old, err
	}
	var left time.Duration
	if !old.Expires.IsZero() {
		left = old.Expires.Sub(old.Created) // as long as the old one had
	}
	secret, made, err = k.Make(ctx, tenant.Key{Tenant: old.Tenant, Scope: old.Scope, Note: old.Note, Limits: old.Limits}, left)
	if err != nil {
		return "", made, old, err
	}
	old, err = k.Change(ctx, idOrSecret, func(key *tenant.Key) error {
		if end := time.Now().Add(overlap).UTC(); key.Expires.IsZero() || key.Expires.After(end) {
			key.Expires = end
		}
		return nil
	})
	return secret, made, old, err
}

// Change alters a key, named by its whole secret or by the beginning of its id (with or without tenant.Prefix), and returns it. A name that
// fits no key or several is an error, and so is what change returns: then nothing is stored. Gateways take it over at once.
func (k *Keys) Change(ctx context.Context, idOrSecret string, change func(*tenant.Key) error) (tenant.Key, error) {
	for range recordTries {
		e, err := k.named(ctx, strings.TrimSpace(idOrSecret))
		if err != nil {
			return tenant.Key{}, err
		}
		before := e.key
		if err := change(&e.key); err != nil || e.key == before {
			return e.key, err
		}
		if e.key.Scope != before.Scope || e.key.Tenant != before.Tenant {
			return e.key, errors.New("a key keeps its scope and its tenant: make another")
		}
		value, err := json.Marshal(e.key)
		if err != nil {
			return tenant.Key{}, fmt.Errorf("encode key: %w", err)
		}
		_, err = k.kv.Update(ctx, recordName(e.hash, e.key.Scope), value, e.revision)
		if err == nil {
			return e.key, nil
		} else if !broker.IsWrongSequence(err) {
			return tenant.Key{}, fmt.Errorf("store key: %w", err)
		}
	}
	return tenant.Key{}, errors.New("the key changes all the time: try again")
}

// named finds the one key of a name.
func (k *Keys) named(ctx context.Context, idOrSecret string) (keyEntry, error) {
	hash, prefix := tenant.Hash(idOrSecret), strings.TrimPrefix(idOrSecret, tenant.Prefix)
	if prefix == "" {
		return keyEntry{}, errors.New("which key? name it by its id, see `warpline key list`")
	}
	entries, err := k.entries(ctx)
	if err != nil {
		return keyEntry{}, err
	}
	var found []keyEntry
	for _, e := range entries {
		if e.hash == hash {
			return e, nil
		}
		// What is longer than an id must be the whole secret, and that is compared by its hash.
		if strings.HasPrefix(e.key.ID, prefix) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return keyEntry{}, fmt.Errorf("no key %q: see `warpline key list`", tenant.ID(idOrSecret))
	case 1:
		return found[0], nil
	}
	return keyEntry{}, fmt.Errorf("%d keys begin with %q: name more of it", len(found), prefix)
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
			hash, key, err := parseKey(e.Key(), e.Value())
			if err != nil {
				continue
			}
			out = append(out, keyEntry{hash: hash, revision: e.Revision(), key: key})
		}
	}
}

// scopedPrefix begins the names of keys that are not for ingest. A gateway of before there were scopes looks keys up by their hash alone,
// so it does not take them for keys of ingest: it answers 401.
const scopedPrefix = "scoped."

// recordName is under which name a key is stored.
func recordName(hash string, scope tenant.Scope) string {
	if scope == tenant.ScopeIngest {
		return hash
	}
	return scopedPrefix + hash
}

// parseKey reads a stored key and the hash of its secret. A key under another name than its scope's is none: somebody has lost its scope.
func parseKey(name string, value []byte) (hash string, key tenant.Key, err error) {
	hash = strings.TrimPrefix(name, scopedPrefix)
	if err := json.Unmarshal(value, &key); err != nil {
		return hash, key, fmt.Errorf("not a stored key: %w", err)
	}
	if name != recordName(hash, key.Scope) {
		return hash, key, fmt.Errorf("a key of scope %s is not stored under this name", key.Scope)
	}
	return hash, key, key.Check()
}

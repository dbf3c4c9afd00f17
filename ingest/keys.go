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

// ErrChanged is that a key or a tenant is not as it was when it was read.
var ErrChanged = errors.New("somebody else has changed it meanwhile: read it again")

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
	key.Expires = time.Time{}
	if ttl > 0 {
		key.Expires = time.Now().UTC().Add(ttl)
	}
	stored, err := k.store(ctx, secret, key)
	return stored.Key, err
}

// Add is Make for a key that ends at like.Expires, or not at all. It returns the key with its revision.
func (k *Keys) Add(ctx context.Context, like tenant.Key) (secret string, made StoredKey, err error) {
	secret = tenant.NewSecret()
	made, err = k.store(ctx, secret, like)
	return secret, made, err
}

func (k *Keys) store(ctx context.Context, secret string, key tenant.Key) (StoredKey, error) {
	if err := key.Check(); err != nil {
		return StoredKey{}, err
	}
	secret = strings.TrimSpace(secret)
	if len(secret) < 8 {
		return StoredKey{}, errors.New("a key needs at least 8 characters: let warpline make one")
	}
	key.ID, key.Created = tenant.ID(secret), time.Now().UTC()
	value, err := json.Marshal(key)
	if err != nil {
		return StoredKey{}, fmt.Errorf("encode key: %w", err)
	}
	hash := tenant.Hash(secret)
	revision, err := k.kv.Put(ctx, recordName(hash, key.Scope), value)
	if err != nil {
		return StoredKey{}, fmt.Errorf("store key: %w", err)
	}
	return StoredKey{Key: key, Revision: revision, hash: hash}, nil
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
	for range recordTries {
		was, err := k.Named(ctx, idOrSecret)
		if err != nil {
			return "", made, old, err
		}
		secret, fresh, ended, err := k.Succeed(ctx, was, overlap)
		if !errors.Is(err, ErrChanged) {
			return secret, fresh.Key, ended.Key, err
		}
	}
	return "", made, old, errors.New("the key changes all the time: try again")
}

// Succeed is Rotate for a key that is as it was read; ErrChanged if it is not, and then there is no new key.
func (k *Keys) Succeed(ctx context.Context, was StoredKey, overlap time.Duration) (secret string, made, old StoredKey, err error) {
	if ok, why := was.Valid(time.Now()); !ok {
		return "", made, was, fmt.Errorf("%s: make a new one with `warpline key create %s`", why, was.Tenant)
	}
	like := tenant.Key{Tenant: was.Tenant, Scope: was.Scope, Note: was.Note, Limits: was.Limits}
	if life := was.Life(); life > 0 {
		like.Expires = time.Now().UTC().Add(life)
	}
	secret, made, err = k.Add(ctx, like)
	if err != nil {
		return "", made, was, err
	}
	old, err = k.Alter(ctx, was, func(key *tenant.Key) error {
		key.EndWith(time.Now().Add(overlap).UTC())
		return nil
	})
	if errors.Is(err, ErrChanged) { // nobody has the new secret
		if undo := k.kv.Delete(ctx, recordName(made.hash, made.Scope)); undo != nil {
			return "", made, was, fmt.Errorf("take the new key %s back: %w: revoke it", made.ID, undo)
		}
		return "", StoredKey{}, was, err
	}
	return secret, made, old, err
}

// Change alters a key, named by its whole secret or by the beginning of its id (with or without tenant.Prefix), and returns it. A name that
// fits no key or several is an error, and so is what change returns: then nothing is stored. Gateways take it over at once.
func (k *Keys) Change(ctx context.Context, idOrSecret string, change func(*tenant.Key) error) (tenant.Key, error) {
	for range recordTries {
		was, err := k.Named(ctx, idOrSecret)
		if err != nil {
			return tenant.Key{}, err
		}
		now, err := k.Alter(ctx, was, change)
		if !errors.Is(err, ErrChanged) {
			return now.Key, err
		}
	}
	return tenant.Key{}, errors.New("the key changes all the time: try again")
}

// Alter is Change for a key that is as it was read; ErrChanged if it is not.
func (k *Keys) Alter(ctx context.Context, was StoredKey, change func(*tenant.Key) error) (StoredKey, error) {
	now := was
	if err := change(&now.Key); err != nil || now.Key == was.Key {
		return now, err
	}
	if now.Scope != was.Scope || now.Tenant != was.Tenant {
		return now, errors.New("a key keeps its scope and its tenant: make another")
	}
	value, err := json.Marshal(now.Key)
	if err != nil {
		return was, fmt.Errorf("encode key: %w", err)
	}
	now.Revision, err = k.kv.Update(ctx, recordName(now.hash, now.Scope), value, was.Revision)
	switch {
	case err == nil:
		return now, nil
	case broker.IsWrongSequence(err):
		return was, ErrChanged
	}
	return was, fmt.Errorf("store key: %w", err)
}

// Named finds the one key of a name, as Change takes it.
func (k *Keys) Named(ctx context.Context, idOrSecret string) (StoredKey, error) {
	idOrSecret = strings.TrimSpace(idOrSecret)
	hash, prefix := tenant.Hash(idOrSecret), strings.TrimPrefix(idOrSecret, tenant.Prefix)
	if prefix == "" {
		return StoredKey{}, errors.New("which key? name it by its id, see `warpline key list`")
	}
	all, err := k.All(ctx)
	if err != nil {
		return StoredKey{}, err
	}
	var found []StoredKey
	for _, e := range all {
		if e.hash == hash {
			return e, nil
		}
		// What is longer than an id must be the whole secret, and that is compared by its hash.
		if strings.HasPrefix(e.ID, prefix) {
			found = append(found, e)
		}
	}
	switch len(found) {
	case 0:
		return StoredKey{}, fmt.Errorf("no key %q: see `warpline key list`", tenant.ID(idOrSecret))
	case 1:
		return found[0], nil
	}
	return StoredKey{}, fmt.Errorf("%d keys begin with %q: name more of it", len(found), prefix)
}

// List returns all keys, revoked and expired ones included, by tenant and then by time of creation. A value that is not a key, which
// somebody else wrote, is left out: gateways refuse it, and it must not hide the others.
func (k *Keys) List(ctx context.Context) ([]tenant.Key, error) {
	stored, err := k.All(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]tenant.Key, len(stored))
	for i := range stored {
		out[i] = stored[i].Key
	}
	sort.Slice(out, func(i, j int) bool {
		if out[i].Tenant != out[j].Tenant {
			return out[i].Tenant < out[j].Tenant
		}
		return out[i].Created.Before(out[j].Created)
	})
	return out, nil
}

// StoredKey is a key as it is in the bucket. Two that were read and have one revision are the same.
type StoredKey struct {
	tenant.Key
	Revision uint64
	hash     string
}

// listRounds is how often keys are listed anew because one of them was changed meanwhile.
const listRounds = 5

// All is List in no order, with revisions.
func (k *Keys) All(ctx context.Context) (all []StoredKey, err error) {
	// A key that is changed while the bucket is read may be passed over: its old value is gone already, and its new one comes after the end.
	before, err := k.lastSeq(ctx)
	for range listRounds {
		if err != nil {
			return nil, err
		}
		if all, err = k.snapshot(ctx); err != nil {
			return nil, err
		}
		was := before
		if before, err = k.lastSeq(ctx); err == nil && before == was {
			break
		}
	}
	return all, err
}

// lastSeq is the sequence of the bucket's last change.
func (k *Keys) lastSeq(ctx context.Context) (uint64, error) {
	status, err := k.kv.Status(ctx)
	if err != nil {
		return 0, fmt.Errorf("list keys: %w", err)
	}
	bucket, ok := status.(*jetstream.KeyValueBucketStatus)
	if !ok {
		return 0, nil
	}
	return bucket.StreamInfo().State.LastSeq, nil
}

// snapshot reads the bucket once.
func (k *Keys) snapshot(ctx context.Context) ([]StoredKey, error) {
	w, err := k.kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer w.Stop()
	var out []StoredKey
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
			out = append(out, StoredKey{Key: key, Revision: e.Revision(), hash: hash})
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

package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/tenant"
)

// keyring is the gateway's copy of the keys bucket, kept up to date by a watch. Requests are checked against it, so they are checked while
// NATS is away too. The bucket is asked only for a key that is not here.
type keyring struct {
	kv       jetstream.KeyValue
	streams  *broker.Streams
	restored int // how often the bucket was made anew, as of the last look; run's goroutine only
	conn     *nats.Conn
	log      *slog.Logger
	defaults tenant.Limits
	guests   *guests
	loaded   atomic.Bool
	asks     *rate.Limiter // of the bucket itself, for keys that the watch has not brought

	mu     sync.RWMutex
	meters map[string]*meter // by key hash
	dev    string            // hash of the dev key, whose meter is not in the bucket

	households map[string]*household // by tenant
	gathering  bool                  // the whole bucket is being read
}

// run watches until ctx ends. The watch is begun anew on every reconnect: an ordered consumer notices only after its heartbeats
// are missed that it is gone, and a revocation must hold within a second.
func (k *keyring) run(ctx context.Context) {
	status := k.conn.StatusChanged(nats.CONNECTED)
	anew, end := k.streams.RemadeChanged()
	defer end()
	defer k.conn.RemoveStatusListener(status)
	for ctx.Err() == nil {
		if err := k.watch(ctx, status, anew); err != nil && ctx.Err() == nil {
			k.log.Warn("cannot watch the keys, trying again", "err", err)
			select {
			case <-ctx.Done():
			case <-status:
			case <-time.After(500 * time.Millisecond):
			}
		}
	}
}

func (k *keyring) watch(ctx context.Context, status <-chan nats.Status, anew <-chan struct{}) error {
	if k.remade() {
		k.restore(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := k.kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	seen := map[string]bool{} // until the first state is complete
	k.gather()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-status:
			return nil
		case <-anew:
			if k.remade() {
				k.restore(ctx)
				return nil
			}
		case e, ok := <-w.Updates():
			if !ok {
				return nats.ErrConnectionClosed
			}
			if e == nil {
				k.retain(seen)
				seen = nil
				k.gathered()
				k.loaded.Store(true)
				continue
			}
			if name, ok := strings.CutPrefix(e.Key(), tenantPrefix); ok {
				k.tenant(name, e)
				if seen != nil {
					seen[e.Key()] = true
				}
				continue
			}
			if e.Operation() != jetstream.KeyValuePut {
				k.remove(e.Key())
				continue
			}
			key, err := parseKey(e.Value())
			if err != nil {
				k.log.Warn("a stored key cannot be read and is not accepted", "hash", e.Key()[:min(8, len(e.Key()))], "err", err)
				k.remove(e.Key())
				continue
			}
			if seen != nil {
				seen[e.Key()] = true
			}
			k.put(e.Key(), key)
		}
	}
}

// tenant takes over what the bucket says of a tenant. What cannot be read leaves the tenant as it was.
func (k *keyring) tenant(name string, e jetstream.KeyValueEntry) {
	if e.Operation() != jetstream.KeyValuePut {
		k.putRecord(name, nil)
		return
	}
	r, err := parseTenant(name, e.Value())
	if err != nil {
		k.log.Warn("a stored tenant cannot be read and is left as it was", "tenant", name, "err", err)
		return
	}
	k.putRecord(name, &r)
}

func (k *keyring) put(hash string, key tenant.Key) {
	if hash == k.dev {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.household(key.Tenant)
	own, uploads := h.of(key, k.defaults)
	if m := k.meters[hash]; m != nil && m.guest.name == key.Tenant {
		m.update(key, own, uploads)
	} else {
		k.drop(hash)
		m = newMeter(hash, key, own, uploads, k.guests.of(key.Tenant))
		k.meters[hash], h.keys[hash] = m, m
	}
	k.limit(key.Tenant, h)
}

func (k *keyring) remove(hash string) {
	if hash == k.dev {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop(hash)
}

// drop forgets a key. The caller holds the lock.
func (k *keyring) drop(hash string) {
	m := k.meters[hash]
	if m == nil {
		return
	}
	delete(k.meters, hash)
	if h := k.households[m.guest.name]; h != nil {
		delete(h.keys, hash)
		k.limit(m.guest.name, h)
	}
}

// retain forgets keys and records that vanished while nobody watched.
func (k *keyring) retain(seen map[string]bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for hash := range k.meters {
		if !seen[hash] && hash != k.dev {
			k.drop(hash)
		}
	}
	for name, h := range k.households {
		if h.record != nil && !seen[tenantPrefix+name] {
			h.record = nil
			k.limit(name, h)
		}
	}
}

const (
	// maxAsks is how often in a second a gateway asks the bucket for a key that it does not know: a client that guesses keys must not load
	// NATS.
	maxAsks = 50
	// watchLag is how long the watch may take to bring a key that is in the bucket.
	watchLag = 3 * time.Second
)

// await looks for a key that the watch has not brought yet, and waits until it does: a new key is used at once, and clients give up at a
// 401. Only the watch lets keys in, so a key that is deleted meanwhile stays out. late is true when the key is in the bucket and the watch
// has not brought it in time, and when nobody can tell.
func (k *keyring) await(ctx context.Context, hash string) (m *meter, late bool) {
	if !k.conn.IsConnected() {
		return nil, true // it may have been made meanwhile
	}
	if !k.asks.Allow() {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, watchLag)
	defer cancel()
	e, err := k.kv.Get(ctx, hash)
	if err != nil {
		return nil, !errors.Is(err, jetstream.ErrKeyNotFound)
	}
	if _, err := parseKey(e.Value()); err != nil {
		return nil, false // the watch does not accept it either
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		m = k.find(hash)
		if m != nil {
			return m, false
		}
		select {
		case <-ctx.Done():
			return nil, true
		case <-again.C:
		}
	}
}

func (k *keyring) find(hash string) *meter {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.meters[hash]
}

// authenticate finds the key of a request. Every failure has the same answer. The time of the answer may tell a key that exists and must
// not be used from one that does not exist, but only to a client that has the key.
func (k *keyring) authenticate(r *http.Request) (*meter, *Refusal) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	hash := tenant.Hash(strings.TrimSpace(token))
	m, why := k.find(hash), "no such key"
	bearer := strings.EqualFold(scheme, "Bearer")
	if m == nil && bearer && token != "" && k.loaded.Load() {
		var late bool
		m, late = k.await(r.Context(), hash)
		if late {
			return nil, Unavailable("starting", "the key is not loaded yet", nil)
		}
	}
	if m != nil && bearer && (k.loaded.Load() || hash == k.dev) { // before that nobody knows whether its tenant is disabled
		key, _ := m.current()
		var ok bool
		ok, why = key.Valid(time.Now())
		if ok && m.guest.disabled.Load() {
			return nil, &Refusal{Status: http.StatusForbidden, Code: "tenant_disabled", RetryAfter: soon(),
				Detail: "the operator has disabled tenant " + m.guest.name + "; nothing was taken: ask the operator, and keep what you have"}
		}
		if ok {
			return m, nil
		}
	}
	if !k.loaded.Load() {
		return nil, Unavailable("starting", "the keys are not loaded yet", nil)
	}
	return nil, &Refusal{
		Status: http.StatusUnauthorized, Code: "unauthorized", Header: [2]string{"WWW-Authenticate", `Bearer realm="warpline"`},
		Detail: "send Authorization: Bearer <key> with a key that `warpline key create` made and that is neither revoked nor expired",
		Cause:  refusedKey(why),
	}
}

// refusedKey is why a key was refused, for the log only.
type refusedKey string

func (r refusedKey) Error() string { return string(r) }

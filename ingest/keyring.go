package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
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
	reads    bool // of a Doorman: it writes nothing into the bucket
	told     bool // the classes of this gateway are stored; run's goroutine only
	loaded   atomic.Bool
	asks     *rate.Limiter // of the bucket itself, for keys that the watch has not brought

	mu     sync.RWMutex
	meters map[string]*meter     // by key hash
	scoped map[string]tenant.Key // keys of other scopes than ingest, by hash
	dev    string                // hash of the dev key, whose meter is not in the bucket

	households map[string]*household // by tenant
	retention  retention
	gathering  bool // the whole bucket is being read
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
	if k.remade() && !k.reads {
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
				if !k.reads {
					k.restore(ctx)
				}
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
				k.tellClasses(ctx)
				continue
			}
			if e.Key() == classesName {
				continue // commands read it
			}
			if name, ok := strings.CutPrefix(e.Key(), tenantPrefix); ok {
				k.tenant(name, e)
				if seen != nil {
					seen[e.Key()] = true
				}
				continue
			}
			hash, key, err := parseKey(e.Key(), e.Value())
			if err != nil || e.Operation() != jetstream.KeyValuePut {
				if e.Operation() == jetstream.KeyValuePut {
					k.log.Warn("a stored key cannot be read and is not accepted", "hash", hash[:min(8, len(hash))], "err", err)
				}
				if strings.HasPrefix(e.Key(), scopedPrefix) {
					k.removeScoped(hash)
				} else {
					k.remove(hash)
				}
				continue
			}
			if seen != nil {
				seen[e.Key()] = true
			}
			if key.Scope != tenant.ScopeIngest {
				k.putScoped(hash, key)
			} else {
				k.put(hash, key)
			}
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
	own, uploads := h.of(key, k.defaults, k.retention.classes)
	uploads = k.retention.fit(uploads)
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
	if k.retention.forget(hash) && !k.gathering && k.retention.weigh() {
		k.refit()
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
	for hash := range k.scoped {
		if !seen[scopedPrefix+hash] {
			delete(k.scoped, hash)
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
func (k *keyring) await(ctx context.Context, hash string) (late bool) {
	if !k.conn.IsConnected() {
		return true // it may have been made meanwhile
	}
	if !k.asks.Allow() {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, watchLag)
	defer cancel()
	e, err := k.kv.Get(ctx, hash)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		e, err = k.kv.Get(ctx, scopedPrefix+hash)
	}
	if err != nil {
		return !errors.Is(err, jetstream.ErrKeyNotFound)
	}
	if _, _, err := parseKey(e.Key(), e.Value()); err != nil {
		return false // the watch does not accept it either
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		if k.known(hash) {
			return false
		}
		select {
		case <-ctx.Done():
			return true
		case <-again.C:
		}
	}
}

func (k *keyring) find(hash string) *meter {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.meters[hash]
}

// restore puts the keys and tenants that this gateway knows into a bucket that was deleted and made anew: deleting the bucket does not
// revoke the keys in it, and clients that get a 401 may give up. A key that another gateway or a person has already put there stays.
func (k *keyring) restore(ctx context.Context) {
	k.mu.RLock()
	known := make(map[string]any, len(k.meters))
	for hash, m := range k.meters {
		if hash != k.dev {
			known[hash], _ = m.current()
		}
	}
	for hash, key := range k.scoped {
		known[recordName(hash, key.Scope)] = key
	}
	for name, h := range k.households {
		if h.record != nil {
			known[tenantPrefix+name] = *h.record
		}
	}
	known[classesName] = k.retention.classes
	k.mu.RUnlock()
	back, failed := 0, error(nil)
	for name, of := range known {
		value, err := json.Marshal(of)
		if err != nil {
			failed = err
			continue
		}
		for range 5 {
			try, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = k.kv.Create(try, name, value)
			cancel()
			if err == nil || broker.IsWrongSequence(err) || ctx.Err() != nil {
				break
			}
		}
		switch {
		case err == nil:
			back++
		case !broker.IsWrongSequence(err):
			failed = err
		}
	}
	if failed != nil {
		k.log.Error("the bucket of keys was made anew, and not every key could be put back", "keys", len(known), "put_back", back,
			"err", failed)
		return
	}
	k.log.Warn("the bucket of keys was made anew: the keys that this gateway knows are in it again", "keys", len(known), "put_back", back)
}

// remade reports whether the bucket was made anew since the last call.
func (k *keyring) remade() bool {
	if k.streams == nil {
		return false
	}
	n := k.streams.Remade("KV_" + stream.KeysBucket)
	if n == k.restored {
		return false
	}
	k.restored = n
	return true
}

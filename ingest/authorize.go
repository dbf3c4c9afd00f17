package ingest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// putScoped takes over a key that is not for ingest. It has no rates here: the doors that it opens have bounds of their own.
func (k *keyring) putScoped(hash string, key tenant.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.scoped[hash] = key
}

func (k *keyring) removeScoped(hash string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.scoped, hash)
}

func (k *keyring) findScoped(hash string) (tenant.Key, bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	key, ok := k.scoped[hash]
	return key, ok
}

// known reports whether the watch has brought a key of any scope.
func (k *keyring) known(hash string) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	_, scoped := k.scoped[hash]
	return scoped || k.meters[hash] != nil
}

// wrongScope is what a valid key is told that does not open a door.
func wrongScope(key tenant.Key, door tenant.Scope) *Refusal {
	detail := "key " + key.ID + " has scope " + key.Scope.String() + ", and this needs one of scope " + door.String()
	if key.Scope == door { // the tenant is not named: it need not be one
		detail = "key " + key.ID + " is not of the tenant that is asked for"
	}
	return &Refusal{Status: http.StatusForbidden, Code: "wrong_scope",
		Detail: detail + "; nothing was taken: the operator makes one with `warpline key create TENANT --scope " + door.String() + "`"}
}

// Authorize finds the key of a secret and reports whether it opens a door to what a tenant has; of "" means the key's own tenant. A
// refusal says no more about other tenants than that the key does not open this door. It is for doors that read, and safe for concurrent
// use.
func (g *Gateway) Authorize(ctx context.Context, secret string, door tenant.Scope, of string) (tenant.Key, *Refusal) {
	return g.keys.authorize(ctx, secret, door, of)
}

func (k *keyring) authorize(ctx context.Context, secret string, door tenant.Scope, of string) (tenant.Key, *Refusal) {
	if !k.loaded.Load() {
		return tenant.Key{}, Unavailable("starting", "the keys are not loaded yet", nil)
	}
	hash := tenant.Hash(secret)
	if !k.known(hash) && secret != "" {
		if late := k.await(ctx, hash); late {
			return tenant.Key{}, Unavailable("starting", "the key is not loaded yet", nil)
		}
	}
	key, ok := k.findScoped(hash)
	if !ok {
		m := k.find(hash)
		if m == nil {
			return tenant.Key{}, unauthorized("no such key")
		}
		key, _ = m.current()
	}
	if ok, why := key.Valid(time.Now()); !ok {
		return tenant.Key{}, unauthorized(why)
	}
	if of == "" {
		of = key.Tenant
	}
	if !key.Opens(door, of) {
		return tenant.Key{}, wrongScope(key, door)
	}
	if at := k.guests.known(of); at != nil && at.disabled.Load() && key.Scope != tenant.ScopeOperator {
		return tenant.Key{}, disabledTenant(of)
	}
	return key, nil
}

// Doorman looks at keys for doors that only read, in a process without a gateway. It follows the bucket of keys, as gateways do, and writes
// nothing there. Make it with NewDoorman; it is safe for concurrent use.
type Doorman struct {
	keys *keyring
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// NewDoorman begins to follow the keys of s. The caller calls Close.
func NewDoorman(s *broker.Streams, log *slog.Logger) *Doorman {
	ctx, stop := context.WithCancel(context.Background())
	limits := tenant.DefaultLimits()
	d := &Doorman{stop: stop, keys: &keyring{kv: s.Keys, streams: s, restored: s.Remade("KV_" + stream.KeysBucket), conn: s.Conn, log: log,
		defaults: limits, guests: &guests{defaults: limits, spending: newSpending()}, reads: true,
		meters: map[string]*meter{}, scoped: map[string]tenant.Key{}, households: map[string]*household{},
		retention: newRetention(tenant.Classes{{Name: tenant.DefaultClass, Raw: limits.RetentionDays, Rollup: limits.RollupDays}}),
		asks:      rate.NewLimiter(maxAsks, maxAsks)}}
	d.wg.Go(func() { d.keys.run(ctx) })
	return d
}

// Authorize is Gateway.Authorize.
func (d *Doorman) Authorize(ctx context.Context, secret string, door tenant.Scope, of string) (tenant.Key, *Refusal) {
	return d.keys.authorize(ctx, secret, door, of)
}

// Ready returns why keys cannot be looked at yet, nil when they can.
func (d *Doorman) Ready() error {
	if !d.keys.loaded.Load() {
		return errors.New("the keys are not loaded yet")
	}
	return nil
}

// Close ends it.
func (d *Doorman) Close() {
	d.stop()
	d.wg.Wait()
}

// shutOut refuses an upload whose key was revoked, or whose tenant was disabled, while the body came, which may take minutes. A key that
// ended by itself meanwhile did work when the upload began.
func (m *meter) shutOut() *Refusal {
	key, _ := m.current()
	switch {
	case !key.Revoked.IsZero():
		return unauthorized("key " + key.ID + " was revoked while its upload came")
	case m.guest.disabled.Load():
		return disabledTenant(m.guest.name)
	}
	return nil
}

func disabledTenant(name string) *Refusal {
	return &Refusal{Status: http.StatusForbidden, Code: "tenant_disabled", RetryAfter: soon(),
		Detail: "the operator has disabled tenant " + name + "; nothing was taken: ask the operator, and keep what you have"}
}

func unauthorized(why string) *Refusal {
	return &Refusal{
		Status: http.StatusUnauthorized, Code: "unauthorized", Header: [2]string{"WWW-Authenticate", `Bearer realm="warpline"`},
		Detail: "send Authorization: Bearer <key> with a key that `warpline key create` made and that is neither revoked nor expired",
		Cause:  refusedKey(why),
	}
}

// authenticate finds the key of a request. Every failure has the same answer. The time of the answer may tell a key that exists and must
// not be used from one that does not exist, but only to a client that has the key.
func (k *keyring) authenticate(r *http.Request) (*meter, *Refusal) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	hash := tenant.Hash(strings.TrimSpace(token))
	m, why := k.find(hash), "no such key"
	bearer := strings.EqualFold(scheme, "Bearer")
	if m == nil && bearer && token != "" && k.loaded.Load() {
		if _, scoped := k.findScoped(hash); !scoped {
			if late := k.await(r.Context(), hash); late {
				return nil, Unavailable("starting", "the key is not loaded yet", nil)
			}
		}
		m = k.find(hash)
	}
	if m != nil && bearer && (k.loaded.Load() || hash == k.dev) { // before that nobody knows whether its tenant is disabled
		key, _ := m.current()
		var ok bool
		ok, why = key.Valid(time.Now())
		if ok && m.guest.disabled.Load() {
			return nil, disabledTenant(m.guest.name)
		}
		if ok {
			return m, nil
		}
	}
	if !k.loaded.Load() {
		return nil, Unavailable("starting", "the keys are not loaded yet", nil)
	}
	if key, ok := k.findScoped(hash); ok && bearer && m == nil {
		if ok, why = key.Valid(time.Now()); ok {
			return nil, wrongScope(key, tenant.ScopeIngest)
		}
	}
	return nil, unauthorized(why)
}

// refusedKey is why a key was refused, for the log only.
type refusedKey string

func (r refusedKey) Error() string { return string(r) }

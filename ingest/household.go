package ingest

import (
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// household is a tenant on the keyring: its record, if it has one, and its keys. The keyring's lock guards it.
type household struct {
	record *tenant.Record
	keys   map[string]*meter // by hash
	stale  bool              // limits are to be worked out again
}

// household of a tenant. The caller holds the lock.
func (k *keyring) household(name string) *household {
	h := k.households[name]
	if h == nil {
		h = &household{keys: map[string]*meter{}}
		k.households[name] = h
	}
	return h
}

// putRecord takes over what is stored of a tenant; nil is that nothing is any more.
func (k *keyring) putRecord(name string, r *tenant.Record) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h := k.household(name)
	h.record = r
	k.limit(name, h)
}

// limit works out the limits of a tenant and its keys, or leaves that until the whole bucket is here: a tenant may have many keys. The
// caller holds the lock.
func (k *keyring) limit(name string, h *household) {
	if h.stale = k.gathering; h.stale {
		return
	}
	if len(h.keys) == 0 && h.record == nil {
		delete(k.households, name)
		return
	}
	of := k.guests.of(name)
	of.disabled.Store(h.record != nil && !h.record.Disabled.IsZero())
	all := h.limits(k.defaults)
	of.change(all)
	least, others := all.PendingBytes, false
	for hash, m := range h.keys {
		key, _ := m.current()
		own, uploads := h.of(key, k.defaults, k.retention.classes)
		others = k.retention.ask(hash, key, uploads) || others
		m.update(key, own, k.retention.fit(uploads))
		if n := uploads.PendingBytes; n > 0 && (least <= 0 || n < least) {
			least = n
		}
	}
	of.pending.Store(least)
	if others && k.retention.weigh() {
		k.refit()
	}
}

// refit gives keys that have days of their own those that there is room for now. The caller holds the lock.
func (k *keyring) refit() {
	for hash := range k.retention.asked {
		m := k.meters[hash]
		if m == nil {
			continue
		}
		if h := k.households[m.guest.name]; h != nil {
			key, _ := m.current()
			own, uploads := h.of(key, k.defaults, k.retention.classes)
			m.update(key, own, k.retention.fit(uploads))
		}
	}
}

// gather leaves limits until gathered is called.
func (k *keyring) gather() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gathering = true
}

// gathered works out the limits of all tenants for which that was left.
func (k *keyring) gathered() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.gathering = false
	for _, h := range k.households {
		if !h.stale {
			continue
		}
		for hash, m := range h.keys { // all are weighed together
			key, _ := m.current()
			_, uploads := h.of(key, k.defaults, k.retention.classes)
			k.retention.ask(hash, key, uploads)
		}
	}
	if k.retention.weigh() {
		k.refit()
	}
	for name, h := range k.households {
		if h.stale {
			k.limit(name, h)
		}
	}
}

// limits are the tenant's, for all its keys together. Without a record they are the service's, or those of its widest valid key: before
// there were records such a key was how a tenant got more.
func (h *household) limits(defaults tenant.Limits) tenant.Limits {
	if h.record != nil {
		return h.record.Limits.Or(defaults)
	}
	all := defaults
	for _, m := range h.keys {
		key, _ := m.current()
		if ok, _ := key.Valid(time.Now()); ok {
			all = key.Limits.Most(all)
		}
	}
	return all
}

// of are the limits of a key of the tenant: its rates, and what holds for one upload. A key of a class that keeps rows longer than its
// tenant's does not count as of that class.
func (h *household) of(key tenant.Key, defaults tenant.Limits, classes tenant.Classes) (own, uploads tenant.Limits) {
	limits := classes.Days(key.Limits)
	if h.record == nil {
		own = limits.Or(defaults)
		return own, own
	}
	of := classes.Days(h.record.Limits)
	if limits.RetentionClass != "" && !limits.Shorter(of) {
		limits.RetentionDays, limits.RollupDays = 0, 0
	}
	own = limits.Or(of).Or(defaults)
	return own, own.Within(of)
}

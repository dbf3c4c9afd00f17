package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
	"unique"

	"golang.org/x/time/rate"

	"github.com/warpline/warpline/ingest/quota"
	"github.com/warpline/warpline/proto/tenant"
)

// meter is one key: what it may send and what it has sent, beside what its tenant has with all its keys. It is safe for concurrent use.
type meter struct {
	guest *guest // whose key it is; a key never changes its tenant
	rates

	keyMu   sync.Mutex
	key     keptKey
	uploads unique.Handle[tenant.Limits] // that hold for one upload
}

// keptKey is a key as a meter has it: its limits are mostly those of many others, which are in memory once.
type keptKey struct {
	id, tenant, note          string
	scope                     tenant.Scope
	lasts                     int64
	created, expires, revoked time.Time
	limits                    unique.Handle[tenant.Limits]
}

func keep(k tenant.Key) keptKey {
	return keptKey{k.ID, k.Tenant, k.Note, k.Scope, k.LastsSeconds, k.Created, k.Expires, k.Revoked, unique.Make(k.Limits)}
}

func (k *keptKey) whole() tenant.Key {
	return tenant.Key{ID: k.id, Tenant: k.tenant, Scope: k.scope, Note: k.note, Created: k.created, Expires: k.expires, Revoked: k.revoked,
		LastsSeconds: k.lasts, Limits: k.limits.Value()}
}

// rates are the limits per second of a key, or of a tenant for all its keys together. It is safe for concurrent use.
type rates struct {
	what string // "key ab12cd34" or "tenant red"
	name string // in messages to other gateways

	mu       sync.Mutex
	limits   unique.Handle[tenant.Limits] // defaults filled in; most keys have those of many others
	spending *spending                    // where other gateways are told from; nil: they need not know
	untold   amounts
	used     bool // something was let in, here or elsewhere
	today    quota.Counter
	// The buckets are made, full, when they are first looked at: most of a hundred thousand keys never send, or not to this gateway.
	events, bytes, raw, requests *rate.Limiter
}

// bucket is one limit of rates, by its flag.
type bucket struct {
	limiter *rate.Limiter
	name    string
	rate    float64
}

// buckets are the limits of r. The caller holds the lock.
func (r *rates) buckets() [4]bucket {
	l := r.limits.Value()
	if r.events == nil {
		limiter := func(perSecond float64) *rate.Limiter {
			return rate.NewLimiter(rate.Limit(perSecond), burstOf(perSecond, l.BurstSeconds))
		}
		r.events, r.bytes = limiter(l.EventsPerSecond), limiter(l.BytesPerSecond)
		r.raw, r.requests = limiter(l.RawBytesPerSecond), limiter(l.RequestsPerSecond)
	}
	return [4]bucket{
		{r.events, "limit-events-per-second", l.EventsPerSecond}, {r.bytes, "limit-bytes-per-second", l.BytesPerSecond},
		{r.raw, "limit-raw-bytes-per-second", l.RawBytesPerSecond},
		{r.requests, "limit-requests-per-second", l.RequestsPerSecond},
	}
}

// cost is what a request is charged for.
type cost struct {
	events uint64 // or lines, blank ones included, if there are more of them
	bytes  int64  // as received
	raw    int64  // after decompression
}

// begin sets the limits, of which nothing is used yet.
func (r *rates) begin(what string, limits tenant.Limits) {
	r.what, r.limits = what, unique.Make(limits)
}

// newMeter makes the meter of a key that is stored under a hash.
func newMeter(hash string, key tenant.Key, own, uploads tenant.Limits, of *guest) *meter {
	m := &meter{guest: of, key: keep(key), uploads: unique.Make(uploads)}
	m.begin("key "+key.ID, ofKey(key, own))
	m.name = keyName(hash)
	m.tellOf(key)
	return m
}

// ofKey leaves a key the quotas that are its own: the tenant's are counted for all its keys together.
func ofKey(key tenant.Key, own tenant.Limits) tenant.Limits {
	own.EventsPerDay, own.BytesPerDay = key.Limits.EventsPerDay, key.Limits.BytesPerDay
	return own
}

// tellOf lets other gateways know of a key that has rates of its own. What others take counts for their tenant alone.
func (m *meter) tellOf(key tenant.Key) {
	own := key.Limits.Rates()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spending = m.guest.spending; !own || m.name == "" {
		m.spending = nil
	}
}

// current returns the key and the limits of an upload with it.
func (m *meter) current() (tenant.Key, tenant.Limits) {
	m.keyMu.Lock()
	defer m.keyMu.Unlock()
	return m.key.whole(), m.uploads.Value()
}

// update takes over a changed key, or changed limits of its tenant. Debts stay.
func (m *meter) update(key tenant.Key, own, uploads tenant.Limits) {
	m.keyMu.Lock()
	m.key, m.uploads = keep(key), unique.Make(uploads)
	m.keyMu.Unlock()
	m.change(ofKey(key, own))
	m.tellOf(key)
}

// change sets other limits. Debts stay, and what nobody has used is full again.
func (r *rates) change(limits tenant.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limits.Value() == limits {
		return
	}
	if r.events == nil {
		r.limits = unique.Make(limits)
		return
	}
	now := time.Now()
	for _, l := range []**rate.Limiter{&r.events, &r.bytes, &r.raw, &r.requests} {
		if (*l).TokensAt(now) >= float64((*l).Burst()) {
			*l = rate.NewLimiter(rate.Inf, math.MaxInt)
		}
	}
	r.limits = unique.Make(limits)
	r.apply()
}

// apply sets rates and bursts.
func (r *rates) apply() {
	now := time.Now()
	for _, b := range r.buckets() {
		b.limiter.SetLimitAt(now, rate.Limit(b.rate))
		b.limiter.SetBurstAt(now, burstOf(b.rate, r.limits.Value().BurstSeconds))
	}
}

func burstOf(perSecond, seconds float64) int {
	return int(min(max(perSecond*seconds, 1), 1<<53))
}

// admit lets a request in unless a bucket of the key or its tenant is in debt, and charges the bytes that are known to come (0 or less: not
// known yet).
func (m *meter) admit(now time.Time, bytes int64) *Refusal {
	for _, r := range m.both() {
		if no := r.inDebt(now); no != nil {
			return no
		}
		if no := r.overQuota(now); no != nil {
			return no
		}
	}
	m.charge(now, cost{bytes: bytes})
	return nil
}

// both are the limits that hold: those of the tenant, and those of the key, which may be narrower. A key without limits of its own has the
// tenant's, and then it is the tenant that is told to be over them.
func (m *meter) both() [2]*rates { return [2]*rates{&m.guest.rates, &m.rates} }

// admitRequest lets a request in unless there were too many, before anything else is done for it.
func (m *meter) admitRequest(now time.Time) *Refusal {
	for _, r := range m.both() {
		if no := r.tooMany(now); no != nil {
			return no
		}
	}
	m.chargeRequests(now, 1)
	return nil
}

// chargeRequests takes so many requests.
func (m *meter) chargeRequests(now time.Time, n int64) {
	for _, r := range m.both() {
		r.mu.Lock()
		r.take(now, 3, n)
		r.mu.Unlock()
	}
}

func (r *rates) inDebt(now time.Time) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.buckets() {
		if no := r.owes(now, b); no != nil && b.limiter != r.requests {
			return no
		}
	}
	return nil
}

func (r *rates) tooMany(now time.Time) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owes(now, r.buckets()[3])
}

// owes refuses when a bucket is in debt. The caller holds the lock.
func (r *rates) owes(now time.Time, b bucket) *Refusal {
	debt := -b.limiter.TokensAt(now)
	if debt <= 0 {
		return nil
	}
	wait := time.Duration(min(debt/float64(b.limiter.Limit()), 3600) * float64(time.Second))
	return &Refusal{
		Status: http.StatusTooManyRequests, Code: "rate_limited",
		// A little jitter, so that senders that were refused together do not come back together.
		RetryAfter: wait + time.Duration(rand.Float64()*min(wait.Seconds()*0.1, 2)*float64(time.Second)),
		Detail: fmt.Sprintf("%s is over its limit %s = %s (burst %g s, at all gateways together) by %s; nothing is lost: send the same again "+
			"after Retry-After seconds, or ask the operator for a higher limit",
			r.what, b.name, number(b.rate), r.limits.Value().BurstSeconds, number(math.Ceil(debt))),
	}
}

// charge takes what a request turned out to cost, which may put the buckets into debt.
func (m *meter) charge(now time.Time, c cost) {
	for _, r := range m.both() {
		r.mu.Lock()
		r.take(now, 0, int64(min(c.events, math.MaxInt64)))
		r.take(now, 1, c.bytes)
		r.take(now, 2, c.raw)
		r.mu.Unlock()
	}
}

func charge(l *rate.Limiter, now time.Time, n int64) {
	if n <= 0 {
		return
	}
	// rate refuses to reserve more than the burst, so that is raised for the moment where needed: the meter's lock keeps others out.
	// It must not be lowered even for a moment: tokens beyond the burst are lost.
	burst := l.Burst()
	l.SetBurstAt(now, max(burst, int(n)))
	l.ReserveN(now, int(n))
	l.SetBurstAt(now, burst)
}

// number is a limit or count as people write it: limits may be below 1, and huge where there shall be none.
func number(f float64) string {
	if f >= 1e15 {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

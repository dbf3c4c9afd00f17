package ingest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/warpline/warpline/ingest/active"
	"github.com/warpline/warpline/ingest/quota"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// The headers of draft-ietf-httpapi-ratelimit-headers-10: what a client may send in a window of burst-seconds, and what is left of it.
const (
	headerPolicy    = "RateLimit-Policy"
	headerRateLimit = "RateLimit"
)

// policies are the names of buckets in the headers, in the order of rates.buckets.
var policies = [4]string{"events", "bytes", "raw-bytes", "requests"}

// tell writes how much of each limit is left, of key or tenant, whichever has less. So many sessions of the tenant are active.
func (m *meter) tell(h http.Header, now time.Time, active int) {
	var policy, left [512]byte
	q, r := policy[:0], left[:0]
	key, of := m.rates.levels(now), m.guest.rates.levels(now)
	for i, name := range policies {
		l := key[i]
		if of[i].tokens < l.tokens {
			l = of[i]
		}
		if i > 0 {
			q, r = append(q, ", "...), append(r, ", "...)
		}
		q = append(append(append(q, '"'), name...), `";q=`...)
		q = strconv.AppendInt(q, int64(l.burst), 10)
		q = strconv.AppendInt(append(q, ";w="...), int64(math.Ceil(l.seconds)), 10)
		r = append(append(append(r, '"'), name...), `";r=`...)
		r = strconv.AppendInt(r, int64(max(l.tokens, 0)), 10)
		r = strconv.AppendInt(append(r, ";t="...), int64(math.Ceil(min(max(float64(l.burst)-l.tokens, 0)/l.rate, 1e9))), 10)
	}
	q, r = m.tellQuotas(q, r, now)
	if _, limits := m.current(); limits.ActiveSessions > 0 { // at once, not in a time
		q = strconv.AppendInt(append(q, `, "active-sessions";q=`...), int64(limits.ActiveSessions), 10)
		r = strconv.AppendInt(append(r, `, "active-sessions";r=`...), int64(max(limits.ActiveSessions-active, 0)), 10)
	}
	h[headerPolicy], h[headerRateLimit] = []string{string(q)}, []string{string(r)}
}

// tellQuotas appends what is left of the day's quotas, of key or tenant, whichever has less.
func (m *meter) tellQuotas(policy, left []byte, now time.Time) (q, r []byte) {
	key, of := m.rates.leftToday(now), m.guest.rates.leftToday(now)
	for i, name := range [2]string{"events-per-day", "bytes-per-day"} {
		d := key[i]
		if d.quota <= 0 || of[i].quota > 0 && of[i].left < d.left {
			d = of[i]
		}
		if d.quota <= 0 {
			continue
		}
		policy = append(append(append(policy, `, "`...), name...), `";q=`...)
		policy = append(strconv.AppendInt(policy, int64(d.quota), 10), ";w=86400"...)
		left = append(append(append(left, `, "`...), name...), `";r=`...)
		left = strconv.AppendInt(append(strconv.AppendInt(left, int64(d.left), 10), ";t="...), int64(math.Ceil(d.ends.Seconds())), 10)
	}
	return policy, left
}

// day is what is left of a quota, and how long until the day ends; quota 0 is none.
type day struct {
	quota, left float64
	ends        time.Duration
}

// leftToday are the quotas of events and bytes.
func (r *rates) leftToday(now time.Time) (all [2]day) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.quota()
	if l.None() {
		return all
	}
	u := r.today.Today(now)
	ends := quota.End(u.Day).Sub(now)
	for i, q := range [2]struct {
		quota float64
		used  int64
	}{{l.Events, u.Events}, {l.Bytes, u.Bytes}} {
		all[i] = day{min(q.quota, 1<<53), min(max(q.quota-float64(q.used), 0), 1<<53), ends}
	}
	return all
}

// level is how full a bucket is.
type level struct {
	tokens, rate, seconds float64
	burst                 int
}

func (r *rates) levels(now time.Time) (all [4]level) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.buckets() {
		all[i] = level{b.limiter.TokensAt(now), float64(b.limiter.Limit()), r.limits.Value().BurstSeconds, b.limiter.Burst()}
	}
	return all
}

const (
	// storeEvery is how often counts of a day are stored. A gateway that ends without a word loses what it let in since, and what is less than
	// a thousandth of the quota.
	storeEvery = 2 * time.Second
	// quotaWait is how long a sender shall wait at most before it asks again.
	quotaWait = 5 * time.Minute
)

// quota is what may come in a day. The caller holds the lock.
func (r *rates) quota() quota.Limit {
	l := r.limits.Value()
	return quota.Limit{Events: l.EventsPerDay, Bytes: l.BytesPerDay, Drop: l.QuotaPolicy == tenant.QuotaDrop, Trickle: l.QuotaTrickle}
}

// overQuota refuses when what may come in a day has come.
func (r *rates) overQuota(now time.Time) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.quota()
	over := r.today.Check(now, l)
	if over == nil {
		return nil
	}
	name := "quota-events-per-day"
	if over.Bytes {
		name = "quota-bytes-per-day"
	}
	words := fmt.Sprintf("%s has used up its %s = %s: %s came today; the next day begins at %s", r.what, name, number(over.Limit),
		number(over.Used), over.Ends.Format(time.RFC3339))
	if l.Drop {
		return &Refusal{Status: http.StatusPaymentRequired, Code: "quota_exceeded",
			Detail: words + "; this upload is lost, as quota-policy = drop says: ask the operator for a higher quota"}
	}
	// The operator may raise it meanwhile, so senders do not wait for midnight.
	wait := min(over.Ends.Sub(now), quotaWait)
	return &Refusal{Status: http.StatusTooManyRequests, Code: "quota_exceeded",
		RetryAfter: wait + time.Duration(rand.Float64()*float64(wait)/10),
		Detail:     words + "; nothing is lost: keep it and send the same again then, or ask the operator for a higher quota"}
}

// keepQuotas stores what came today and takes over what is stored, until ctx ends.
func (g *Gateway) keepQuotas(ctx context.Context) {
	store := quota.Store{KV: g.streams.Quotas}
	var known atomic.Bool // what is stored: less must not be put in its place
	g.wg.Go(func() {
		for !g.keys.loaded.Load() && rest(ctx, 50*time.Millisecond) { // counts are of tenants and keys that are known
		}
		for ctx.Err() == nil {
			err := store.Watch(ctx, func(name string, u quota.Used) {
				if r := g.called(name); r != nil {
					r.mu.Lock()
					r.today.Stored(time.Now(), u)
					r.mu.Unlock()
				}
			}, func() { known.Store(true) })
			if err != nil {
				rest(ctx, time.Second)
			}
		}
	})
	for rest(ctx, storeEvery) {
		if !known.Load() {
			continue
		}
		for _, r := range g.allRates() {
			r.mu.Lock()
			u, much := r.today.ToStore(time.Now(), r.quota())
			r.mu.Unlock()
			if !much {
				continue
			}
			if err := store.Put(ctx, r.name, u); err != nil {
				break // again the next time
			}
		}
	}
}

// rest waits and reports whether ctx goes on.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// allRates are those of all tenants and keys that have a quota.
func (g *Gateway) allRates() (all []*rates) {
	add := func(r *rates) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.spending != nil && !r.quota().None() {
			all = append(all, r)
		}
	}
	g.guests.mu.Lock()
	for _, of := range g.guests.by {
		add(&of.rates)
	}
	g.guests.mu.Unlock()
	g.keys.mu.RLock()
	defer g.keys.mu.RUnlock()
	for _, m := range g.keys.meters {
		add(&m.rates)
	}
	return all
}

// activeWait is how long a session that may not begin yet shall wait before it is tried again.
const activeWait = 20 * time.Second

// tooManySessions is the code of a refusal because of them.
const tooManySessions = "too_many_sessions"

// activeID is what a session is counted by.
func activeID(token string) active.ID {
	n, _ := strconv.ParseUint(token[:16], 16, 64)
	return active.ID(n)
}

// mayBegin refuses an upload of one session that may not begin yet, unless it was stored before.
func (g *Gateway) mayBegin(ctx context.Context, u *Upload, id *Identity) error {
	most := u.limits.ActiveSessions
	if most <= 0 || u.Session == "" || u.Session == stream.NoSession {
		return nil
	}
	if !g.counted.Load() {
		return Unavailable("starting", "the active sessions are not known yet", nil)
	}
	n, ok := g.active.May(u.Tenant, activeID(stream.SessionToken(u.Session)), most)
	if ok {
		return nil
	}
	if id.at.key != "" {
		done, err := g.uploads.done(ctx, id.at, id.want)
		if err != nil {
			return g.failed("recognising the upload", atWindows(err))
		}
		if done {
			return nil
		}
	}
	return beyondActive(u.Tenant, most, n)
}

func beyondActive(tenant string, most, n int) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Code: tooManySessions, RetryAfter: activeWait + soon(),
		Detail: fmt.Sprintf("tenant %s is at its limit limit-active-sessions = %d: %d are active at all gateways together, each until "+
			"it ends or nothing comes of it for %v; those go on, and this one may begin when one has ended; nothing is lost: send the same again "+
			"after Retry-After seconds, or ask the operator for a higher limit", tenant, most, n, active.Silence)}
}

// mayOwe refuses an upload while the tenant has as much on its way into SQL, or in INGEST, as it may. One that is let in may be of any size
// on its way into SQL.
func (g *Gateway) mayOwe(m *meter) *Refusal {
	if err := g.backlog.within(m.guest.name); err != nil {
		return asRefusal(g.failed("taking the upload", err))
	}
	_, limits := m.current()
	if limits.PendingBytes <= 0 {
		return nil
	}
	owed := g.backlog.owes(m.guest.name)
	if owed < limits.PendingBytes {
		return nil
	}
	return &Refusal{Status: http.StatusTooManyRequests, Code: "too_much_pending", RetryAfter: soon(),
		Detail: fmt.Sprintf("tenant %s is at its limit limit-pending-bytes = %d: %d bytes are accepted and not in SQL yet, from all gateways "+
			"together; nothing is lost: send the same again after Retry-After seconds, or ask the operator whether ClickHouse is away, or for a "+
			"higher limit", m.guest.name, limits.PendingBytes, owed)}
}

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

	"github.com/warpline/warpline/ingest/quota"
	"github.com/warpline/warpline/proto/tenant"
)

// The headers of draft-ietf-httpapi-ratelimit-headers-10: what a client may send in a window of burst-seconds, and what is left of it.
const (
	headerPolicy    = "RateLimit-Policy"
	headerRateLimit = "RateLimit"
)

// policies are the names of buckets in the headers, in the order of rates.buckets.
var policies = [4]string{"events", "bytes", "raw-bytes", "requests"}

// tell writes how much of each limit is left, of key or tenant, whichever has less.
func (m *meter) tell(h http.Header, now time.Time) {
	var policy, left [256]byte
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
	h[headerPolicy], h[headerRateLimit] = []string{string(q)}, []string{string(r)}
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
		all[i] = level{b.limiter.TokensAt(now), float64(b.limiter.Limit()), r.limits.BurstSeconds, b.limiter.Burst()}
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
	l := r.limits
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

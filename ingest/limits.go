package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warpline/warpline/proto/tenant"
)

// meter is one key: what it may send and what it has sent. It is safe for concurrent use.
type meter struct {
	guest *guest // whose key it is; a key never changes its tenant

	mu       sync.Mutex
	key      tenant.Key
	limits   tenant.Limits // defaults filled in
	replicas int
	events   *rate.Limiter
	bytes    *rate.Limiter
	raw      *rate.Limiter
	requests *rate.Limiter
}

// bucket is one limit of a meter, by its flag.
type bucket struct {
	limiter *rate.Limiter
	name    string
	rate    float64
}

// buckets are the limits of a meter. The caller holds the lock.
func (m *meter) buckets() [4]bucket {
	return [4]bucket{
		{m.events, "limit-events-per-second", m.limits.EventsPerSecond}, {m.bytes, "limit-bytes-per-second", m.limits.BytesPerSecond},
		{m.raw, "limit-raw-bytes-per-second", m.limits.RawBytesPerSecond},
		{m.requests, "limit-requests-per-second", m.limits.RequestsPerSecond},
	}
}

// cost is what a request is charged for.
type cost struct {
	events uint64 // or lines, blank ones included, if there are more of them
	bytes  int64  // as received
	raw    int64  // after decompression
}

func newMeter(key tenant.Key, limits tenant.Limits, of *guest) *meter {
	limiter := func(perSecond float64) *rate.Limiter {
		return rate.NewLimiter(rate.Limit(perSecond), burstOf(perSecond, limits.BurstSeconds))
	}
	return &meter{
		guest: of, replicas: 1, key: key, limits: limits, events: limiter(limits.EventsPerSecond), bytes: limiter(limits.BytesPerSecond),
		raw: limiter(limits.RawBytesPerSecond), requests: limiter(limits.RequestsPerSecond),
	}
}

// current returns the key and its limits, defaults filled in.
func (m *meter) current() (tenant.Key, tenant.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.key, m.limits
}

// update takes over a changed key. Debts stay.
func (m *meter) update(key tenant.Key, limits tenant.Limits) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.key, m.limits = key, limits
	m.apply()
}

// share sets among how many gateways the limits are shared.
func (m *meter) share(replicas int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.replicas != replicas {
		m.replicas = replicas
		m.apply()
	}
}

// apply sets rates and bursts. The rate is divided among the gateways, the burst is not: a single large window must get in at each of them.
func (m *meter) apply() {
	now := time.Now()
	for _, b := range m.buckets() {
		b.limiter.SetLimitAt(now, rate.Limit(b.rate/float64(m.replicas)))
		b.limiter.SetBurstAt(now, burstOf(b.rate, m.limits.BurstSeconds))
	}
}

func burstOf(perSecond, seconds float64) int {
	return int(min(max(perSecond*seconds, 1), 1<<53))
}

// admit lets a request in unless a bucket is in debt, and charges the bytes that are known to come (0 or less: not known yet).
func (m *meter) admit(now time.Time, bytes int64) *Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.buckets() {
		if no := m.owes(now, b); no != nil && b.limiter != m.requests {
			return no
		}
	}
	charge(m.bytes, now, bytes)
	return nil
}

// admitRequest lets a request in unless there were too many, before anything else is done for it.
func (m *meter) admitRequest(now time.Time) *Refusal {
	m.mu.Lock()
	defer m.mu.Unlock()
	if no := m.owes(now, m.buckets()[3]); no != nil {
		return no
	}
	charge(m.requests, now, 1)
	return nil
}

// owes refuses when a bucket is in debt.
func (m *meter) owes(now time.Time, b bucket) *Refusal {
	debt := -b.limiter.TokensAt(now)
	if debt <= 0 {
		return nil
	}
	wait := time.Duration(min(debt/float64(b.limiter.Limit()), 3600) * float64(time.Second))
	shared := ""
	if m.replicas > 1 {
		shared = fmt.Sprintf(", shared by %d gateways", m.replicas)
	}
	return &Refusal{
		Status: http.StatusTooManyRequests, Code: "rate_limited",
		// A little jitter, so that senders that were refused together do not come back together.
		RetryAfter: wait + time.Duration(rand.Float64()*min(wait.Seconds()*0.1, 2)*float64(time.Second)),
		Detail: fmt.Sprintf("key %s is over its limit %s = %s (burst %g s%s); nothing is lost: send the same again after Retry-After "+
			"seconds, or ask the operator for a higher limit",
			m.key.ID, b.name, number(b.rate), m.limits.BurstSeconds, shared),
	}
}

// charge takes what a request turned out to cost, which may put the buckets into debt.
func (m *meter) charge(now time.Time, c cost) {
	m.mu.Lock()
	defer m.mu.Unlock()
	charge(m.events, now, int64(min(c.events, math.MaxInt64)))
	charge(m.bytes, now, c.bytes)
	charge(m.raw, now, c.raw)
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

func number(f float64) string { return fmt.Sprintf("%.0f", f) }

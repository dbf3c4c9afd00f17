package ingest

import (
	"math"
	"net/http"
	"strconv"
	"time"
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

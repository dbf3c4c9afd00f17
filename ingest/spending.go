package ingest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/proto/stream"
)

// Gateways share limits by telling each other what they let in. Each has the whole limit of a tenant and takes from it what it let in
// itself and, a moment later, what the others say that they did. So it does not matter which gateways a tenant's requests meet, the burst
// is there once, and a gateway that ends leaves nothing to share out anew. What comes in before the others know is a debt, which is waited
// for: over a minute the rate is exact. Nothing is sent for a request.
const (
	// tellEvery is how often a gateway tells what it let in. What comes in meanwhile may be let in by each, so it tells at once where that is
	// a tellPart-th of a burst.
	tellEvery = 100 * time.Millisecond
	tellPart  = 16
	// tellMost is how large a message may be. One that is larger is not read.
	tellMost = 32 << 10
	// restPerMessage is how long a gateway rests after a message, so that one that has much to tell does not tell it often: 10 000 busy
	// tenants are some 25 messages.
	restPerMessage = 10 * time.Millisecond
	// spentMost is the largest amount that is believed.
	spentMost = 1 << 50
	// spendingVersion begins each message.
	spendingVersion = 1
)

// amounts are of each bucket, in the order of rates.buckets.
type amounts [4]int64

// spent is what an entry of a message says of a tenant or key: what was let in since the last one, and what the sender has left then, 0 if
// it is in debt.
type spent struct {
	name string // of a tenant, or of a key: keyMark and its hash
	took amounts
	left amounts
}

// keyMark begins the names of keys in messages. No tenant's name does.
const keyMark = 'K'

// keyName is how a key is called in messages, "" for one whose hash is none, which is not told of.
func keyName(hash string) string {
	raw, err := hex.DecodeString(hash)
	if err != nil || len(raw) != 32 {
		return ""
	}
	return string(append([]byte{keyMark}, raw...))
}

// spending gathers what was let in until it is told. It is safe for concurrent use. Its lock is taken with that of rates held.
type spending struct {
	id [8]byte // of the gateway: what it told itself it does not read

	mu    sync.Mutex
	dirty []*rates // that have something to tell

	soon chan struct{} // something is to be told at once
}

func newSpending() *spending {
	s := &spending{soon: make(chan struct{}, 1)}
	rand.Read(s.id[:]) // never fails since Go 1.24
	return s
}

func (s *spending) note(r *rates) {
	s.mu.Lock()
	s.dirty = append(s.dirty, r)
	s.mu.Unlock()
}

// messages tells what was let in since the last call. Each message ends between two entries.
func (s *spending) messages(now time.Time) (out [][]byte) {
	s.mu.Lock()
	dirty := s.dirty
	s.dirty = nil
	s.mu.Unlock()
	var b []byte
	for _, r := range dirty {
		entry := r.settle(now)
		if len(b) == 0 || len(b)+1+len(entry.name)+8*binary.MaxVarintLen64 > tellMost {
			if len(b) > 0 {
				out = append(out, b)
			}
			b = append(append(make([]byte, 0, 512), spendingVersion), s.id[:]...)
		}
		b = append(append(b, byte(len(entry.name))), entry.name...)
		for i := range entry.took {
			b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(entry.took[i])), uint64(entry.left[i]))
		}
	}
	if len(b) > 0 {
		out = append(out, b)
	}
	return out
}

var errSpending = errors.New("not a message on what another gateway let in")

// read returns what another gateway let in, nothing for what s told itself.
func (s *spending) read(b []byte) (all []spent, err error) {
	if len(b) < 1+len(s.id) || len(b) > tellMost || b[0] != spendingVersion {
		return nil, errSpending
	}
	if [8]byte(b[1:9]) == s.id {
		return nil, nil
	}
	for b = b[9:]; len(b) > 0; {
		n := int(b[0])
		if n == 0 || len(b) < 1+n {
			return nil, errSpending
		}
		entry := spent{name: string(b[1 : 1+n])}
		b = b[1+n:]
		for i := range entry.took {
			for _, to := range []*int64{&entry.took[i], &entry.left[i]} {
				v, n := binary.Uvarint(b)
				if n <= 0 || v > spentMost {
					return nil, errSpending
				}
				*to, b = int64(v), b[n:]
			}
		}
		all = append(all, entry)
	}
	return all, nil
}

// settle returns what was let in since it was last called.
func (r *rates) settle(now time.Time) spent {
	r.mu.Lock()
	defer r.mu.Unlock()
	entry := spent{name: r.name, took: r.untold}
	for i, b := range r.buckets() {
		entry.left[i] = int64(min(max(b.limiter.TokensAt(now), 0), spentMost))
	}
	r.untold = amounts{}
	return entry
}

// take charges one bucket with what this gateway lets in. The caller holds the lock.
func (r *rates) take(now time.Time, bucket int, n int64) {
	if n <= 0 {
		return
	}
	charge(r.buckets()[bucket].limiter, now, n)
	r.used = true
	r.count(now, bucket, n)
	if r.spending == nil {
		return
	}
	if r.untold == (amounts{}) {
		r.spending.note(r)
	}
	r.untold[bucket] = min(r.untold[bucket]+min(n, spentMost), spentMost)
	if r.untold[bucket] >= int64(r.buckets()[bucket].limiter.Burst()/tellPart) {
		select {
		case r.spending.soon <- struct{}{}:
		default:
		}
	}
}

// heard charges what another gateway let in. One that knows nothing yet, since it has just begun, has what the other has left: the burst is
// not there again.
func (r *rates) heard(now time.Time, from spent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, b := range r.buckets() {
		n := from.took[i]
		if !r.used {
			n = max(n, int64(min(b.limiter.TokensAt(now), spentMost))-from.left[i])
		}
		charge(b.limiter, now, n)
		r.count(now, i, from.took[i])
	}
	r.used = true
}

// count counts what came today. The caller holds the lock.
func (r *rates) count(now time.Time, bucket int, n int64) {
	switch bucket {
	case 0:
		r.today.Add(now, n, 0)
	case 1:
		r.today.Add(now, 0, n)
	}
}

// called returns the tenant or key of a name in messages, nil if it is not known here.
func (g *Gateway) called(name string) *rates {
	if name[0] != keyMark {
		if of := g.guests.known(name); of != nil {
			return &of.rates
		}
	} else if m := g.keys.find(hex.EncodeToString([]byte(name[1:]))); m != nil {
		return &m.rates
	}
	return nil
}

// shareLimits tells the other gateways what this one lets in, and takes over what they tell, until ctx ends.
func (g *Gateway) shareLimits(ctx context.Context) {
	sub, err := g.streams.Conn.Subscribe(stream.SpendingSubject, func(m *nats.Msg) { g.hear(time.Now(), m.Data) })
	if err != nil {
		g.cfg.Logger.Error("the limits are not shared with other gateways", "err", err)
		return
	}
	defer sub.Unsubscribe()
	tick := time.NewTicker(tellEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-g.guests.spending.soon:
		}
		all := g.guests.spending.messages(time.Now())
		if !g.streams.Conn.IsConnected() {
			continue // it would come late; and nothing can be stored meanwhile
		}
		for _, m := range all {
			if err := g.streams.Conn.Publish(stream.SpendingSubject, m); err != nil {
				g.metrics.unshared.Inc()
			}
		}
		rest(ctx, time.Duration(len(all))*restPerMessage)
	}
}

// hear takes over one message.
func (g *Gateway) hear(now time.Time, data []byte) {
	all, err := g.guests.spending.read(data)
	if err != nil {
		g.metrics.unshared.Inc()
		if ok, held := g.quiet.say("spending", now); ok {
			g.cfg.Logger.Warn("what another gateway let in cannot be read, so it does not count here: give all gateways one version of warpline",
				"err", err, "alike_since_last_line", held)
		}
		return
	}
	for _, entry := range all {
		if r := g.called(entry.name); r != nil {
			r.heard(now, entry)
		}
	}
}

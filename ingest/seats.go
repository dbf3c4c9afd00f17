package ingest

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

const (
	// seatWait is how long a request waits for a seat before it is sent away. Agents do not set a timeout and come again after 5 s, so
	// waiting here is shorter for both.
	seatWait = 10 * time.Second
	// queuePerSeat bounds how many requests of one tenant wait for each of its seats. Each holds a connection and a goroutine; its body is
	// not read yet.
	queuePerSeat = 16
	// cutsPerTenant is how many uploads of one tenant are cut at a time: a client has four channels. cutsAtOnce is how many of all tenants
	// are, of which a part is always free for the next tenant. Each holds some MiB.
	cutsPerTenant = 4
	cutsAtOnce    = 16
)

// seatsOf is how many of all seats one tenant may have: one tenant never takes the whole gateway.
func seatsOf(all int) int { return max(1, all/4) }

// guest is a tenant at this gateway, with all its keys.
type guest struct {
	name  string
	rates // of all its keys together
	// disabled is set while none of its keys may be used.
	disabled atomic.Bool
	requests atomic.Int64 // being handled or waiting for a seat
	pending  atomic.Int64 // the least limit-pending-bytes of tenant and keys, 0: none
}

// guests are the tenants that have keys. Safe for concurrent use.
type guests struct {
	defaults tenant.Limits
	spending *spending // tells other gateways
	mu       sync.Mutex
	by       map[string]*guest
	// met is called for each new one; it may be nil.
	met func(name string)
}

func (g *guests) of(name string) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by == nil {
		g.by = map[string]*guest{}
	}
	if g.by[name] == nil {
		of := &guest{name: name}
		of.pending.Store(g.defaults.PendingBytes)
		of.begin("tenant "+name, g.defaults)
		of.rates.name, of.spending = name, g.spending
		g.by[name] = of
		if g.met != nil {
			g.met(name)
		}
	}
	return g.by[name]
}

// tellPending is which part of a limit what is on its way must be for other gateways to be told.
const tellPending = 16

// tellPending is how many bytes of a tenant on their way other gateways shall know of, 0 if they need not know.
func (g *guests) tellPending(name string) int64 {
	if of := g.known(name); of != nil && of.pending.Load() > 0 {
		return max(of.pending.Load()/tellPending, 1)
	}
	return 0
}

// known returns a tenant, nil if it has no key here.
func (g *guests) known(name string) *guest {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.by[name]
}

// enter authenticates a request and waits for a seat; leave must follow when it succeeds.
func (g *Gateway) enter(r *http.Request, x *exchange) (*meter, *Refusal) {
	m, no := g.keys.authenticate(r)
	if no != nil {
		return nil, no
	}
	x.tenant = m.guest.name
	x.meter = m
	if no := m.admitRequest(time.Now()); no != nil {
		return nil, no
	}
	own := m.guest.requests.Add(1)
	g.metrics.active.Inc()
	if no := g.sit(r, m, own); no != nil {
		g.stand(m)
		return nil, no
	}
	return m, nil
}

// sit takes a seat for the tenant.
func (g *Gateway) sit(r *http.Request, m *meter, own int64) *Refusal {
	if own > g.seats.cap*(1+queuePerSeat) {
		return Unavailable("too_many_requests", fmt.Sprintf("more than %d uploads of this tenant wait for their turn: send fewer at a time",
			g.seats.cap*queuePerSeat), nil)
	}
	ctx, cancel := context.WithTimeout(r.Context(), seatWait)
	defer cancel()
	_, uploads := m.current()
	if err := g.keySeats.waitOf(ctx, m.name, uploads.UploadsAtOnce); err != nil {
		if r.Context().Err() != nil {
			return clientLeft(err)
		}
		return atOnce(m.what, uploads.UploadsAtOnce)
	}
	ofTenant := m.guest.uploadsAtOnce()
	if err := g.seats.waitOf(ctx, m.guest.name, ofTenant); err != nil {
		g.keySeats.give(m.name, 1)
		switch held := g.seats.held(m.guest.name); {
		case r.Context().Err() != nil:
			return clientLeft(err)
		case ofTenant > 0 && held >= int64(ofTenant) && held < g.seats.cap:
			return atOnce(m.guest.what, ofTenant)
		case g.seats.held(m.guest.name) >= g.seats.cap:
			return Unavailable("too_many_requests",
				fmt.Sprintf("%d uploads of this tenant at once, which is what one tenant may have, and none ended in %v: send fewer at "+
					"a time", g.seats.cap, seatWait), nil)
		}
		return Unavailable("too_many_requests",
			fmt.Sprintf("%d uploads at once, which is about what this gateway takes, and none ended in %v: the operator can start "+
				"another gateway", g.seats.inUse(), seatWait), nil)
	}
	return nil
}

func clientLeft(err error) *Refusal {
	return Unavailable("too_many_requests", "the client left while it waited for its turn", err)
}

// atOnce refuses what is beyond a limit of uploads at once.
func atOnce(what string, most int) *Refusal {
	return &Refusal{Status: http.StatusTooManyRequests, Code: "too_many_requests", RetryAfter: soon(),
		Detail: fmt.Sprintf("%s is at its limit limit-uploads-at-once = %d: %[2]d are under way at this gateway, and none ended in %v; nothing "+
			"is lost: send fewer at a time", what, most, seatWait)}
}

// uploadsAtOnce is how many uploads of the tenant are handled at once, 0: the gateway's cap.
func (of *guest) uploadsAtOnce() int {
	of.mu.Lock()
	defer of.mu.Unlock()
	return of.limits.Value().UploadsAtOnce
}

func (g *Gateway) leave(m *meter) {
	g.seats.give(m.guest.name, 1)
	g.keySeats.give(m.name, 1)
	g.stand(m)
}

func (g *Gateway) stand(m *meter) {
	m.guest.requests.Add(-1)
	g.metrics.active.Dec()
}

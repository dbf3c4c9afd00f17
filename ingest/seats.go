package ingest

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// seatWait is how long a request waits for a seat before it is sent away. Agents set no time-out and come again after 5 s, so waiting
	// here is the shorter way for both.
	seatWait = 10 * time.Second
	// queuePerSeat bounds how many requests of one key wait for each of its seats: a connection and a goroutine each, and nothing read yet.
	queuePerSeat = 16
)

// seatsOf is how many uploads of one key are handled at once, of all: one sender never takes the whole gateway.
func seatsOf(all int) int { return max(1, all/4) }

// enter authenticates a request and waits for a seat; leave must follow when it succeeds.
func (g *Gateway) enter(r *http.Request, x *exchange) (*meter, *refusal) {
	m, no := g.keys.authenticate(r)
	if no != nil {
		return nil, no
	}
	key, _ := m.current()
	x.tenant = key.Tenant
	own := m.requests.Add(1)
	g.metrics.active.Inc()
	if no := g.sit(r, m, own); no != nil {
		g.stand(m)
		return nil, no
	}
	return m, nil
}

// sit takes a seat of the key, then one of the gateway.
func (g *Gateway) sit(r *http.Request, m *meter, own int64) *refusal {
	seats := cap(m.seats)
	if own > int64(seats*(1+queuePerSeat)) {
		return unavailable("too_many_requests", fmt.Sprintf("more than %d uploads of this key wait for their turn: send fewer at a time", seats*queuePerSeat), nil)
	}
	wait := time.NewTimer(seatWait)
	defer wait.Stop()
	select {
	case m.seats <- struct{}{}:
	case <-wait.C:
		return unavailable("too_many_requests", fmt.Sprintf("%d uploads of this key at once, which is what one key may have, and none ended in %v: send fewer at a time", seats, seatWait), nil)
	case <-r.Context().Done():
		return unavailable("too_many_requests", "the client left while it waited for its turn", r.Context().Err())
	}
	select {
	case g.seats <- struct{}{}:
		return nil
	case <-wait.C:
		<-m.seats
		return unavailable("too_many_requests", fmt.Sprintf("%d uploads at once, which is what this gateway takes, and none ended in %v: the operator can start another gateway", g.cfg.MaxRequests, seatWait), nil)
	case <-r.Context().Done():
		<-m.seats
		return unavailable("too_many_requests", "the client left while it waited for its turn", r.Context().Err())
	}
}

func (g *Gateway) leave(m *meter) {
	<-g.seats
	<-m.seats
	g.stand(m)
}

func (g *Gateway) stand(m *meter) {
	m.requests.Add(-1)
	g.metrics.active.Dec()
}

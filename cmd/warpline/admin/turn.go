package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
)

// Work is something that takes long, and is done by one at a time in the whole service.
type Work string

// Audit is an audit that the API makes. Repair is what changes rows by hand: a replay or a drop, by the API or a command. So a replay never
// brings back what is just being dropped.
const (
	Audit  Work = "audit"
	Repair Work = "repair"
)

// UnderWay is the answer to who wants to do what another does just now.
type UnderWay struct{ Work Work }

// Error implements error.
func (u UnderWay) Error() string {
	return fmt.Sprintf("another %s is under way in this service: ask again when it is over", u.Work)
}

// errTurnLost ends the work of a holder that could not say for too long that it works.
var errTurnLost = &Denied{http.StatusServiceUnavailable, "turn_lost",
	"NATS did not answer for too long, and another may have begun: ask again, what was done stays done"}

// TakeTurn lets the caller do a kind of work, if nobody else does: else the error is UnderWay. The work is done with the context that is
// returned, which ends when the turn is lost; end gives it back. Of a process that was killed it is free again after the time of a lease.
func TakeTurn(ctx context.Context, s *broker.Streams, of Work) (working context.Context, end func(), err error) {
	key := "admin.turn." + string(of)
	at, err := s.Leases.Create(ctx, key, nil)
	switch {
	case errors.Is(err, jetstream.ErrKeyExists), broker.IsWrongSequence(err):
		return nil, nil, UnderWay{of}
	case err != nil:
		return nil, nil, fmt.Errorf("take a turn for an %s: %w", of, err)
	}
	working, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(s.LeaseTTL / 5)
		defer tick.Stop()
		for renewed := time.Now(); ; {
			select {
			case <-working.Done():
				return
			case <-tick.C:
			}
			sent := time.Now()
			try, stop := context.WithTimeout(working, s.LeaseTTL/2)
			next, err := s.Leases.Update(try, key, nil, at)
			stop()
			switch {
			case err == nil:
				at, renewed = next, sent
			case broker.IsWrongSequence(err), time.Since(renewed) > s.LeaseTTL:
				cancel(errTurnLost)
				return
			}
		}
	}()
	return working, func() {
		cancel(nil)
		<-done
		last, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer stop()
		_ = s.Leases.Delete(last, key, jetstream.LastRevision(at)) // else it is free by itself, a little later
	}, nil
}

// AwaitTurn is TakeTurn that waits while another works; waits is called once if it has to.
func AwaitTurn(ctx context.Context, s *broker.Streams, of Work, waits func()) (working context.Context, end func(), err error) {
	for {
		working, end, err = TakeTurn(ctx, s, of)
		if !errors.As(err, new(UnderWay)) {
			return working, end, err
		}
		if waits != nil {
			waits()
			waits = nil
		}
		select {
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-time.After(300 * time.Millisecond):
		}
	}
}

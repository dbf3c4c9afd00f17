package tenantsql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// turns bounds how many questions ClickHouse works on: of all tenants, and of one. Who asks more waits, and after that is told to. A tenant
// that has a turn does not get the last one that is free: it is for whoever has none. Safe for concurrent use.
type turns struct {
	all, own int

	mu    sync.Mutex
	taken int
	by    map[string]*turn
	queue []*waiter // in the order in which they came
}

// turn is a tenant that asks. It is forgotten when it does not.
type turn struct{ asking, taken int }

type waiter struct {
	of    *turn
	given chan struct{} // closed when the turn is its
}

func newTurns(all, own int) *turns { return &turns{all: all, own: own, by: map[string]*turn{}} }

var errTurn = errors.New("no turn")

// free reports whether a tenant may have a turn now.
func (t *turns) free(of *turn) bool {
	left := t.all - t.taken
	return left > 0 && of.taken < t.own && (of.taken == 0 || left > 1)
}

// take waits for a turn; end must be called after it.
func (t *turns) take(ctx context.Context, who string) (end func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.by[who]
	if of == nil {
		of = &turn{}
		t.by[who] = of
	}
	if of.asking >= waiting {
		return nil, fmt.Errorf("%w: %d questions of tenant %s are under way or wait: ask fewer at a time", errTurn, waiting, who)
	}
	of.asking++
	if t.free(of) { // whoever waits may not: else it would have been given the turn
		t.give(of)
	} else if err := t.wait(ctx, who, of); err != nil {
		t.leave(who, of)
		return nil, err
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.taken--
		of.taken--
		t.leave(who, of)
		t.next()
	}, nil
}

func (t *turns) give(of *turn) {
	t.taken++
	of.taken++
}

// next gives what is free to those who wait and may have it.
func (t *turns) next() {
	t.queue = slices.DeleteFunc(t.queue, func(w *waiter) bool {
		if !t.free(w.of) {
			return false
		}
		t.give(w.of)
		close(w.given)
		return true
	})
}

// wait is called and returns with the lock.
func (t *turns) wait(ctx context.Context, who string, of *turn) error {
	w := &waiter{of, make(chan struct{})}
	t.queue = append(t.queue, w)
	t.mu.Unlock()
	late := time.NewTimer(turnWait)
	defer late.Stop()
	select {
	case <-w.given:
	case <-late.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case <-w.given: // perhaps only just
		return nil
	default:
	}
	t.queue = slices.DeleteFunc(t.queue, func(other *waiter) bool { return other == w })
	if of.taken >= t.own {
		return fmt.Errorf("%w: %d questions of tenant %s at once is what one tenant may have, and none ended in %v: ask fewer at a time",
			errTurn, t.own, who, turnWait)
	}
	return fmt.Errorf("%w: as many questions are under way as this ClickHouse can answer, and none ended in %v: ask again", errTurn, turnWait)
}

func (t *turns) leave(who string, of *turn) {
	if of.asking--; of.asking == 0 {
		delete(t.by, who)
	}
}

package tenantsql

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/semaphore"
)

// turns bounds how many questions ClickHouse works on: of all tenants, and of one. Who asks more waits, and after that is told to. Safe for
// concurrent use.
type turns struct {
	all *semaphore.Weighted
	own int64

	mu sync.Mutex
	by map[string]*turn
}

// turn is a tenant that asks. It is forgotten when it does not.
type turn struct {
	*semaphore.Weighted
	asking int
}

func newTurns(all, own int) *turns {
	return &turns{all: semaphore.NewWeighted(int64(all)), own: int64(own), by: map[string]*turn{}}
}

var errTurn = errors.New("no turn")

// take waits for a turn; end must be called after it.
func (t *turns) take(ctx context.Context, who string) (end func(), err error) {
	t.mu.Lock()
	of := t.by[who]
	if of == nil {
		of = &turn{Weighted: semaphore.NewWeighted(t.own)}
		t.by[who] = of
	}
	if of.asking >= waiting {
		t.mu.Unlock()
		return nil, fmt.Errorf("%w: %d questions of tenant %s are under way or wait: ask fewer at a time", errTurn, waiting, who)
	}
	of.asking++
	t.mu.Unlock()
	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if of.asking--; of.asking == 0 {
			delete(t.by, who)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, turnWait)
	defer cancel()
	if err := of.Acquire(ctx, 1); err != nil {
		leave()
		return nil, fmt.Errorf("%w: %d questions of tenant %s at once is what one tenant may have, and none ended in %v: ask fewer at a time",
			errTurn, t.own, who, turnWait)
	}
	// The tenant's own turn first: whoever asks much does not stand in the way of others twice.
	if err := t.all.Acquire(ctx, 1); err != nil {
		of.Release(1)
		leave()
		return nil, fmt.Errorf("%w: as many questions are under way as this ClickHouse can answer, and none ended in %v: ask again", errTurn,
			turnWait)
	}
	return func() {
		t.all.Release(1)
		of.Release(1)
		leave()
	}, nil
}

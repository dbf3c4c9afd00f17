package parca

import (
	"context"
	"sync"
)

// uploading lets uploads of one cubin follow each other: all but the first find it stored.
var uploading = locks{by: map[string]*turn{}}

// locks are locks by name. They are safe for concurrent use.
type locks struct {
	mu sync.Mutex
	by map[string]*turn
}

// turn is one lock.
type turn struct {
	held chan struct{}
	want int // holders and those that wait; of locks.mu
}

// lock waits for the lock of a name, unless ctx ends.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), err error) {
	l.mu.Lock()
	t := l.by[name]
	if t == nil {
		t = &turn{held: make(chan struct{}, 1)}
		l.by[name] = t
	}
	t.want++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if t.want--; t.want == 0 {
			delete(l.by, name)
		}
	}
	select {
	case t.held <- struct{}{}:
		return func() { <-t.held; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

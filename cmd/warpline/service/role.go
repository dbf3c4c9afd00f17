package service

import (
	"context"
	"errors"
	"fmt"
)

// role is a Run in a goroutine.
type role struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // after done
}

// startRole runs f until stop is called; an end before that goes to failed.
func startRole(name string, failed chan<- error, f func(context.Context) error) *role {
	ctx, stop := context.WithCancel(context.Background())
	r := &role{name: name, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(r.done)
		r.err = f(ctx)
		if ctx.Err() == nil {
			err := r.err
			if err == nil {
				err = errors.New("ended unasked")
			}
			select {
			case failed <- fmt.Errorf("%s: %w", name, err):
			default: // one is enough
			}
		}
	}()
	return r
}

// end stops the role and waits until it is gone or ctx ends.
func (r *role) end(ctx context.Context) error {
	r.stop()
	select {
	case <-r.done:
		if errors.Is(r.err, context.Canceled) {
			return nil
		}
		return r.err
	case <-ctx.Done():
		return fmt.Errorf("%s did not end in time", r.name)
	}
}

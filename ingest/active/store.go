package active

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// prefix begins the names of sets in their bucket, which is that of quotas: their names are hex, and have no dot.
	prefix     = "active."
	sweepEvery = 10 * time.Second
	putTime    = 5 * time.Second
)

func (s Set) key(gateway string) string { return prefix + s.Tenant + "." + gateway }

// Keep stores what this gateway has seen, and takes over what others store, until ctx ends. What a gateway stored stays when it ends, so
// that one that begins knows what is active. loaded is called, each time, once all that is stored was taken over. The bucket's connection
// belongs to the caller.
func (s *Sessions) Keep(ctx context.Context, kv jetstream.KeyValue, gateway string, log *slog.Logger, loaded func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := s.watch(ctx, kv, gateway, loaded); err != nil && ctx.Err() == nil {
				log.Debug("the active sessions that other gateways store cannot be read", "err", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}()
	defer func() { <-done }()
	tick := time.NewTicker(tellEvery / 2)
	defer tick.Stop()
	for swept := time.Now(); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTime)
			s.store(last, kv, gateway, log)
			cancel()
			return
		case <-tick.C:
		}
		s.store(ctx, kv, gateway, log)
		if now := time.Now(); now.Sub(swept) >= sweepEvery {
			swept = now
			for _, set := range s.Sweep(now) { // of a gateway that has ended; one that goes on stores it again
				kv.Delete(ctx, set.key(set.Gateway))
			}
		}
	}
}

// store stores what changed. What fails is tried again later.
func (s *Sessions) store(ctx context.Context, kv jetstream.KeyValue, gateway string, log *slog.Logger) {
	for failed, all := false, s.Tell(time.Now()); len(all) > 0; all = all[1:] {
		set := all[0]
		if failed {
			s.Untold(set.Tenant)
			continue
		}
		try, cancel := context.WithTimeout(ctx, putTime)
		var err error
		if set.Value == nil {
			err = kv.Delete(try, set.key(gateway))
		} else {
			_, err = kv.Put(try, set.key(gateway), set.Value)
		}
		cancel()
		if err != nil {
			log.Debug("active sessions could not be stored", "tenant", set.Tenant, "err", err)
			s.Untold(set.Tenant)
			failed = true
		}
	}
}

func (s *Sessions) watch(ctx context.Context, kv jetstream.KeyValue, self string, loaded func()) error {
	w, err := kv.Watch(ctx, prefix+"*.*")
	if err != nil {
		return fmt.Errorf("watch active sessions: %w", err)
	}
	defer w.Stop()
	again := time.NewTimer(time.Minute) // a watch of a bucket that was made anew tells nothing any more
	defer again.Stop()
	there := map[[2]string]bool{}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("watch active sessions: %w", nats.ErrConnectionClosed)
			}
			if e == nil {
				s.Are(there, self)
				there = nil
				loaded()
				continue
			}
			set := Set{}
			set.Tenant, set.Gateway, _ = strings.Cut(strings.TrimPrefix(e.Key(), prefix), ".")
			if e.Operation() == jetstream.KeyValuePut {
				if set.Value = e.Value(); there != nil {
					there[[2]string{set.Tenant, set.Gateway}] = true
				}
			}
			if set.Gateway != self {
				s.Heard(time.Now(), set) // what cannot be read says nothing
			}
		}
	}
}

// Package peers lets gateways tell each other of their tenants through a bucket. What one has stored stays when it ends, so that one that
// begins knows it.
package peers

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Set is all that one gateway has to say of a tenant.
type Set struct {
	Tenant, Gateway string
	Value           []byte // nil: nothing any more
}

// Told has what this gateway tells and what it hears. Its methods are called from two goroutines.
type Told interface {
	// Tell returns the sets of this gateway that others should know now. It is called every 50 ms.
	Tell(now time.Time) []Set
	// Untold says that a set could not be stored: Tell shall return it again.
	Untold(tenant string)
	// Heard takes over what another gateway says. What cannot be read changes nothing.
	Heard(now time.Time, set Set) error
	// Are says which sets are stored, by tenant and gateway, and what this gateway is called. Others that were heard are gone, and where its
	// own is gone it is told again.
	Are(there map[[2]string]bool, self string)
	// Sweep drops what is old. It returns sets of gateways that have ended, to be removed; one that goes on stores its set again.
	Sweep(now time.Time) []Set
}

const (
	lookEvery  = 50 * time.Millisecond
	sweepEvery = 10 * time.Second
	putTime    = 5 * time.Second
)

// Keeper keeps what gateways tell each other of one thing. The bucket's connection belongs to the caller.
type Keeper struct {
	KV   jetstream.KeyValue
	Name string // of the thing: it begins the names in the bucket
	Self string // how this gateway is called, without a dot
	Log  *slog.Logger
	Told Told
}

func (k *Keeper) key(tenant, gateway string) string { return k.Name + "." + tenant + "." + gateway }

// Run stores and takes over until ctx ends. loaded, which may be nil, is called once all that is stored was taken over, each time anew.
func (k *Keeper) Run(ctx context.Context, loaded func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := k.watch(ctx, loaded); err != nil && ctx.Err() == nil {
				k.Log.Debug("what other gateways store cannot be read", "of", k.Name, "err", err)
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		}
	}()
	defer func() { <-done }()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for swept := time.Now(); ; {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), putTime)
			k.store(last)
			cancel()
			return
		case <-tick.C:
		}
		k.store(ctx)
		if now := time.Now(); now.Sub(swept) >= sweepEvery {
			swept = now
			for _, set := range k.Told.Sweep(now) {
				k.KV.Delete(ctx, k.key(set.Tenant, set.Gateway)) // what is left goes with the bucket's age
			}
		}
	}
}

// store stores what is to be told. What fails is tried again later.
func (k *Keeper) store(ctx context.Context) {
	failed := false
	for _, set := range k.Told.Tell(time.Now()) {
		if failed {
			k.Told.Untold(set.Tenant)
			continue
		}
		try, cancel := context.WithTimeout(ctx, putTime)
		var err error
		if key := k.key(set.Tenant, k.Self); set.Value == nil {
			err = k.KV.Delete(try, key)
		} else {
			_, err = k.KV.Put(try, key, set.Value)
		}
		cancel()
		if err != nil {
			k.Log.Debug("other gateways could not be told", "of", k.Name, "tenant", set.Tenant, "err", err)
			k.Told.Untold(set.Tenant)
			failed = true
		}
	}
}

func (k *Keeper) watch(ctx context.Context, loaded func()) error {
	w, err := k.KV.Watch(ctx, k.Name+".*.*")
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	again := time.NewTimer(time.Minute) // a watch of a bucket that was made anew tells nothing any more
	defer again.Stop()
	there := map[[2]string]bool{} // nil once all have come
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
			return nil
		case e, ok := <-w.Updates():
			if !ok {
				return fmt.Errorf("watch: %w", nats.ErrConnectionClosed)
			}
			if e == nil {
				k.Told.Are(there, k.Self)
				there = nil
				if loaded != nil {
					loaded()
				}
				continue
			}
			var set Set
			set.Tenant, set.Gateway, _ = strings.Cut(strings.TrimPrefix(e.Key(), k.Name+"."), ".")
			if e.Operation() == jetstream.KeyValuePut {
				if set.Value = e.Value(); there != nil {
					there[[2]string{set.Tenant, set.Gateway}] = true
				}
			}
			if set.Gateway == k.Self {
				continue
			}
			if err := k.Told.Heard(time.Now(), set); err != nil {
				k.Log.Debug("what another gateway tells cannot be read", "of", k.Name, "tenant", set.Tenant, "err", err)
			}
		}
	}
}

package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
)

// Apart is what the three roles share when each runs as a process of its own.
type Apart struct {
	// NATS has a URL.
	NATS   NATS
	Layout broker.Layout
	// DrainTimeout is the longest to wait at the end for what is under way. It is above zero.
	DrainTimeout time.Duration
	Sources      Sources
	// Version is the program's; answers and chunks have it.
	Version string
	// Log is where the role and its watch write; not nil.
	Log *slog.Logger
}

// open connects to NATS, waiting for it as long as ctx lasts, and opens the streams. The caller calls close.
func (a Apart) open(ctx context.Context, name string) (s *broker.Streams, close func(), err error) {
	nc, js, err := a.connect(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	layout := a.Layout
	layout.Logger = a.Log
	s, err = broker.Open(ctx, nc, js, layout)
	if err != nil {
		nc.Close()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("open the streams: %w", err)
	}
	return s, nc.Close, nil
}

// connect connects to NATS, waiting for it as long as ctx lasts. The caller closes the connection.
func (a Apart) connect(ctx context.Context, name string) (*nats.Conn, jetstream.JetStream, error) {
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{
		URL: a.NATS.URL, CredentialsFile: a.NATS.CredentialsFile, Name: "warpline " + name, Logger: a.Log,
	})
	if ctx.Err() != nil {
		if err == nil {
			nc.Close()
		}
		return nil, nil, ctx.Err() // interrupted while it waited for NATS
	}
	if err != nil {
		return nil, nil, Unreachable{err}
	}
	return nc, js, nil
}

// keep makes anew what is deleted from NATS, and says what troubles finds, until the process ends. The caller calls stop before it closes
// the connection.
func (a Apart) keep(
	s *broker.Streams, reg prometheus.Registerer, w *watcher, troubles func(context.Context) map[string]string,
) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Keep(ctx, broker.KeeperConfig{Registerer: reg}) })
	wg.Go(func() { w.run(ctx, troubles) })
	return func() { cancel(); wg.Wait() }
}

// serve runs a role until ctx ends, then gives it DrainTimeout to finish, less when hard ends.
func (a Apart) serve(ctx, hard context.Context, name string, run func(context.Context) error) error {
	failed := make(chan error, 1)
	r := startRole(name, failed, run)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	began := time.Now()
	stop, cancel := context.WithTimeout(hard, a.DrainTimeout)
	defer cancel()
	if err := r.end(stop); err != nil {
		a.Log.Warn("stopped", "part", name, "took", time.Since(began).Round(time.Millisecond), "err", err)
		return err
	}
	a.Log.Info("stopped", "part", name, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
)

// apart is what the three roles share when they run as processes of their own.
type apart struct {
	natsFlags
	layoutFlags
	DrainTimeout time.Duration `default:"30s" help:"Longest to wait at the end for what is under way."`
}

func (a apart) check(s *settings) error {
	if a.NATS == "" {
		return fmt.Errorf("%s is missing: name a NATS server, as nats://127.0.0.1:4222, or run \"warpline up\", which has its own", s.name("nats"))
	}
	if a.DrainTimeout <= 0 {
		return fmt.Errorf("%s: %v: must be above zero", s.name("drain-timeout"), a.DrainTimeout)
	}
	return a.layoutFlags.check(s)
}

// open connects to NATS, waiting for it as long as ctx lasts, and opens the streams. The caller calls close.
func (a apart) open(ctx context.Context, p *program, name string) (s *broker.Streams, close func(), err error) {
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: a.NATS, CredentialsFile: a.NATSCreds, Name: "warpline " + name, Logger: p.Log})
	if ctx.Err() != nil {
		if err == nil {
			nc.Close()
		}
		return nil, nil, ctx.Err() // interrupted while it waited for NATS
	}
	if err != nil {
		return nil, nil, unreachable(err)
	}
	layout := a.layout()
	layout.Logger = p.Log
	if s, err = broker.Open(ctx, nc, js, layout); err != nil {
		nc.Close()
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		return nil, nil, fmt.Errorf("open the streams: %w", err)
	}
	return s, nc.Close, nil
}

// keep makes anew what is deleted from NATS, and says what troubles finds, until the process ends. The caller calls stop before it closes
// the connection.
func (a apart) keep(s *broker.Streams, reg prometheus.Registerer, w *watcher, troubles func(context.Context) map[string]string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Keep(ctx, broker.KeeperConfig{Registerer: reg}) })
	wg.Go(func() { w.run(ctx, troubles) })
	return func() { cancel(); wg.Wait() }
}

// serve runs a role until a signal, then gives it drain to finish.
func (a apart) serve(ctx context.Context, p *program, name string, run func(context.Context) error, drain func(context.Context) error) error {
	failed := make(chan error, 1)
	r := start(name, failed, run)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	began := time.Now()
	stop, cancel := context.WithTimeout(p.Hard, a.DrainTimeout)
	defer cancel()
	var err error
	if drain != nil {
		err = drain(stop)
	}
	if err = errors.Join(err, r.end(stop)); err != nil {
		p.Log.Warn("stopped", "part", name, "took", time.Since(began).Round(time.Millisecond), "err", err)
		return err
	}
	p.Log.Info("stopped", "part", name, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

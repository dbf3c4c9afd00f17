package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warpline/warpline/sink"
)

// SinkConfig is what a sink needs that runs alone.
type SinkConfig struct {
	// MetricsListen is where /metrics, /healthz and /readyz are, as host:port; "" for nowhere.
	MetricsListen string
	// ClickHouse has a Native address.
	ClickHouse ClickHouse
	// Interval is Config.SinkInterval.
	Interval time.Duration
	// ReplayWindow is sink.Config.ReplayWindow.
	ReplayWindow time.Duration
	// RejectsMax is Config.RejectsMax.
	RejectsMax int64
	// Fsync makes ClickHouse sync every insert before it counts as done.
	Fsync bool
	// Replicated makes the tables replicated, for a server with Keeper. Cluster makes them on every server of that name; "" for none.
	Replicated bool
	Cluster    string
}

// RunSink holds lanes until ctx ends, then inserts what is stored, as far as the drain time-out allows; hard ends that.
func (a Apart) RunSink(ctx, hard context.Context, c SinkConfig) error {
	streams, closeNATS, err := a.open(ctx, "sink")
	if err != nil {
		return err
	}
	defer closeNATS()
	reg := newRegistry()
	cfg := c.ClickHouse.sinkConfig(a.Sources.Schema)
	cfg.MinInterval, cfg.Logger, cfg.Registerer = c.Interval, a.Log, reg
	cfg.ReplayWindow = c.ReplayWindow
	cfg.Fsync, cfg.Replicated, cfg.Cluster = c.Fsync, c.Replicated, c.Cluster
	s, err := sink.New(streams, cfg)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	watch := newWatcher(a.Log, reg)
	defer a.keep(streams, reg, watch, apartTroubles(streams, func(_ context.Context, t map[string]string) {
		if err := sinkTrouble(s); err != nil {
			t["rows do not reach ClickHouse and wait in NATS"] = err.Error()
		}
		stoodStill(t, s)
	}))()
	closing, closed := context.WithCancel(hard)
	defer closed()
	go closeUsers(closing, c.ClickHouse, streams, a.Log)
	go trimRejects(closing, c.ClickHouse, streams, c.RejectsMax, a.Log, reg)
	addr, err := serveMetrics(hard, c.MetricsListen, reg, func() error {
		if ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(readiness(watch), sinkTrouble(s))
	})
	if err != nil {
		return err
	}
	a.Log.Info("ready", "addr", addr, "role", "sink")
	return a.serve(ctx, hard, "sink", s.Run)
}

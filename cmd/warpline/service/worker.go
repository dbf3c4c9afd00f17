package service

import (
	"context"
	"errors"
	"time"

	"github.com/warpline/warpline/aggregate"
)

// WorkerConfig is what a worker needs that runs alone.
type WorkerConfig struct {
	// MetricsListen is where /metrics, /healthz and /readyz are, as host:port; "" for nowhere.
	MetricsListen string
	// MetricsTenants is how many tenants have series of their own there.
	MetricsTenants int
	// ChunkAge and NamesMemory are as in Config.
	ChunkAge    time.Duration
	NamesMemory int64
	// ClickHouse is where names are read that have left NATS. Without a Native address they stay unknown to this worker.
	ClickHouse ClickHouse
}

// RunWorker holds partitions until ctx ends, then publishes the open chunks; hard ends the waiting for them.
func (a Apart) RunWorker(ctx, hard context.Context, c WorkerConfig) error {
	streams, closeNATS, err := a.open(ctx, "worker")
	if err != nil {
		return err
	}
	defer closeNATS()
	reg := newRegistry()
	cfg := aggregate.Config{
		Sources: a.Sources.Folds, Schema: a.Sources.Schema, ChunkAge: c.ChunkAge, NamesBytes: int(c.NamesMemory), Version: a.Version,
		Logger: a.Log, Registerer: reg, MetricsTenants: c.MetricsTenants,
	}
	if c.ClickHouse.Native != "" {
		names := &nameReader{server: c.ClickHouse}
		defer names.close()
		cfg.LoadNames = names.load
	} else {
		a.Log.Warn("without --clickhouse, names that have left NATS after 7 days stay unknown to this worker; the views still find them")
	}
	w := aggregate.New(streams, cfg)
	watch := newWatcher(a.Log, reg)
	defer a.keep(streams, reg, watch, apartTroubles(streams, func(_ context.Context, t map[string]string) {
		if err := workerTrouble(w); err != nil {
			t["the worker does not get on"] = err.Error()
		}
		notTaken(t, w)
	}))()
	addr, err := serveMetrics(hard, c.MetricsListen, reg, func() error {
		if ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(readiness(watch), workerTrouble(w))
	})
	if err != nil {
		return err
	}
	a.Log.Info("ready", "addr", addr, "role", "worker")
	return a.serve(ctx, hard, "worker", w.Run)
}

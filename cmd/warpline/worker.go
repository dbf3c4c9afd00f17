package main

import (
	"context"
	"errors"

	"github.com/warpline/warpline/aggregate"
)

// workerCmd is the fold alone.
type workerCmd struct {
	apart
	metricsFlags
	chunkFlags
	clickhouseFlags
}

func (c *workerCmd) check(p *program) error {
	return errors.Join(c.apart.check(p.Settings), c.metricsFlags.check(p.Settings), c.chunkFlags.check(p.Settings), c.clickhouseFlags.check(p.Settings))
}

// Run holds partitions until a signal, then publishes the open chunks.
func (c *workerCmd) Run(ctx context.Context, p *program) error {
	streams, closeNATS, err := c.open(ctx, p, "worker")
	if err != nil {
		return err
	}
	defer closeNATS()
	reg := newRegistry()
	cfg := aggregate.Config{Sources: folds(), ChunkAge: c.ChunkAge, NamesBytes: int(c.NamesMemory), Schema: schema(), Version: version(), Logger: p.Log, Registerer: reg}
	if c.ClickHouse != "" {
		names := &nameReader{server: c.server()}
		defer names.close()
		cfg.LoadNames = names.load
	} else {
		p.Log.Warn("without --clickhouse, names that have left NATS after 7 days stay unknown to this worker; the views still find them")
	}
	w := aggregate.New(streams, cfg)
	watch := newWatcher(p.Log, reg)
	defer c.keep(streams, reg, watch, apartTroubles(streams, func(_ context.Context, t map[string]string) {
		if err := workerTrouble(w); err != nil {
			t["the worker does not get on"] = err.Error()
		}
		notTaken(t, w)
	}))()
	addr, err := serveMetrics(p.Hard, c.MetricsListen, reg, func() error {
		if ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(readiness(watch), workerTrouble(w))
	})
	if err != nil {
		return err
	}
	p.Log.Info("ready", "addr", addr, "role", "worker")
	return c.serve(ctx, p, "worker", w.Run, nil)
}

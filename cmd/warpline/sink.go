package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/sink"
)

// sinkCmd is the inserts alone.
type sinkCmd struct {
	apart
	metricsFlags
	clickhouseFlags
	insertFlags
	Durability string `enum:"os,fsync" default:"os" help:"fsync makes ClickHouse sync every insert before it counts as done."`
	Replicated bool   `name:"clickhouse-replicated" help:"Make the tables replicated: for a server with Keeper."`
	Cluster    string `name:"clickhouse-cluster" placeholder:"NAME" help:"Make the tables on every server of this cluster."`
}

func (c *sinkCmd) check(p *program) error {
	if err := c.apart.check(p.Settings); err != nil {
		return err
	}
	if c.ClickHouse == "" {
		return fmt.Errorf("%s is missing: name the native address of a server, as 127.0.0.1:9000, or run \"warpline up\", which has its own", p.Settings.name("clickhouse"))
	}
	return errors.Join(c.metricsFlags.check(p.Settings), c.clickhouseFlags.check(p.Settings), c.insertFlags.check(p.Settings))
}

// Run holds lanes until a signal, then inserts what is stored, as far as the drain time-out allows.
func (c *sinkCmd) Run(ctx context.Context, p *program) error {
	streams, closeNATS, err := c.open(ctx, p, "sink")
	if err != nil {
		return err
	}
	defer closeNATS()
	reg := newRegistry()
	cfg := c.server().sinkConfig()
	cfg.MinInterval, cfg.Logger, cfg.Registerer = c.SinkInterval, p.Log, reg
	cfg.Fsync, cfg.Replicated, cfg.Cluster = c.Durability == "fsync", c.Replicated, c.Cluster
	s, err := sink.New(streams, cfg)
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	watch := newWatcher(p.Log, reg)
	defer c.keep(streams, reg, watch, apartTroubles(streams, func(_ context.Context, t map[string]string) {
		if err := sinkTrouble(s); err != nil {
			t["rows do not reach ClickHouse and wait in NATS"] = err.Error()
		}
		stoodStill(t, s)
	}))()
	addr, err := serveMetrics(p.Hard, c.MetricsListen, reg, func() error {
		if ctx.Err() != nil {
			return errStopping
		}
		return errors.Join(readiness(watch), sinkTrouble(s))
	})
	if err != nil {
		return err
	}
	p.Log.Info("ready", "addr", addr, "role", "sink")
	return c.serve(ctx, p, "sink", s.Run, nil)
}

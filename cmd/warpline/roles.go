package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// workerCmd is the fold alone.
type workerCmd struct {
	apart
	metricsFlags
	chunkFlags
	clickhouseFlags
}

func (c *workerCmd) check(p *program) error {
	return errors.Join(c.apart.check(p.Settings), c.metricsFlags.check(p.Settings), c.chunkFlags.check(p.Settings),
		c.clickhouseFlags.check(p.Settings))
}

// Run holds partitions until a signal, then publishes the open chunks.
func (c *workerCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunWorker(ctx, p.Hard, service.WorkerConfig{
		MetricsListen: c.MetricsListen, ChunkAge: c.ChunkAge, NamesMemory: int64(c.NamesMemory), ClickHouse: c.server(),
	})
}

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
		return fmt.Errorf("%s is missing: name the native address of a server, as 127.0.0.1:9000, or run \"warpline up\", which has its own",
			p.Settings.name("clickhouse"))
	}
	return errors.Join(c.metricsFlags.check(p.Settings), c.clickhouseFlags.check(p.Settings), c.insertFlags.check(p.Settings))
}

// Run holds lanes until a signal, then inserts what is stored, as far as the drain time-out allows.
func (c *sinkCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunSink(ctx, p.Hard, service.SinkConfig{
		MetricsListen: c.MetricsListen, ClickHouse: c.server(), Interval: c.SinkInterval, Fsync: c.Durability == "fsync",
		Replicated: c.Replicated, Cluster: c.Cluster,
	})
}

package main

import (
	"context"
	"errors"

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

package service

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/rejects"
)

const (
	// trimEvery is the least time between two looks at how much is kept of rejects. They take at most a 200th of the time.
	trimEvery, trimShare = time.Minute, 200
	// trimNext is when a sink looks that found another at work, or a turn that was killed; trimFirst when it looks for the first time.
	trimNext, trimFirst = 5 * time.Second, 2 * time.Second
)

// trimRejects keeps the bytes of each tenant's rejects within most, until ctx ends; 0 is no bound. It finishes drops that were cut short,
// also those of people. Several sinks take turns.
func trimRejects(ctx context.Context, on ClickHouse, streams *broker.Streams, most int64, log *slog.Logger, reg prometheus.Registerer) {
	dropped := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "sink", Name: "rejects_dropped_total",
		Help: "Rejects that were dropped with their bytes before they expired, because their tenant had more than --rejects-max."})
	reg.MustRegister(dropped)
	wait := trimFirst
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		began := time.Now()
		all, err := trimOnce(ctx, on, streams, most)
		for _, of := range all {
			dropped.Add(float64(of.Rows))
			log.Warn("a tenant has more bytes of rejects than --rejects-max: its oldest were dropped, and usage goes on counting them", "tenant",
				of.Tenant, "bytes", of.Bytes, "kept", of.Kept, "dropped", of.Rows)
		}
		wait = max(trimEvery, trimShare*time.Since(began))
		switch {
		case errors.As(err, &admin.UnderWay{}):
			wait = trimNext
		case err != nil && ctx.Err() == nil:
			log.Warn("drops could not be finished, or the oldest rejects dropped; it is tried again", "err", err)
		}
	}
}

// trimOnce waits for nobody: a replay or a drop of a person comes first.
func trimOnce(ctx context.Context, on ClickHouse, streams *broker.Streams, most int64) ([]rejects.Trimmed, error) {
	working, end, err := admin.TakeTurn(ctx, streams, admin.Repair)
	if err != nil {
		return nil, err
	}
	defer end()
	conn, err := on.OpenIn(working, on.Database)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return rejects.Trimmer{Streams: streams, Conn: conn, Most: most}.Trim(working)
}

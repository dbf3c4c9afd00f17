package service

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// administration is what the admin API needs of a gateway that is made after it.
type administration struct {
	gateway  func() *ingest.Gateway
	streams  *broker.Streams
	reads    ClickHouse // without a Native address there is none
	writes   ClickHouse // the same, as a user who may write
	schema   *table.Schema
	defaults tenant.Limits
	version  string
	log      *slog.Logger
	reg      prometheus.Registerer
}

// newDesk is what administrators do, with the log of what they change.
func newDesk(s *broker.Streams, defaults tenant.Limits, log *slog.Logger) *admin.Desk {
	d := admin.NewDesk(ingest.NewKeys(s.Keys), defaults)
	d.Log = admin.NewLog(s.JS, s.Partitions)
	d.Warn = func(err error) { log.Warn("a change by an administrator is not recorded whole", "err", err) }
	return d
}

// api is the admin API. It answers once the gateway is there.
func (a administration) api() http.Handler {
	cfg := admin.Config{
		Desk: newDesk(a.streams, a.defaults, a.log),
		Authorize: func(ctx context.Context, secret string) (tenant.Key, *ingest.Refusal) {
			return a.gateway().Authorize(ctx, secret, tenant.ScopeAdmin, "")
		},
		Gateway:  http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { a.gateway().Handler().ServeHTTP(w, r) }),
		Database: a.reads.Database, Version: a.version, Ready: func() error { return a.gateway().Ready() }, Stores: a.streams.Full,
		Logger: a.log, Registerer: a.reg, Streams: a.streams, Schema: a.schema,
	}
	cfg.Shares = func(of string) []shares.Share { return a.gateway().Shares(of) }
	cfg.Windows = func(ctx context.Context) ([]broker.Window, error) { return broker.ReadWindows(ctx, a.streams.Marks) }
	if a.reads.Native != "" {
		cfg.Open = func(ctx context.Context) (driver.Conn, error) { return a.reads.OpenIn(ctx, a.reads.Database) }
		cfg.Repair = func(ctx context.Context) (sink.Replayer, error) { return a.writes.Replayer(ctx, a.streams, a.schema) }
	}
	return admin.NewAPI(cfg)
}

package service

import (
	"context"
	"log/slog"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/query/tenantsql"
)

// closeUsers takes the rows from the users that disabled tenants have on a ClickHouse server, until ctx ends.
func closeUsers(ctx context.Context, on ClickHouse, streams *broker.Streams, log *slog.Logger) {
	c := tenantsql.Closer{Open: func(ctx context.Context) (driver.Conn, error) { return on.Open(ctx) }, Database: on.Database,
		Tenants: ingest.NewTenants(streams.Keys).List,
		Failed: func(err error) {
			log.Warn("users of disabled tenants may still read in ClickHouse: see doctor's sql-users", "err", err)
		}}
	c.Run(ctx)
}

package tenantsql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/proto/tenant"
)

// ClosedTable is the table of tenants whose own users on a server see no row. It is only added to: of each tenant the newest row counts.
// A disabled tenant is in it, whoever disabled it, so that no right to make users is needed for that.
const ClosedTable = "closed_tenants"

// makeClosed makes the table.
func (p plan) makeClosed() string {
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s%s (tenant String, closed UInt8, at DateTime64(9, 'UTC')) ENGINE = MergeTree "+
		"ORDER BY (tenant, at)", quoted(p.database), ClosedTable, p.on())
}

// filter is which rows the owner of the tenant's views sees.
func (p plan) filter() string {
	return fmt.Sprintf("tenant = '%s' AND '%[1]s' NOT IN (SELECT tenant FROM %s.%s WHERE tenant = '%[1]s' GROUP BY tenant HAVING "+
		"argMax(closed, at) = 1)", p.tenant, quoted(p.database), ClosedTable)
}

// say adds tenants to the table.
func say(ctx context.Context, conn driver.Conn, database string, closed bool, tenants []string) error {
	if len(tenants) == 0 {
		return nil
	}
	err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO %s.%s SELECT arrayJoin($1::Array(String)), $2, now64(9, 'UTC')",
		quoted(database), ClosedTable), tenants, map[bool]uint8{true: 1}[closed])
	if err != nil {
		return fmt.Errorf("table %s: %w: the user who inserts rows must be let write it", ClosedTable, err)
	}
	return nil
}

// Closed are the tenants whose own users see no row, and whether the server has such users of this version at all.
func Closed(ctx context.Context, conn driver.Conn, database string) (closed map[string]bool, any bool, err error) {
	var there uint64
	if err := conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = $1 AND name = $2", databaseOf(database),
		ClosedTable).Scan(&there); err != nil || there == 0 {
		return nil, false, err
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT tenant FROM %s.%s GROUP BY tenant HAVING argMax(closed, at) = 1",
		quoted(databaseOf(database)), ClosedTable))
	if err != nil {
		return nil, true, err
	}
	defer rows.Close()
	closed = map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, true, err
		}
		closed[name] = true
	}
	return closed, true, rows.Err()
}

// Closer takes the rows from the users of disabled tenants, and gives them back when the tenants are enabled. Conn inserts rows for the
// service. Its fields must not change while it runs.
type Closer struct {
	Open     func(ctx context.Context) (driver.Conn, error)
	Database string
	// Tenants are those that have a record.
	Tenants func(ctx context.Context) ([]tenant.Record, error)
	// Failed is told, now and then, of what goes wrong; nothing is changed meanwhile.
	Failed func(error)

	conn driver.Conn
	had  map[string]bool // tenants that had a record
}

// closeEvery is how often it looks.
const closeEvery = 3 * time.Second

// Run looks until ctx ends.
func (c *Closer) Run(ctx context.Context) {
	quiet := rate.Sometimes{Interval: time.Minute}
	tick := time.NewTicker(closeEvery)
	defer tick.Stop()
	for ; ctx.Err() == nil; wait(ctx, tick.C) {
		try, cancel := context.WithTimeout(ctx, 2*closeEvery)
		err := c.look(try)
		cancel()
		if err == nil || ctx.Err() != nil {
			continue
		}
		quiet.Do(func() { c.Failed(err) })
		if c.conn != nil {
			c.conn.Close()
			c.conn = nil
		}
	}
	if c.conn != nil {
		c.conn.Close()
	}
}

func wait(ctx context.Context, tick <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-tick:
	}
}

// look compares the tenants with the table once. A tenant whose record went while this runs stays out, as one that was disabled does.
func (c *Closer) look(ctx context.Context) (err error) {
	if c.conn == nil {
		if c.conn, err = c.Open(ctx); err != nil {
			return err
		}
	}
	closed, any, err := Closed(ctx, c.conn, c.Database)
	if err != nil || !any {
		return err
	}
	records, err := c.Tenants(ctx)
	if err != nil {
		return err
	}
	now := map[string]bool{}
	var out, in []string
	for _, r := range records {
		now[r.Name] = true
		switch off := !r.Disabled.IsZero(); {
		case off && !closed[r.Name]:
			out = append(out, r.Name)
		case !off && closed[r.Name]:
			in = append(in, r.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.had)) {
		if !now[name] && !closed[name] {
			out = append(out, name)
		}
	}
	err = errors.Join(say(ctx, c.conn, databaseOf(c.Database), true, out), say(ctx, c.conn, databaseOf(c.Database), false, in))
	if err == nil {
		c.had = now
	}
	return err
}

// Package doctor looks at a running service for what will hurt it later: settings that differ from what it needs, and stores that fill.
package doctor

import (
	"context"
	"fmt"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// Finding is what one check found.
type Finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Found string `json:"found"`
	Fix   string `json:"fix"` // what to do, "" where nothing is to be done
}

// Patient is a service. Its fields must not change while it is examined.
type Patient struct {
	Streams  *broker.Streams
	Conn     driver.Conn // a user who reads
	Writer   driver.Conn // of the embedded engine the user who sees what others may; nil of a server
	Database string
	Schema   *table.Schema
	Keys     []tenant.Key
	// Tenants are those that have a record, and Classes the retention classes that gateways have stored.
	Tenants []tenant.Record
	Classes tenant.Classes
	// HTTP is the address of ClickHouse's HTTP interface, "" where it is not known.
	HTTP string
	// Dir is the data folder of a service on this machine, "" of another. Gateway is the URL of its gateway, "" where it is not known.
	Dir, Gateway string
	// NATSSync is how often the embedded NATS syncs, a duration or SyncAlways; "" of a server, whose monitoring is at the URL Monitor, ""
	// where that is not known.
	NATSSync, Monitor string
	// Now is the clock of this machine, and FreeBytes what is free beneath a folder; nil for the real ones.
	Now       func() time.Time
	FreeBytes func(dir string) (uint64, error)
}

// check is one look. An error is that it cannot tell.
type check struct {
	name string
	look func(*Patient, context.Context) (found, fix string, err error)
}

// checks are made in this order. A fix that is not "" says that something is wrong.
var checks = []check{
	{"layout", (*Patient).layout},
	{"nats-sync", (*Patient).natsSync},
	{"max-payload", (*Patient).maxPayload},
	{"stores", (*Patient).stores},
	{"replay-window", (*Patient).replayWindow},
	{"disk", (*Patient).disk},
	{"clocks", (*Patient).clocks},
	{"clickhouse-version", (*Patient).version},
	{"schema", (*Patient).schema},
	{"dedup-window", (*Patient).dedupWindow},
	{"open-sql", (*Patient).openSQL},
	{"policies", (*Patient).policies},
	{"sql-users", (*Patient).sqlUsers},
	{"public-metrics", (*Patient).publicMetrics},
	{"keys-expiring", (*Patient).keysExpiring},
	{"retention-classes", (*Patient).retentionClasses},
}

// lookTime is the longest that one check may take.
const lookTime = 10 * time.Second

// Examine makes all checks.
func (p *Patient) Examine(ctx context.Context) []Finding {
	if p.Now == nil {
		p.Now = time.Now
	}
	if p.FreeBytes == nil {
		p.FreeBytes = freeBytes
	}
	all := make([]Finding, len(checks))
	for i, c := range checks {
		try, cancel := context.WithTimeout(ctx, lookTime)
		found, fix, err := c.look(p, try)
		cancel()
		if err != nil {
			found, fix = fmt.Sprintf("cannot tell: %v", err), "look again when the service answers"
		}
		all[i] = Finding{Check: c.name, OK: fix == "", Found: found, Fix: fix}
	}
	return all
}

// Package cost says what a month of a service costs, or of a tenant's part of it, from what is stored and what was sent.
package cost

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// Prices are what is paid, in USD.
type Prices struct{ GBMonth, CoreHour float64 }

// Question is what is asked. The zero value of a field but Prices and the CPU means: as it is today.
type Question struct {
	Tenant string // "" for all
	// EventsPerSecond is the load to reckon with, 0 for that of the last full days.
	EventsPerSecond float64
	// CPUMicros is the CPU time of an event in all roles and ClickHouse, Busy the share of bought cores that works on average.
	CPUMicros, Busy    float64
	RawDays, RollupDay float64
	Prices             Prices
}

// Use is what is measured.
type Use struct {
	Days                float64 `json:"days"` // full days of UTC with uploads, at most 7
	EventsPerSecond     float64 `json:"events_per_second"`
	RawBytes            uint64  `json:"raw_bytes"`    // of the tables of raw rows, at rest
	RollupBytes         uint64  `json:"rollup_bytes"` // of the others
	RawEvents           uint64  `json:"raw_events"`   // that came in the days of which raw rows are there
	AllEvents           uint64  `json:"all_events"`
	RawBytesPerEvent    float64 `json:"raw_bytes_per_event"`
	RollupBytesPerEvent float64 `json:"rollup_bytes_per_event"`
	// OwnBytes says that the bytes and events are those of the tenant asked for. Where a sink has not measured them yet, they are of all.
	OwnBytes bool `json:"own_bytes"`
}

// Bill is the answer.
type Bill struct {
	Use
	RawDays    float64 `json:"raw_days"` // for how long rows are kept
	RollupDays float64 `json:"rollup_days"`
	Load       float64 `json:"load_events_per_second"` // that the bill is for
	RawGB      float64 `json:"raw_gb"`                 // when as much comes in as goes
	RollupGB   float64 `json:"rollup_gb"`
	Cores      float64 `json:"cores"`
	USDStorage float64 `json:"usd_storage"`
	USDCPU     float64 `json:"usd_cpu"`
	USDMonth   float64 `json:"usd_month"`
}

// errNothing is that there is nothing to reckon from.
var errNothing = errors.New("nothing is stored: send some data first, as \"warpline bench --url\" does")

// hoursOfMonth is a twelfth of a year.
const hoursOfMonth = 730

// Reckon reads what is stored and reckons a month of it.
func Reckon(ctx context.Context, conn driver.Conn, database string, schema *table.Schema, q Question) (*Bill, error) {
	b := &Bill{RawDays: q.RawDays, RollupDays: q.RollupDay}
	if err := b.measure(ctx, conn, database, schema, q); err != nil {
		return nil, err
	}
	b.Load = q.EventsPerSecond
	if b.Load == 0 {
		b.Load = b.EventsPerSecond
	}
	perDay := b.Load * 86400
	b.RawGB = perDay * q.RawDays * b.RawBytesPerEvent / 1e9
	b.RollupGB = perDay * q.RollupDay * b.RollupBytesPerEvent / 1e9
	b.Cores = b.Load * q.CPUMicros / 1e6 / q.Busy
	b.USDStorage = (b.RawGB + b.RollupGB) * q.Prices.GBMonth
	b.USDCPU = b.Cores * hoursOfMonth * q.Prices.CoreHour
	b.USDMonth = b.USDStorage + b.USDCPU
	if math.IsInf(b.USDMonth, 0) || math.IsNaN(b.USDMonth) {
		return nil, errors.New("a month costs more than can be reckoned: give smaller numbers for load and prices")
	}
	return b, nil
}

// measure reads what is at rest, of all tenants from the data parts and of one from what the sink measured, and the books.
func (b *Bill) measure(ctx context.Context, conn driver.Conn, database string, schema *table.Schema, q Question) error {
	var raw []string
	for _, t := range schema.Tables() {
		if t.Retention == table.Raw {
			raw = append(raw, t.Name)
		}
	}
	if err := conn.QueryRow(ctx, "SELECT sumIf(bytes_on_disk, has($1, table)), sumIf(bytes_on_disk, NOT has($1, table)) FROM system.parts "+
		"WHERE active AND database = $2", raw, database).Scan(&b.RawBytes, &b.RollupBytes); err != nil {
		return fmt.Errorf("read the data parts: %w", err)
	}
	if err := b.own(ctx, conn, database, q.Tenant); err != nil {
		return err
	}
	of := ""
	if b.OwnBytes {
		of = q.Tenant
	}
	if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT toUInt64(sumIf(events - rejected - duplicates, day > today() - %d)), "+
		"toUInt64(sum(events - rejected - duplicates)) FROM `%s`.usage WHERE $1 = '' OR tenant = $1", int(q.RawDays), database), of).Scan(
		&b.RawEvents, &b.AllEvents); err != nil {
		return fmt.Errorf("read the books: %w", err)
	}
	if b.RawEvents == 0 {
		return errNothing
	}
	b.RawBytesPerEvent = float64(b.RawBytes) / float64(b.RawEvents)
	b.RollupBytesPerEvent = float64(b.RollupBytes) / float64(b.AllEvents)
	var days, events uint64
	if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT uniqExact(day), toUInt64(sum(events - rejected - duplicates)) FROM `%s`.usage "+
		"WHERE day < today() AND day >= today() - 7 AND ($1 = '' OR tenant = $1)", database), q.Tenant).Scan(&days, &events); err != nil {
		return fmt.Errorf("read the books: %w", err)
	}
	b.Days = float64(days)
	if days > 0 {
		b.EventsPerSecond = float64(events) / float64(days) / 86400
	} else if q.EventsPerSecond == 0 {
		return errors.New("there is no full day to reckon from yet: give the load with --events-per-second")
	}
	return nil
}

// unknownTable is ClickHouse's number for that.
const unknownTable = 60

// own takes the bytes of one tenant, where they are measured.
func (b *Bill) own(ctx context.Context, conn driver.Conn, database, tenant string) error {
	if tenant == "" {
		return nil
	}
	var raw, rollup uint64
	if err := conn.QueryRow(ctx, fmt.Sprintf("SELECT sum(raw_bytes), sum(rollup_bytes) FROM `%[1]s`.stored_data WHERE tenant = $1 AND "+
		"measurement = (SELECT max(measurement) FROM `%[1]s`.stored_data)", database), tenant).Scan(&raw, &rollup); err != nil {
		var refused *clickhouse.Exception
		if errors.As(err, &refused) && refused.Code == unknownTable { // an older sink made the tables
			return nil
		}
		return fmt.Errorf("read what the tenant has stored: %w", err)
	}
	if b.OwnBytes = raw+rollup > 0; b.OwnBytes {
		b.RawBytes, b.RollupBytes = raw, rollup
	}
	return nil
}

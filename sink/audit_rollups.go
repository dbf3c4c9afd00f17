package sink

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// RollupReport is a session of which a rollup counts less than its raw rows say.
type RollupReport struct {
	Tenant, Session string
	Raw, Rollup     string // tables
	Day             string // on which the first of the raw rows arrived
	Calls           uint64 // of the raw rows
	Counted         uint64 // by the rollup
	Short           int64  // nanoseconds that the rollup lacks, or has too many
}

// String says what is wrong, and what mends it.
func (r RollupReport) String() string {
	return fmt.Sprintf("tenant %s, table %s, received on %s: session %q has %d calls in %s, and %d are counted (%d ns are missing): "+
		"warpline replay --tenant %s --table %s --from %s --to %s", r.Tenant, r.Rollup, r.Day, r.Session, r.Calls, r.Raw, r.Counted, r.Short,
		r.Tenant, r.Rollup, r.Day, r.Day)
}

// rolledUp are the raw tables of which each row is counted in a rollup, once.
var rolledUp = []struct{ raw, rollup *table.Table }{
	{table.Kernels.Table, table.KernelStats.Table}, {table.Memcpys.Table, table.MemcpyStats.Table}, {table.Syncs.Table, table.SyncStats.Table},
}

// maxRollupReports bounds the sessions that are named of one rollup.
const maxRollupReports = 100

// AuditRollups compares raw rows with what rollups count, by session, where no raw row of the session can have expired. A rollup that
// counts more is no problem here, because a tenant's raw rows may be off. A difference is believed when it is still there after rollups
// that were held back have come.
func AuditRollups(ctx context.Context, conn driver.Conn, of Scope) (out []RollupReport, err error) {
	for _, pair := range rolledUp {
		var now []RollupReport
		for try := 1; try <= settleTries+2; try++ {
			before := now
			now, err = lookAtRollup(ctx, conn, pair.raw, pair.rollup, of)
			if err != nil {
				return nil, fmt.Errorf("compare %s with %s: %w", pair.rollup.Name, pair.raw.Name, err)
			}
			now = slices.DeleteFunc(now, func(r RollupReport) bool { return try > 1 && !slices.Contains(before, r) })
			if len(now) == 0 {
				break
			}
			if !sleep(ctx, 3*time.Second) { // a worker holds rollups back for up to 10 s
				return nil, ctx.Err()
			}
		}
		out = append(out, now...)
	}
	return out, nil
}

func lookAtRollup(ctx context.Context, conn driver.Conn, raw, rollup *table.Table, of Scope) (out []RollupReport, err error) {
	var r RollupReport
	var day int32
	having := of.days(raw, "day")
	sql := fmt.Sprintf(`SELECT owner, id, sum(calls) AS calls, sum(counted) AS counted, toInt64(sum(ns)) - toInt64(sum(total)) AS short,
    min(first) AS day
FROM (SELECT toString(tenant) AS owner, toString(session_id) AS id, count() AS calls, sum(duration_ns) AS ns, toUInt64(0) AS counted,
        toUInt64(0) AS total, toInt32(toUInt16(min(toDate(received_at)))) AS first,
        toUInt8(min(toDate(received_at) + retention_days) <= today() + 1) AS old
    FROM %[1]s WHERE 1%[3]s GROUP BY tenant, session_id
    UNION ALL SELECT toString(tenant), toString(session_id), 0, 0, sum(calls), sum(total_ns), toInt32(2147483647), toUInt8(0)
    FROM %[2]s WHERE 1%[3]s GROUP BY tenant, session_id)
GROUP BY owner, id HAVING calls > 0 AND max(old) = 0 AND (calls > counted OR calls = counted AND short != 0)%[4]s
ORDER BY owner, day, id LIMIT %[5]d`, raw.Name, rollup.Name, of.tenant(), having, maxRollupReports)
	err = each(ctx, conn, sql, []any{&r.Tenant, &r.Session, &r.Calls, &r.Counted, &r.Short, &day}, func() {
		r.Raw, r.Rollup, r.Day = raw.Name, rollup.Name, time.Unix(int64(day)*86400, 0).UTC().Format(time.DateOnly)
		out = append(out, r)
	})
	return out, err
}

package sink

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// # Lines of cubins do not expire under samples
//
// An agent that was told that a cubin is stored does not offer it again, so its rows are renewed while samples of it come: they are
// written again as received today. The sink that holds lane 0 looks some times a day. Two that both think so, or one that is killed in
// between, write rows twice: they are equal, the tables merge them, and views take any of them.
//
//   - Of a cubin, its lines are written first and its own row last. That row says whether it is due, so what was cut short is done again.
//   - Renewed rows keep rows_partition and chunk. So a deletion takes them like the others, also one that is bounded. A deletion that runs
//     while rows are renewed may miss them; it looks again when no statement of that time can be running (lookAgainAfter).
//   - A span is verified by the largest chunk number of a ClickHouse partition, and a copy must not answer for a block that is not
//     inserted. So only rows that are some days old are copied: their span is inserted.
//   - The ledger says what will be written before it is, under a lane of its own: these tables may have fewer rows than it knows, not more.

const (
	// renewEvery is how often it is looked for cubins that are due.
	renewEvery = 6 * time.Hour
	// renewBefore is how many days before they expire rows are renewed, and how long ago the last sample may be.
	renewBefore = 30
	// renewalLane is what the ledger has for renewed rows; no lane has this number.
	renewalLane = 1<<16 - 1
	// maxRenewals bounds the cubins that one look renews; the others are due at the next.
	maxRenewals = 10_000
)

// renewed are the tables of cubins, in the order in which they are written.
var renewed = []*table.Table{table.CubinLines.Table, table.CubinFunctions.Table, table.Cubins.Table}

// dueCubin is a cubin whose rows expire soon and that samples name.
type dueCubin struct {
	tenant, session, buildID string
	whole                    uint8
	retentionDays            uint16
	partition                uint16 // of ROWS, that brought the rows
	chunk                    uint64
}

// keepCubins renews what is due until ctx ends.
func (k *Sink) keepCubins(ctx context.Context) {
	wait := time.Minute
	for sleep(ctx, wait) {
		k.mu.Lock()
		mine := k.lanes[0] != nil
		k.mu.Unlock()
		wait = time.Minute
		if !mine {
			continue
		}
		n, err := k.RenewCubins(ctx, time.Now())
		if n > 0 {
			k.log.Info("rows of cubins that samples still name were renewed", "cubins", n)
		}
		if err != nil && ctx.Err() == nil {
			k.log.Warn("rows of cubins could not be renewed, it is tried again", "err", err)
			continue
		}
		wait = renewEvery
	}
}

// RenewCubins writes the rows of cubins that samples of the last 30 days name, and that expire within 30 days of now (within half of their
// time, where that is shorter), as if they had come today. It returns how many cubins that were. It may be called any number of times, by
// any number of sinks.
func (k *Sink) RenewCubins(ctx context.Context, now time.Time) (n int, err error) {
	if !k.has(table.Cubins.Table) {
		return 0, nil
	}
	due, err := k.dueCubins(ctx, now)
	if err != nil {
		return 0, err
	}
	for i := range due {
		if err := k.renewCubin(ctx, &due[i], now); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// has reports whether the service has a table: one without the source of it does not.
func (k *Sink) has(t *table.Table) bool { return slices.Contains(k.cfg.Schema.Tables(), t) }

// dueCubins lists what is to be renewed.
func (k *Sink) dueCubins(ctx context.Context, now time.Time) ([]dueCubin, error) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	db, today := name(k.cfg.Database), table.DayOf(now.UnixNano())
	rows, err := k.native.Query(ctx, fmt.Sprintf(`
SELECT tenant, session_id, build_id, whole, retention_days, rows_partition, chunk FROM (
    SELECT tenant, session_id, build_id, whole, argMax(retention_days, received_day) AS retention_days,
        argMax(rows_partition, received_day) AS rows_partition, argMax(chunk, received_day) AS chunk,
        toInt32(toUInt16(max(received_day))) AS day
    FROM %[1]s.cubins_data GROUP BY tenant, session_id, build_id, whole)
WHERE day + retention_days > %[2]d AND day + retention_days <= %[2]d + least(%[3]d, intDiv(retention_days, 2))
    AND day < %[2]d - if(retention_days > 7, 2, 0)
    AND (tenant, build_id) IN (SELECT toString(tenant), toString(build_id) FROM %[1]s.pc_cubins_data
        WHERE received_day >= toDate(%[2]d - %[3]d) AND build_id != '')
ORDER BY day, tenant, build_id, whole LIMIT %[4]d`, db, today, renewBefore, maxRenewals))
	if err != nil {
		return nil, fmt.Errorf("look for cubins that expire: %w", err)
	}
	defer rows.Close()
	var due []dueCubin
	for rows.Next() {
		var d dueCubin
		if err := rows.Scan(&d.tenant, &d.session, &d.buildID, &d.whole, &d.retentionDays, &d.partition, &d.chunk); err != nil {
			return nil, fmt.Errorf("look for cubins that expire: %w", err)
		}
		due = append(due, d)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("look for cubins that expire: %w", err)
	}
	return due, nil
}

func (k *Sink) renewCubin(ctx context.Context, d *dueCubin, now time.Time) error {
	for _, t := range renewed {
		if t == table.Cubins.Table {
			if err := k.keepRecord(ctx, d, now); err != nil {
				return err
			}
			if err := k.stepRenewal("cubin"); err != nil {
				return err
			}
		}
		if err := k.renewRows(ctx, t, d, now); err != nil {
			return err
		}
	}
	return nil
}

// renewRows writes the rows of one table again. An earlier copy is not read twice: FINAL has one row of each key.
func (k *Sink) renewRows(ctx context.Context, t *table.Table, d *dueCubin, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	at := name(k.cfg.Database) + "." + name(t.Name)
	where := fmt.Sprintf("tenant = %s AND session_id = %s AND build_id = %s AND whole = %d AND rows_partition = %d AND chunk = %d",
		table.Quote(d.tenant), table.Quote(d.session), table.Quote(d.buildID), d.whole, d.partition, d.chunk)
	var rows uint64
	if err := k.native.QueryRow(ctx, "SELECT count() FROM "+at+" FINAL WHERE "+where).Scan(&rows); err != nil {
		return fmt.Errorf("count rows of a cubin in %s: %w", t.Name, err)
	}
	if rows == 0 {
		return nil
	}
	today := table.DayOf(now.UnixNano())
	columns, values := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i := range t.Columns {
		columns[i] = name(t.Columns[i].Name)
		values[i] = columns[i]
		if t.Columns[i].Name == "received_day" {
			values[i] = fmt.Sprintf("toDate(%d)", today)
		}
	}
	if err := k.noteRenewal(ctx, t, d, rows, today, now); err != nil {
		return err
	}
	if err := k.stepRenewal(t.Name); err != nil {
		return err
	}
	// Not deduplicated: the same rows may have been written today and have been deleted since.
	sql := fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %s FINAL WHERE %s SETTINGS insert_deduplicate = 0, max_execution_time = %d", at,
		strings.Join(columns, ", "), strings.Join(values, ", "), at, where, int(insertTimeout/time.Second))
	if err := k.native.Exec(ctx, sql); err != nil {
		return fmt.Errorf("renew rows of a cubin in %s: %w", t.Name, err)
	}
	return nil
}

// noteRenewal tells the ledger how many rows come.
func (k *Sink) noteRenewal(ctx context.Context, t *table.Table, d *dueCubin, rows uint64, today int32, now time.Time) error {
	err := k.native.Exec(ctx, fmt.Sprintf("INSERT INTO %s.ledger (lane, first, last, table, rows, token, attempt, inserted_at, day, "+
		"retention_days, amount, counted) SELECT %d, 0, 0, %s, %d, %s, 0, fromUnixTimestamp64Nano(%d, 'UTC'), toDate(%d), %d, 0, 0 "+
		"SETTINGS insert_deduplicate = 0", name(k.cfg.Database), renewalLane, table.Quote(t.Name), rows,
		table.Quote("renewed "+d.tenant+" "+d.buildID), now.UnixNano(), table.MonthOf(today), d.retentionDays))
	if err != nil {
		return fmt.Errorf("write to the ledger which rows are renewed: %w", err)
	}
	return nil
}

// keepRecord moves the day until which the registry of cubins says that lines are there. A service without a registry has nothing to move.
func (k *Sink) keepRecord(ctx context.Context, d *dueCubin, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, natsTimeout)
	defer cancel()
	kv, err := k.s.JS.KeyValue(ctx, stream.CubinsBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open the registry of cubins: %w", err)
	}
	for {
		entry, err := kv.Get(ctx, stream.CubinKey(d.tenant, d.buildID))
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			return nil // deleted, or never recorded: the agent is asked for it
		}
		if err != nil {
			return fmt.Errorf("read the registry of cubins: %w", err)
		}
		var r stream.CubinRecord
		until := table.DayOf(now.UnixNano()) + int32(d.retentionDays)
		if r.Parse(entry.Value()) != nil || r.Declined || r.Whole != (d.whole == 1) || r.KeptUntilDay >= until {
			return nil
		}
		r.KeptUntilDay = until
		_, err = kv.Update(ctx, entry.Key(), r.Append(nil), entry.Revision())
		var api *jetstream.APIError
		if errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
			continue // another has written it: look again
		}
		if err != nil {
			return fmt.Errorf("write the registry of cubins: %w", err)
		}
		return nil
	}
}

// stepRenewal is where tests end a renewal as a crash would.
func (k *Sink) stepRenewal(step string) error {
	if k.step == nil {
		return nil
	}
	return k.step(renewalLane, "renew "+step)
}

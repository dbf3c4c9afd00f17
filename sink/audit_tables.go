package sink

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// TableReport compares the ledger with a table.
type TableReport struct {
	Table  string
	Ledger uint64 // rows that the ledger says were inserted, less those that it says were deleted
	Stored uint64 // rows that are there, fewer than in the ledger once some have merged or expired
	// Merges is true for tables that merge or replace rows: then not the rows are compared but the sums, if the table has some.
	Merges   bool
	Problems []string // empty when all is well; each names a partition
}

// written is what the ledger says of one ClickHouse partition of a table.
type written struct {
	rows, removed   uint64 // inserted, deleted
	renewed         uint64 // of rows, those of cubins that were to be written again: see renew.go
	amount          uint64 // of what is left; modulo 2^64
	counted         bool   // amount is known
	oldest, newest  time.Time
	stored, storedN uint64 // rows and amount in the table
}

// unplaced is the partition of ledger rows of older sinks, which did not say where rows went.
var unplaced = table.DayPartition{}

// settleTries is how often a difference is checked before it is believed: while the sink inserts, a table is ahead of its ledger by the
// span in flight, and each check sees another span.
const settleTries = 3

// auditTables compares every table with the ledger. A problem is reported when every check saw the same.
func auditTables(ctx context.Context, conn driver.Conn, schema *table.Schema) (out []TableReport, err error) {
	for try := 1; ; try++ {
		now, err := lookAtTables(ctx, conn, schema)
		if err != nil {
			return nil, err
		}
		wrong := 0
		for i := range now {
			t := &now[i]
			if at := slices.IndexFunc(out, func(old TableReport) bool { return old.Table == t.Table }); try > 1 {
				t.Problems = slices.DeleteFunc(t.Problems, func(p string) bool { return at < 0 || !slices.Contains(out[at].Problems, p) })
			}
			wrong += len(t.Problems)
		}
		out = now
		if wrong == 0 {
			return out, nil
		}
		if try >= settleTries {
			return out, whose(ctx, conn, schema, out)
		}
		if !sleep(ctx, 400*time.Millisecond) {
			return nil, ctx.Err()
		}
	}
}

func lookAtTables(ctx context.Context, conn driver.Conn, schema *table.Schema) (out []TableReport, err error) {
	book, err := readLedger(ctx, conn)
	if err != nil {
		return nil, err
	}
	today := table.DayOf(time.Now().UnixNano())
	for _, t := range schema.Tables() {
		parts := book[t.Name]
		if t.Retention == table.Static {
			continue
		}
		if parts == nil {
			parts = map[table.DayPartition]*written{}
		}
		if err := readHeld(ctx, conn, t, parts); err != nil {
			return nil, err
		}
		if len(parts) == 0 {
			continue
		}
		r := TableReport{Table: t.Name, Merges: !strings.HasPrefix(t.Engine, "MergeTree")}
		keys := make([]table.DayPartition, 0, len(parts))
		for p, w := range parts {
			keys = append(keys, p)
			r.Ledger += w.rows - min(w.rows, w.removed)
			r.Stored += w.stored
		}
		slices.SortFunc(keys, func(a, b table.DayPartition) int {
			return int(a.Day-b.Day)*1000 + int(a.RetentionDays) - int(b.RetentionDays)
		})
		old := parts[unplaced]
		for _, p := range keys {
			if p == unplaced {
				continue
			}
			if why := parts[p].problem(t, p, today, old != nil); why != "" {
				r.Problems = append(r.Problems, placeName(t, p)+": "+why)
			}
		}
		if old != nil {
			// What older sinks wrote is compared as a whole. The shortest retention class may be a day, and a class of which everything has
			// expired cannot be found any more.
			young := time.Since(old.oldest) < 24*time.Hour
			switch {
			case !r.Merges && r.Stored > r.Ledger && time.Since(old.oldest) < (ledgerDays-1)*24*time.Hour:
				r.Problems = append(r.Problems, fmt.Sprintf("%d rows more than the ledger knows", r.Stored-r.Ledger))
			case !r.Merges && r.Stored < r.Ledger && young:
				r.Problems = append(r.Problems, fmt.Sprintf("%d rows fewer than the ledger knows", r.Ledger-r.Stored))
			case r.Merges && r.Stored == 0 && old.rows > 0 && old.removed == 0 && young && t.LinkedBy == "":
				r.Problems = append(r.Problems, "it is empty, and the ledger says that rows were inserted")
			}
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b TableReport) int { return strings.Compare(a.Table, b.Table) })
	return out, nil
}

// problem says what is wrong with a ClickHouse partition, "" when nothing is. mixed says that rows of older sinks, which did not record
// where they went, may be in it too.
func (w *written) problem(t *table.Table, p table.DayPartition, today int32, mixed bool) string {
	if p.Day+max(int32(p.RetentionDays)-1, 1) <= today {
		return "" // rows may have expired
	}
	whole := !mixed && p.Day > today-(ledgerDays-2) // the ledger still has every row of it
	left := w.rows - min(w.rows, w.removed)
	switch {
	case !strings.HasPrefix(t.Engine, "MergeTree"):
		switch {
		case whole && t.AmountSQL() != "" && w.counted && w.storedN != w.amount:
			if short := int64(w.amount - w.storedN); short < 0 {
				return fmt.Sprintf("its sums are %d above what the ledger says", -short)
			}
			gone := ""
			if w.stored == 0 {
				gone = "it is empty: "
			}
			return fmt.Sprintf("%sits sums are %d short of what the ledger says", gone, w.amount-w.storedN)
		// A cubin may have been deleted after the ledger was told that its rows will be renewed, and before they were.
		case w.stored == 0 && w.rows > w.renewed && w.removed == 0 && t.LinkedBy == "":
			return fmt.Sprintf("it is empty, and the ledger says that %d rows were inserted", w.rows)
		case whole && w.stored > w.rows:
			return fmt.Sprintf("%d rows more than the ledger knows", w.stored-w.rows)
		}
	case w.stored < left:
		return fmt.Sprintf("%d rows fewer than the ledger knows", left-w.stored)
	case whole && w.stored > left:
		return fmt.Sprintf("%d rows more than the ledger knows", w.stored-left)
	}
	return ""
}

// placeName names a ClickHouse partition for people.
func placeName(t *table.Table, p table.DayPartition) string {
	day := time.Unix(int64(p.Day)*86400, 0).UTC()
	if t.Retention == table.Raw {
		return fmt.Sprintf("received on %s, kept %d days", day.Format(time.DateOnly), p.RetentionDays)
	}
	return fmt.Sprintf("received in %s, kept %d days", day.Format("2006-01"), p.RetentionDays)
}

func readLedger(ctx context.Context, conn driver.Conn) (map[string]map[table.DayPartition]*written, error) {
	rows, err := conn.Query(ctx, `SELECT toString(table), toInt32(toUInt16(day)) AS d, retention_days, sumIf(rows, token != '`+erasedToken+
		`'), sumIf(rows, token = '`+erasedToken+`'),
		sumIf(amount, token != '`+erasedToken+`') AS added, sumIf(amount, token = '`+erasedToken+
		`') AS taken, toUInt8(min(counted)), min(inserted_at), max(inserted_at),
		sumIf(rows, lane = `+strconv.Itoa(renewalLane)+`)
		FROM ledger WHERE table != '' GROUP BY table, d, retention_days`)
	if err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	defer rows.Close()
	out := map[string]map[table.DayPartition]*written{}
	for rows.Next() {
		var (
			name         string
			p            table.DayPartition
			w            written
			added, taken uint64
			counted      uint8
		)
		if err := rows.Scan(&name, &p.Day, &p.RetentionDays, &w.rows, &w.removed, &added, &taken, &counted, &w.oldest, &w.newest,
			&w.renewed); err != nil {
			return nil, fmt.Errorf("read the ledger: %w", err)
		}
		w.amount, w.counted = added-taken, counted == 1
		if out[name] == nil {
			out[name] = map[table.DayPartition]*written{}
		}
		out[name][p] = &w
	}
	return out, rows.Err()
}

// readHeld adds what the table has to written, by ClickHouse partition. The connection's database is Warpline's.
func readHeld(ctx context.Context, conn driver.Conn, t *table.Table, parts map[table.DayPartition]*written) error {
	var database string
	if err := conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&database); err != nil {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	rows, err := conn.Query(ctx, t.HeldSQL(table.Options{Database: database}, ""))
	if err != nil {
		return fmt.Errorf("read %s: %w", t.Name, err)
	}
	defer rows.Close()
	for rows.Next() {
		var p table.DayPartition
		var n, amount uint64
		if err := rows.Scan(&p.Day, &p.RetentionDays, &n, &amount); err != nil {
			return fmt.Errorf("read %s: %w", t.Name, err)
		}
		w := parts[p]
		if w == nil {
			w = &written{counted: true}
			parts[p] = w
		}
		w.stored, w.storedN = n, amount
	}
	return rows.Err()
}

// mendTables is what a person can do about a table that has lost rows.
const mendTables = "warpline replay brings back what ROWS still holds, of the ledger too; else put that partition back from a backup, or " +
	"delete the sessions of that time (warpline session delete) and send them again"

// whose adds to each problem which tenants it concerns, as far as other tables show that, and what can be done.
func whose(ctx context.Context, conn driver.Conn, schema *table.Schema, reports []TableReport) error {
	for i := range reports {
		r := &reports[i]
		t := schema.Table(r.Table)
		if len(r.Problems) == 0 || t == nil || t.Column("tenant") == nil {
			continue
		}
		from, day := "usage_data", "day"
		if t == table.Usage.Table {
			from, day = "sessions_data", "received_day"
		}
		none, err := tenants(ctx, conn, fmt.Sprintf("SELECT DISTINCT toString(tenant) AS x FROM %s WHERE toStartOfMonth(%s) >= (SELECT "+
			"toStartOfMonth(min(inserted_at)) FROM ledger WHERE table = '%s') AND tenant NOT IN (SELECT tenant FROM %s)", from, day, r.Table,
			name(r.Table)))
		if err != nil {
			return err
		}
		off, err := tenants(ctx, conn, kernelsOff[r.Table])
		if err != nil {
			return err
		}
		said := ""
		if none != "" {
			said += "; it has no row of these tenants, which sent data: " + none
		}
		if off != "" {
			said += "; its kernels differ from those of other tables for tenant " + off
		}
		if said == "" {
			all, err := tenants(ctx, conn, fmt.Sprintf("SELECT DISTINCT toString(tenant) AS x FROM %s", from))
			if err != nil {
				return err
			}
			said = "; tenants that sent data: " + all
		}
		for n := range r.Problems {
			r.Problems[n] += said + ": " + mendTables
		}
	}
	return nil
}

// kernelsOff finds tenants whose numbers of kernels differ between two tables: both count each kernel once, and are written together.
var kernelsOff = func() map[string]string {
	const calls, sessions = "SELECT tenant, sum(calls) AS n FROM kernel_stats_data GROUP BY tenant",
		"SELECT tenant, sum(kernels) AS n FROM sessions_data GROUP BY tenant"
	sql := "SELECT toString(tenant) AS x FROM (SELECT tenant, groupUniqArray(n) AS ns, count() AS c FROM (" + calls + " UNION ALL " +
		sessions + ") WHERE n > 0 GROUP BY tenant) WHERE length(ns) > 1 OR c = 1"
	return map[string]string{"kernel_stats_data": sql, "sessions_data": sql}
}()

// tenants lists the tenants that a query finds, "" when it finds none or when there is no query.
func tenants(ctx context.Context, conn driver.Conn, sql string) (string, error) {
	if sql == "" {
		return "", nil
	}
	const most = 10
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT x FROM (%s) ORDER BY x LIMIT %d", sql, most+1))
	if err != nil {
		return "", fmt.Errorf("look for tenants: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			return "", fmt.Errorf("look for tenants: %w", err)
		}
		names = append(names, n)
	}
	if len(names) > most {
		names[most] = "…"
	}
	return strings.Join(names, ", "), rows.Err()
}

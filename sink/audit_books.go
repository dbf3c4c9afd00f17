package sink

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// Scope says what of the books is looked at; its zero value is all.
type Scope struct {
	Tenant   string // "" is all tenants
	From, To int32  // days of arrival, both included, since the epoch; 0: no bound
}

// BookReport compares what a tenant was given of a table on a day with what the table has of it.
type BookReport struct {
	Tenant string
	Table  string
	Day    string // of arrival; of tables that are kept by month, the month
	// Given is how many rows the workers wrote, Deleted how many of them deletions took, and Stored how many are there: fewer in a table
	// that merges rows, where sums are compared.
	Given, Deleted, Stored uint64
	Merges                 bool
	Problem                string `json:",omitempty"` // "" when all is well
}

// String says what is wrong, where, and what mends it.
func (b BookReport) String() string {
	return fmt.Sprintf("tenant %s, table %s, received in %s: %s: %s", b.Tenant, b.Table, b.Day, b.Problem, b.mend())
}

// mend is what a person can do about it.
func (b BookReport) mend() string {
	if strings.Contains(b.Problem, "above") || strings.Contains(b.Problem, "more") {
		return "delete that tenant's sessions of that time (warpline session delete) and send them again"
	}
	from, to := b.Day, b.Day
	if day, err := time.Parse("2006-01", b.Day); err == nil {
		from, to = day.Format(time.DateOnly), day.AddDate(0, 1, -1).Format(time.DateOnly)
	}
	return fmt.Sprintf("warpline replay --tenant %s --table %s --from %s --to %s", b.Tenant, b.Table, from, to)
}

// days is the condition that a day lies in the scope; day is an expression (Int32), of tables kept by month that of its first.
func (s Scope) days(t *table.Table, day string) string {
	from, to := s.From, s.To
	if t != nil && t.Retention != table.Raw && from > 0 {
		from = table.MonthOf(from)
	}
	where := ""
	if from > 0 {
		where += fmt.Sprintf(" AND %s >= %d", day, from)
	}
	if to > 0 {
		where += fmt.Sprintf(" AND %s <= %d", day, to)
	}
	return where
}

// tenant is the condition that a row is of the scope's tenant.
func (s Scope) tenant() string {
	if s.Tenant == "" {
		return ""
	}
	return " AND tenant = " + table.Quote(s.Tenant)
}

// held is the condition on rows of a table.
func (s Scope) held(t *table.Table) string { return "1" + s.tenant() + s.days(t, t.DaySQL()) }

// kept is what the books say of one tenant's rows of a day, and what is there.
type kept struct {
	given, deleted, stored                   uint64
	givenAmount, deletedAmount, storedAmount uint64
	shortest                                 uint16 // retention class
}

type keptKey struct {
	tenant string
	day    int32
}

// AuditBooks compares what the workers say that each tenant was given, by table and day, with the tables. conn's database is Warpline's. It
// holds one table's days and tenants in memory at a time. A difference is believed when three looks see the same.
func AuditBooks(ctx context.Context, conn driver.Conn, schema *table.Schema, of Scope) (out []BookReport, err error) {
	unbooked, err := unbookedUntil(ctx, conn)
	if err != nil {
		return nil, err
	}
	in, err := tablesInBooks(ctx, conn)
	if err != nil {
		return nil, err
	}
	for _, t := range schema.Tables() {
		if t.Retention == table.Static || t.Column("tenant") == nil || t == table.Books.Table || t.Lasting {
			continue
		}
		var now []BookReport
		for try := 1; ; try++ {
			before := now
			now, err = lookAtBooks(ctx, conn, t, of, unbooked, in)
			if err != nil {
				return nil, fmt.Errorf("books of %s: %w", t.Name, err)
			}
			wrong := 0
			for i := range now {
				if try > 1 && !slices.Contains(before, now[i]) {
					now[i].Problem = "" // rows are coming, or it was seen half done
				}
				if now[i].Problem != "" {
					wrong++
				}
			}
			if wrong == 0 || try >= settleTries {
				break
			}
			if !sleep(ctx, 400*time.Millisecond) {
				return nil, ctx.Err()
			}
			if in, err = tablesInBooks(ctx, conn); err != nil { // more may be there by now
				return nil, err
			}
		}
		out = append(out, now...)
	}
	return out, nil
}

// unbookedUntil is when the ledger last got a range whose worker did not write books, as those of older versions do not; the zero time when
// it has none.
func unbookedUntil(ctx context.Context, conn driver.Conn) (time.Time, error) {
	var n uint64
	var last time.Time
	err := conn.QueryRow(ctx, fmt.Sprintf("SELECT count(), max(at) FROM (SELECT max(inserted_at) AS at FROM ledger WHERE lane != %d GROUP BY "+
		"lane, first, last HAVING countIf(table = '%s') = 0 AND countIf(table NOT IN ('', '%[2]s') AND token != '%[3]s') > 0)", renewalLane,
		table.Books.Name, erasedToken)).Scan(&n, &last)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the ledger: %w", err)
	}
	if n == 0 {
		return time.Time{}, nil
	}
	return last, nil
}

// booked says of which tables there is something in the books, and of which rows were deleted or moved to another class, so that an audit
// asks no more of a table than it has to.
type booked struct {
	database       string
	given, deleted map[string]bool
}

func tablesInBooks(ctx context.Context, conn driver.Conn) (in booked, err error) {
	in.given, in.deleted = map[string]bool{}, map[string]bool{}
	var name string
	if err := each(ctx, conn, "SELECT DISTINCT toString(table) FROM books_data", []any{&name}, func() { in.given[name] = true }); err != nil {
		return in, fmt.Errorf("read the books: %w", err)
	}
	if err := each(ctx, conn, fmt.Sprintf("SELECT DISTINCT toString(table) FROM ledger WHERE token = '%s' OR startsWith(token, 'retained ')",
		erasedToken), []any{&name}, func() { in.deleted[name] = true }); err != nil {
		return in, fmt.Errorf("read the ledger: %w", err)
	}
	return in, conn.QueryRow(ctx, "SELECT currentDatabase()").Scan(&in.database)
}

func lookAtBooks(ctx context.Context, conn driver.Conn, t *table.Table, of Scope, unbooked time.Time, in booked) ([]BookReport, error) {
	all := map[keptKey]*kept{}
	at := func(tenant string, day int32) *kept {
		k := all[keptKey{tenant, day}]
		if k == nil {
			k = &kept{shortest: 1<<16 - 1}
			all[keptKey{tenant, day}] = k
		}
		return k
	}
	var tenant string
	var day int32
	var class uint16
	var rows, amount uint64
	to := []any{&tenant, &day, &class, &rows, &amount}
	days := of.days(t, "toInt32(toUInt16(day))")
	if in.given[t.Name] {
		err := each(ctx, conn, fmt.Sprintf("SELECT toString(tenant) AS owner, toInt32(toUInt16(day)) AS d, min(kept), sum(rows), sum(amount) "+
			"FROM books_data WHERE table = '%s'%s%s GROUP BY owner, d", t.Name, of.tenant(), days), to, func() {
			k := at(tenant, day)
			k.given, k.givenAmount, k.shortest = rows, amount, min(k.shortest, class)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := each(ctx, conn, t.HeldByTenantSQL(table.Options{Database: in.database}, of.held(t)), to, func() {
		k := at(tenant, day)
		k.stored, k.storedAmount, k.shortest = k.stored+rows, k.storedAmount+amount, min(k.shortest, class)
	}); err != nil {
		return nil, err
	}
	// A purge takes the tenant's books too: what was deleted before it is in neither. What was moved to another retention class is deleted
	// and comes again, save what has expired. The ledger has tenants as hashes.
	names := map[string]string{}
	for key := range all {
		names[ownerOf(key.tenant)] = key.tenant
	}
	who := "owner != ''"
	if of.Tenant != "" {
		who = "owner = " + table.Quote(ownerOf(of.Tenant))
	}
	purges := fmt.Sprintf("token = '%s' AND table = '%s' AND %s", erasedToken, table.Books.Name, who)
	if in.deleted[t.Name] {
		err := each(ctx, conn, fmt.Sprintf("SELECT toString(l.owner) AS whose, toInt32(toUInt16(l.day)) AS d, "+
			"toUInt16(min(l.retention_days)), toUInt64(greatest(sum(if(l.token = '%[3]s', 1, -1) * toInt64(l.rows)), 0)), "+
			"toUInt64(sumIf(l.amount, l.token = '%[3]s') - sumIf(l.amount, l.token != '%[3]s')) FROM ledger AS l LEFT JOIN ("+
			"SELECT lane, owner, max(inserted_at) AS at FROM ledger WHERE %[1]s GROUP BY lane, owner "+
			"UNION ALL SELECT toUInt16(arrayJoin([%[2]d, %[7]d])) AS lane, owner, at FROM ("+
			"SELECT owner, max(inserted_at) AS at FROM ledger WHERE %[1]s GROUP BY owner)"+
			") AS purge ON l.lane = purge.lane AND l.owner = purge.owner "+
			"WHERE (l.token = '%[3]s' OR startsWith(l.token, 'retained ')) AND l.%[6]s AND l.table = '%[4]s' AND l.inserted_at > purge.at%[5]s "+
			"GROUP BY whose, d", purges, dropLane, erasedToken, t.Name, of.days(t, "toInt32(toUInt16(l.day))"), who, renewalLane), to, func() {
			if name, ok := names[tenant]; ok {
				k := at(name, day)
				k.deleted, k.deletedAmount = rows, amount
			}
		})
		if err != nil {
			return nil, err
		}
	}
	today := table.DayOf(time.Now().UnixNano())
	out := make([]BookReport, 0, len(all))
	for key, k := range all {
		if key.day <= today-(ledgerDays-2) || key.day+max(int32(k.shortest)-1, 1) <= today {
			continue // rows, or the books, may have expired
		}
		whole := unbooked.IsZero() || key.day > table.DayOf(unbooked.UnixNano())
		r := BookReport{Tenant: key.tenant, Table: t.Name, Day: dayName(t, key.day), Given: k.given, Deleted: k.deleted, Stored: k.stored,
			Merges: !strings.HasPrefix(t.Engine, "MergeTree")}
		r.Problem = k.problem(t, whole)
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b BookReport) int { return strings.Compare(a.Tenant+"\x00"+a.Day, b.Tenant+"\x00"+b.Day) })
	return out, nil
}

// problem says what is wrong, "" when nothing is. whole says that every row was booked.
func (k *kept) problem(t *table.Table, whole bool) string {
	left := k.given - min(k.given, k.deleted)
	switch {
	case strings.HasPrefix(t.Engine, "MergeTree"):
		if k.stored < left {
			return fmt.Sprintf("%d rows fewer than it was given", left-k.stored)
		}
		if whole && k.stored > left {
			return fmt.Sprintf("%d rows more than it was given", k.stored-left)
		}
	case t.LinkedBy != "":
	case k.stored == 0 && left > 0 && k.deleted == 0:
		return fmt.Sprintf("no row is left of the %d that it was given", left)
	case whole && t.AmountSQL() != "":
		if short := int64(k.givenAmount - k.deletedAmount - k.storedAmount); short > 0 {
			return fmt.Sprintf("its sums are %d short of what it was given", short)
		} else if short < 0 {
			return fmt.Sprintf("its sums are %d above what it was given", -short)
		}
	}
	return ""
}

// each reads a query's rows into to and calls f after each.
func each(ctx context.Context, conn driver.Conn, sql string, to []any, f func()) error {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return err
		}
		f()
	}
	return rows.Err()
}

package sink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// own selects the rows of the lane: nobody else brings or deletes such.
func (m *mover) own() string {
	var of []string
	for p := range m.l.k.s.Partitions {
		if stream.Lane(p, m.l.k.s.Lanes) == m.l.n {
			of = append(of, fmt.Sprint(p))
		}
	}
	return fmt.Sprintf("tenant = %s AND rows_partition %% %d IN (%s)", table.Quote(m.r.Tenant), m.l.k.s.Partitions, strings.Join(of, ", "))
}

// bounded selects those of chunks that were there when moving began: what comes later in an old class does not keep it from an end.
func (m *mover) bounded() string {
	or := []string{"0"}
	for p, chunk := range m.progress.Bounds {
		or = append(or, fmt.Sprintf("rows_partition %% %d = %d AND chunk <= %d", m.l.k.s.Partitions, p, chunk))
	}
	return "(" + strings.Join(or, " OR ") + ")"
}

// of selects those of a unit that are, or are to be, in a ClickHouse partition of so many days.
func (m *mover) of(t *table.Table, u *stream.RetainUnit, days uint16) string {
	return fmt.Sprintf("%s AND retention_days = %d AND %s = %d", m.own(), days, t.DaySQL(), u.Day)
}

// staysSQL selects rows that do not expire today, if they are kept so long from their day.
func staysSQL(t *table.Table, today int32, days uint16) string {
	day := "received_day"
	if t.Retention == table.Raw {
		day = "toDate(received_at)"
	}
	return fmt.Sprintf("toInt32(toUInt16(%s)) + %d > %d", day, days, today)
}

// leaves selects what leaves the old ClickHouse partition: what is about to expire there is left alone. comes selects what is copied.
func (m *mover) leaves(t *table.Table, u *stream.RetainUnit) string {
	return m.of(t, u, u.From) + " AND " + staysSQL(t, u.Today, u.From)
}

func (m *mover) comes(t *table.Table, u *stream.RetainUnit) string {
	return m.leaves(t, u) + " AND " + staysSQL(t, u.Today, u.To)
}

// next returns a unit of a table, nil if there is none.
func (m *mover) next(ctx context.Context, t *table.Table, to uint16) (*stream.RetainUnit, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	today := table.DayOf(time.Now().UnixNano())
	day := "toInt32(toUInt16(received_day))"
	if t.Retention == table.Raw {
		day = "toInt32(toUInt16(toDate(received_at)))"
	}
	rows, err := m.l.k.native.Query(ctx, t.HeldSQL(m.l.k.options(), fmt.Sprintf("%s AND %s AND retention_days != %d AND "+
		"%s + retention_days > %d", m.own(), m.bounded(), to, day, today)))
	if err != nil {
		return nil, fmt.Errorf("look for rows of %s: %w", t.Name, err)
	}
	defer rows.Close()
	var u *stream.RetainUnit
	for rows.Next() && u == nil {
		u = &stream.RetainUnit{Table: t.Name, To: to, Today: today, Nonce: rand.Uint64() | 1}
		if err := rows.Scan(&u.Day, &u.From, &u.Rows, &u.Amount); err != nil {
			return nil, fmt.Errorf("look for rows of %s: %w", t.Name, err)
		}
	}
	return u, rows.Err()
}

// held counts rows of a table, which may be a copy's, and their amount.
func (m *mover) held(ctx context.Context, t *table.Table, from, where string) (rows, amount uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	sum := t.AmountSQL()
	if sum == "" {
		sum = "toUInt64(0)"
	}
	if err := m.l.k.native.QueryRow(ctx, fmt.Sprintf("SELECT count(), %s FROM %s.%s WHERE %s", sum, name(m.l.k.cfg.Database), name(from),
		where)).Scan(&rows, &amount); err != nil {
		return 0, 0, fmt.Errorf("count rows of %s: %w", from, err)
	}
	return rows, amount, nil
}

// move carries a unit out from its begin.
func (m *mover) move(ctx context.Context, t *table.Table) error {
	u := m.progress.Unit
	var err error
	if u.Rows, u.Amount, err = m.held(ctx, t, t.Name, m.leaves(t, u)); err != nil {
		return err
	}
	if u.Before, u.BeforeAmount, err = m.there(ctx, t); err != nil {
		return err
	}
	copied, err := m.copyRows(ctx, t)
	if err != nil {
		return err
	}
	if err := m.record(ctx); err != nil {
		return err
	}
	return m.finish(ctx, t, copied)
}

// record makes the unit known to successors, even after a power cut.
func (m *mover) record(ctx context.Context) error {
	if err := m.l.step("retain copied"); err != nil {
		return err
	}
	m.recorded = true // or nobody knows
	if err := m.write(ctx); err != nil {
		return err
	}
	if err := m.l.durable(ctx); err != nil {
		return err
	}
	return m.l.step("retain recorded")
}

// there is what the new ClickHouse partition has of the rows that may be moved.
func (m *mover) there(ctx context.Context, t *table.Table) (rows, amount uint64, err error) {
	u := m.progress.Unit
	return m.held(ctx, t, t.Name, m.of(t, u, u.To)+" AND "+staysSQL(t, u.Today, u.To))
}

// resume finishes a unit that somebody began, who may still be about to attach it.
func (m *mover) resume(ctx context.Context) error {
	u := m.progress.Unit
	t := m.l.k.cfg.Schema.Table(u.Table)
	if t == nil {
		return fmt.Errorf("table %s is not known here: run the version that began to move its rows", u.Table)
	}
	if err := m.dropCopies(ctx); err != nil {
		return err
	}
	attached, err := m.attached(ctx, t)
	if err != nil {
		return err
	}
	copied := ""
	if !attached {
		was := *u
		if copied, err = m.copyRows(ctx, t); err != nil {
			return err
		}
		if u.CopiedAmount != was.CopiedAmount || !merges(t) && u.Copied != was.Copied {
			return fmt.Errorf("%w: %d rows of %s were to be moved, and there are %d", errChanged, was.Copied, t.Name, u.Copied)
		}
	}
	return m.finish(ctx, t, copied)
}

// merges reports whether ClickHouse makes fewer rows of a table's.
func merges(t *table.Table) bool { return !strings.HasPrefix(t.Engine, "MergeTree") }

// attached reports whether the unit's rows are in the new ClickHouse partition.
func (m *mover) attached(ctx context.Context, t *table.Table) (bool, error) {
	u := m.progress.Unit
	if u.Copied == 0 {
		return true, nil
	}
	if t.Retention == table.Raw && u.Day+int32(u.To) <= table.DayOf(time.Now().UnixNano()) {
		return true, nil // or gone by now
	}
	rows, amount, err := m.there(ctx, t)
	switch {
	case err != nil:
		return false, err
	case merges(t) && (t.AmountSQL() == "" || u.CopiedAmount == 0):
		// Merges make fewer rows, and nothing but the copy makes more. Once more does no harm, and makes no more than the ledger knows.
		return rows > u.Before, nil
	}
	before, came := u.Before, u.Copied
	if merges(t) {
		rows, before, came = amount, u.BeforeAmount, u.CopiedAmount
	}
	switch rows {
	case before:
		return false, nil
	case before + came:
		return true, nil
	}
	return false, fmt.Errorf("%w: it cannot be told whether rows of %s were moved: there are %d, were %d, and %d were to come", errChanged,
		t.Name, rows, before, came)
}

func (m *mover) copyPrefix() string { return fmt.Sprintf("retain_%d_", m.l.n) }

// dropCopies drops tables of copies, also those of others, and waits for what reads them.
func (m *mover) dropCopies(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	k := m.l.k
	rows, err := k.native.Query(ctx, "SELECT name FROM system.tables WHERE database = ? AND startsWith(name, ?)", k.cfg.Database,
		m.copyPrefix())
	if err != nil {
		return fmt.Errorf("list tables of copies: %w", err)
	}
	var all []string
	for rows.Next() {
		var n string
		if err = rows.Scan(&n); err != nil {
			break
		}
		all = append(all, n)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		return fmt.Errorf("list tables of copies: %w", err)
	}
	for _, n := range all {
		if err := k.native.Exec(ctx, fmt.Sprintf("DROP TABLE IF EXISTS %s.%s SYNC", name(k.cfg.Database), name(n))); err != nil {
			return fmt.Errorf("drop the table of a copy: %w", err)
		}
	}
	return nil
}

// copyRows copies the unit's rows into a table of their own, and returns its name, "" where there is nothing to copy.
func (m *mover) copyRows(ctx context.Context, t *table.Table) (string, error) {
	u, k := m.progress.Unit, m.l.k
	n, amount, err := m.held(ctx, t, t.Name, m.comes(t, u))
	if err != nil {
		return "", err
	}
	if u.Copied, u.CopiedAmount = n, amount; n == 0 {
		return "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, copyTimeout)
	defer cancel()
	db, to := name(k.cfg.Database), m.copyPrefix()+broker.NewID()
	if err := k.native.Exec(ctx, fmt.Sprintf("CREATE TABLE %s.%s AS %s.%s", db, name(to), db, name(t.Name))); err != nil {
		return "", fmt.Errorf("make a table for a copy: %w", err)
	}
	columns, values := make([]string, len(t.Columns)), make([]string, len(t.Columns))
	for i := range t.Columns {
		columns[i] = name(t.Columns[i].Name)
		values[i] = columns[i]
		if t.Columns[i].Name == "retention_days" {
			values[i] = fmt.Sprintf("toUInt16(%d)", u.To)
		}
	}
	if err := k.native.Exec(ctx, fmt.Sprintf("INSERT INTO %[1]s.%[2]s (%[3]s) SELECT %[4]s FROM %[1]s.%[5]s WHERE %[6]s SETTINGS "+
		"insert_deduplicate = 0, prefer_column_name_to_alias = 1, max_execution_time = %[7]d", db, name(to), strings.Join(columns, ", "),
		strings.Join(values, ", "), name(t.Name), m.comes(t, u), int(copyTimeout/time.Second))); err != nil {
		return "", fmt.Errorf("copy rows of %s: %w", t.Name, err)
	}
	// One data part is attached whole or not at all, also when ClickHouse is killed.
	if err := k.native.Exec(ctx, fmt.Sprintf("OPTIMIZE TABLE %s.%s FINAL", db, name(to))); err != nil {
		return "", fmt.Errorf("make one data part of a copy of %s: %w", t.Name, err)
	}
	got, gotAmount, err := m.held(ctx, t, to, "1")
	if err != nil {
		return "", err
	}
	if gotAmount != amount || got != n && !merges(t) {
		return "", fmt.Errorf("%d rows of %s were copied, and there are %d", got, t.Name, n)
	}
	return to, nil
}

// finish attaches a copy, if there is one, deletes what it was made of, and tells the ledger.
func (m *mover) finish(ctx context.Context, t *table.Table, copied string) error {
	u, k := m.progress.Unit, m.l.k
	db := name(k.cfg.Database)
	if copied != "" {
		try, cancel := context.WithTimeout(ctx, queryTimeout)
		defer cancel()
		var id string
		var n uint64
		if err := k.native.QueryRow(try, "SELECT any(partition_id), count() FROM system.parts WHERE active AND database = ? AND table = ?",
			k.cfg.Database, copied).Scan(&id, &n); err != nil {
			return fmt.Errorf("look at a copy of %s: %w", t.Name, err)
		}
		if n != 1 {
			return fmt.Errorf("a copy of %s has %d data parts, and must have one: it is made anew", t.Name, n)
		}
		if err := k.native.Exec(try, fmt.Sprintf("ALTER TABLE %s.%s ATTACH PARTITION ID %s FROM %s.%s", db, name(t.Name), table.Quote(id), db,
			name(copied))); err != nil {
			return fmt.Errorf("attach a copy of %s: %w", t.Name, err)
		}
	}
	if err := m.l.step("retain attached"); err != nil {
		return err
	}
	if err := m.deleteOld(ctx, t); err != nil {
		return err
	}
	if err := m.l.step("retain deleted"); err != nil {
		return err
	}
	if err := m.book(ctx, t); err != nil {
		return err
	}
	if err := m.l.step("retain booked"); err != nil {
		return err
	}
	if m.progress.Moved == nil {
		m.progress.Moved = map[string]uint64{}
	}
	m.progress.Moved[t.Name] += u.Rows
	m.progress.Unit, m.progress.Why = nil, ""
	if err := m.write(ctx); err != nil {
		return err
	}
	return m.dropCopies(ctx)
}

// deleteOld deletes the rows that were copied, and waits until they are gone.
func (m *mover) deleteOld(ctx context.Context, t *table.Table) error {
	where := m.leaves(t, m.progress.Unit)
	for range 4 {
		if err := m.l.k.awaitMutations(ctx, time.Now().Add(insertTimeout)); err != nil {
			return err
		}
		n, _, err := m.held(ctx, t, t.Name, where)
		if err != nil || n == 0 {
			return err
		}
		try, cancel := context.WithTimeout(ctx, queryTimeout)
		err = m.l.k.native.Exec(try, fmt.Sprintf("ALTER TABLE %s.%s DELETE WHERE %s SETTINGS mutations_sync = 0", name(m.l.k.cfg.Database),
			name(t.Name), where))
		cancel()
		if err != nil {
			return fmt.Errorf("delete rows of %s that were copied: %w", t.Name, err)
		}
	}
	return errRewriting
}

// book tells the ledger, once, what left and what came.
func (m *mover) book(ctx context.Context, t *table.Table) error {
	u, k := m.progress.Unit, m.l.k
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var n uint64
	if err := k.native.QueryRow(ctx, fmt.Sprintf("SELECT count() FROM %s.ledger WHERE lane = %d AND first = %d", name(k.cfg.Database),
		renewalLane, u.Nonce)).Scan(&n); err != nil {
		return fmt.Errorf("look into the ledger: %w", err)
	}
	if n > 0 {
		return nil
	}
	counted := 0
	if t.AmountSQL() != "" {
		counted = 1
	}
	row := func(token string, days uint16, rows, amount uint64) string {
		return fmt.Sprintf("(%d, %d, %d, %s, %d, %s, 0, now64(9), toDate(%d), %d, %d, %d, %s)", renewalLane, u.Nonce, u.Nonce,
			table.Quote(t.Name), rows, table.Quote(token), u.Day, days, amount, counted, table.Quote(ownerOf(m.r.Tenant)))
	}
	rows := []string{row(erasedToken, u.From, u.Rows, u.Amount)}
	if u.Copied > 0 {
		rows = append(rows, row("retained "+m.r.Tenant, u.To, u.Copied, u.CopiedAmount))
	}
	if err := k.native.Exec(ctx, fmt.Sprintf("INSERT INTO %s.ledger (lane, first, last, table, rows, token, attempt, inserted_at, day, "+
		"retention_days, amount, counted, owner) SETTINGS insert_deduplication_token = 'retain-%d' VALUES %s", name(k.cfg.Database), u.Nonce,
		strings.Join(rows, ", "))); err != nil {
		return fmt.Errorf("write to the ledger what was moved: %w", err)
	}
	return nil
}

package table

import (
	"fmt"
	"strings"
)

// The amount of rows of a table that merges them is the sum of all that they add up, over all columns that are sums of whole numbers,
// modulo 2^64. Merges do not change it, and neither does the coarsening from minutes to hours, so the ledger can say at any time what must
// be there.

func (t *Table) amountColumns() (out []*Column) {
	for i := range t.Columns {
		if c := &t.Columns[i]; c.agg == "sum" && (c.Kind == U64 || c.Kind == I64) {
			out = append(out, c)
		}
	}
	return out
}

// Amount returns the amount of the batch's rows, nil when its table has none.
func (b *Batch) Amount() *uint64 {
	columns := b.table.amountColumns()
	if columns == nil {
		return nil
	}
	var n uint64
	for _, c := range columns {
		if c.Kind == I64 {
			for _, v := range b.i64[c.slot] {
				n += uint64(v)
			}
			continue
		}
		for _, v := range b.u64[c.slot] {
			n += v
		}
	}
	return &n
}

// AmountSQL returns an aggregate expression (UInt64) for the amount of the rows that it is applied to, "" when the table has none.
func (t *Table) AmountSQL() string {
	var sums []string
	for _, c := range t.amountColumns() {
		sums = append(sums, fmt.Sprintf("toUInt64(sum(%s))", ident(c.Name)))
	}
	return strings.Join(sums, " + ")
}

// Tally calls each with every tenant of the batch, how many rows it has, and what they add up to (0 when the table has no amount). It does
// nothing for a table without tenants.
func (b *Batch) Tally(each func(tenant string, rows, amount uint64)) {
	c := b.table.Column("tenant")
	if c == nil || c.Kind != Dict || b.Rows() == 0 {
		return
	}
	d := &b.dict[c.slot]
	if len(d.idx) != b.Rows() {
		return // a column was left out: see Mend
	}
	tenants := len(d.values.ends) - 1
	rows, amounts := make([]uint64, tenants), make([]uint64, tenants)
	if tenants == 1 {
		rows[0] = uint64(len(d.idx))
		if n := b.Amount(); n != nil {
			amounts[0] = *n
		}
	} else {
		for _, i := range d.idx {
			rows[i]++
		}
		for _, c := range b.table.amountColumns() {
			if c.Kind == I64 {
				for n, v := range b.i64[c.slot] {
					amounts[d.idx[n]] += uint64(v)
				}
				continue
			}
			for n, v := range b.u64[c.slot] {
				amounts[d.idx[n]] += v
			}
		}
	}
	for i, n := range rows {
		if n > 0 {
			each(string(d.values.data[d.values.ends[i]:d.values.ends[i+1]]), n, amounts[i])
		}
	}
}

// DaySQL returns an expression (Int32) for a row's DayPartition.Day.
func (t *Table) DaySQL() string {
	if t.Retention == Raw {
		return "toInt32(toUInt16(toDate(received_at)))"
	}
	return "toInt32(toUInt16(toStartOfMonth(received_day)))"
}

// HeldSQL returns a query for what a table has: one row (day Int32, retention_days UInt16, rows UInt64, amount UInt64) for each ClickHouse
// partition. where restricts it, "" does not.
func (t *Table) HeldSQL(o Options, where string) string {
	if where != "" {
		where = " WHERE " + where
	}
	amount := t.AmountSQL()
	if amount == "" {
		amount = "toUInt64(0)"
	}
	return fmt.Sprintf("SELECT %s AS day, retention_days, count() AS n, %s AS amount FROM %s.%s%s GROUP BY day, retention_days ORDER "+
		"BY day, retention_days",
		t.DaySQL(), amount, ident(o.database()), ident(t.Name), where)
}

// HeldByTenantSQL is HeldSQL by tenant too: one row (tenant String, day Int32, retention_days UInt16, rows UInt64, amount UInt64) for each.
// The table must have tenants.
func (t *Table) HeldByTenantSQL(o Options, where string) string {
	if where != "" {
		where = " WHERE " + where
	}
	amount := t.AmountSQL()
	if amount == "" {
		amount = "toUInt64(0)"
	}
	return fmt.Sprintf("SELECT toString(tenant) AS owner, %s AS day, retention_days, count() AS n, %s AS amount FROM %s.%s%s GROUP BY owner, "+
		"day, retention_days ORDER BY owner, day, retention_days", t.DaySQL(), amount, ident(o.database()), ident(t.Name), where)
}

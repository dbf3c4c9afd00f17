package table

import (
	"fmt"
	"strings"
)

// StoredRow is a row of Stored.
type StoredRow struct {
	Tenant      string
	Measurement uint64
	Day         int32
	Source      string
	RawBytes    uint64
	RollupBytes uint64
}

// Stored holds what the rows of each tenant take at rest, as the sink measured it last. Each measurement is a ClickHouse partition, so that
// it comes and goes as a whole; readers take the newest.
var Stored = DefineRows(Define("stored_data", Static, "tenant, day, source").PartitionedBy("measurement"),
	func(c *Binder[StoredRow], r *StoredRow) {
		c.Dict("tenant", &r.Tenant)
		c.U64("measurement", &r.Measurement, Note("when it was measured, ns since 1970; only rows of the largest count"))
		c.Day("day", &r.Day, Note("on which the rows came"))
		c.Dict("source", &r.Source, Note("'' where the books do not have the day any more"))
		c.U64("raw_bytes", &r.RawBytes, Note("at rest, of tables kept as --retention-days says"))
		c.U64("rollup_bytes", &r.RollupBytes, Note("at rest, of the others"))
	})

// PartitionedBy names the partition expression of a table that no retention class has.
func (t *Table) PartitionedBy(expression string) *Table {
	t.Partition = expression
	return t
}

// WeightSQL is an expression for how much room a row takes beside others of its table: its size before it is compressed.
func (t *Table) WeightSQL() string {
	var s strings.Builder
	fmt.Fprintf(&s, "toUInt64(%d)", t.width)
	for i := range t.Columns {
		if t.Columns[i].Kind == Str {
			fmt.Fprintf(&s, " + length(%s)", ident(t.Columns[i].Name))
		}
	}
	return s.String()
}

package table

import (
	"fmt"
	"strings"
)

// Links returns the table that says which sessions have a content of t, nil when t holds no contents.
func (t *Table) Links() *Table {
	switch t {
	case SourceLines.Table:
		return SessionSources.Table
	case SASSLines.Table, PTX.Table:
		return SessionFunctions.Table
	}
	return nil
}

// mine selects the rows of contents that a deletion may take once no session links to them: those that its own partition of ROWS brought, whose
// links are all inserted, and those of others that are too old for links to be on their way. Marks stay, see contentOrder.
func (d *Doomed) mine() string {
	return fmt.Sprintf("tenant = %s AND (content_hi != 0 OR content_lo != 0) AND (rows_partition %% %d = %d AND chunk <= %d OR received_day < today() - 1)",
		quote(d.Tenant), d.Partitions, d.Partition, d.Chunk)
}

// OrphansSQL returns a query for contents in t (content_hi and content_lo, UInt64) of d's tenant that no session links to any more, limit
// at most. t must have Links.
func (t *Table) OrphansSQL(o Options, d Doomed, limit int) string {
	return fmt.Sprintf("SELECT DISTINCT content_hi, content_lo FROM %[1]s.%[2]s WHERE %[3]s AND (content_hi, content_lo) NOT IN (SELECT content_hi, content_lo FROM %[1]s.%[4]s WHERE tenant = %[5]s) LIMIT %[6]d",
		ident(o.database()), ident(t.Name), d.mine(), ident(t.Links().Name), quote(d.Tenant), limit)
}

// DeleteOrphansSQL returns the statement that makes ClickHouse write t's parts anew without the contents that OrphansSQL found. It returns
// before that is done.
func (t *Table) DeleteOrphansSQL(o Options, d Doomed, contents [][2]uint64) string {
	list := make([]string, len(contents))
	for i, c := range contents {
		list[i] = fmt.Sprintf("(%d, %d)", c[0], c[1])
	}
	return fmt.Sprintf("ALTER TABLE %s.%s%s DELETE WHERE %s AND (content_hi, content_lo) IN (%s) SETTINGS mutations_sync = 0",
		ident(o.database()), ident(t.Name), o.onCluster(), d.mine(), strings.Join(list, ", "))
}

package table

import (
	"fmt"
	"strings"
)

// Contents to which no session of their tenant has a link are orphans: the last session that had them was deleted. They are found by what
// is there now, so a sink may be killed after it deleted links and before it deleted orphans, and several sinks may delete sessions that
// share contents at once: the last one finds all orphans.

// Content is the id of a content, as in [ContentID].
type Content struct{ Hi, Lo uint64 }

// MaxContents is how many contents a statement may name: with more it would not fit into a node of Keeper.
const MaxContents = 1 << 14

func (t *Table) orphans(o Options, tenant string) string {
	return fmt.Sprintf("tenant = %s AND (content_hi != 0 OR content_lo != 0) AND (content_hi, content_lo) NOT IN (%s)", Quote(tenant),
		t.LinkedSQL(o, tenant, nil))
}

// LinkedSQL returns a query for the contents of a table of contents to which sessions of the tenant have links; only those in among, if
// that is not nil.
func (t *Table) LinkedSQL(o Options, tenant string, among []Content) string {
	return fmt.Sprintf("SELECT content_hi, content_lo FROM %s.%s WHERE tenant = %s%s", ident(o.database()), ident(t.LinkedBy),
		Quote(tenant), inContents(among))
}

// OrphanRowsSQL returns a query for how many rows of orphans a table of contents has (UInt64).
func (t *Table) OrphanRowsSQL(o Options, tenant string) string {
	return fmt.Sprintf("SELECT count() FROM %s.%s WHERE %s", ident(o.database()), ident(t.Name), t.orphans(o, tenant))
}

// OrphansSQL returns a query for the contents that are orphans (two UInt64), MaxContents at most.
func (t *Table) OrphansSQL(o Options, tenant string) string {
	return fmt.Sprintf("SELECT DISTINCT content_hi, content_lo FROM %s.%s WHERE %s ORDER BY content_hi, content_lo LIMIT %d",
		ident(o.database()), ident(t.Name), t.orphans(o, tenant), MaxContents)
}

// DeleteOrphansSQL returns the statement that makes ClickHouse write t's data parts anew without orphans; only without those in among, if
// that is not nil. The statement returns before that is done.
//
// ClickHouse reads the links after it has decided which data parts the statement changes. A content in those parts is younger than its
// link, so a content that is being sent at this moment is not lost. Each replica reads the links by itself, so replicas must be allowed to
// get different answers; among keeps replicas that lag from deleting contents whose links they do not have yet.
func (t *Table) DeleteOrphansSQL(o Options, tenant string, among []Content) string {
	return fmt.Sprintf("ALTER TABLE %s.%s%s DELETE WHERE %s%s SETTINGS mutations_sync = 0, allow_nondeterministic_mutations = 1",
		ident(o.database()), ident(t.Name), o.onCluster(), t.orphans(o, tenant), inContents(among))
}

func inContents(among []Content) string {
	if among == nil {
		return ""
	}
	var s strings.Builder
	s.WriteString(" AND (content_hi, content_lo) IN (")
	for i, c := range among {
		if i > 0 {
			s.WriteString(", ")
		}
		fmt.Fprintf(&s, "(%d, %d)", c.Hi, c.Lo)
	}
	s.WriteString(")")
	return s.String()
}

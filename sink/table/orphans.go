package table

import (
	"fmt"
	"strings"
)

// Contents that no session of their tenant has a link to are orphans: the last session that had them was deleted. They are found by what
// is there, not by what was: whoever deletes links and then orphans may be killed in between, and others may do the same at once with
// sessions that share contents, the last one finds them all.

// Content is the id of a content, as in [ContentID].
type Content struct{ Hi, Lo uint64 }

// MaxContents is how many contents a statement may name: with more it would not fit into a node of Keeper.
const MaxContents = 1 << 14

func (t *Table) orphans(o Options, tenant string) string {
	return fmt.Sprintf("tenant = %s AND (content_hi != 0 OR content_lo != 0) AND (content_hi, content_lo) NOT IN (%s)", Quote(tenant),
		t.LinkedSQL(o, tenant, nil))
}

// LinkedSQL returns a query for the contents of a table of contents that sessions of the tenant have links to, of only those in among, if
// it is not nil.
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

// DeleteOrphansSQL returns the statement that makes ClickHouse write t's parts anew without orphans, without only those in among, if it is
// not nil. It returns before that is done.
//
// ClickHouse asks for the links after it has drawn the line between the parts that the statement changes and those that come later. A
// content before the line has had its link for longer than itself, so none is lost that is being sent at this moment. Replicas ask each for
// itself, for which they must be allowed to come to different answers; among keeps those that lag from taking what they do not know yet.
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

package table

import (
	"fmt"
	"strings"
)

// Doomed says which rows are to be deleted.
type Doomed struct {
	Tenant  string
	Session string // "" is all of the tenant
	// Bounded restricts it to rows that the ROWS partitions p with p mod Partitions = Partition brought up to Chunk. Rows of a stream with more
	// partitions, which was there before, are among them: chunk numbers rise from one stream to the next.
	Bounded               bool
	Partition, Partitions int
	Chunk                 uint64
}

// condition returns SQL that selects d's rows.
func (d *Doomed) condition() string {
	s := "tenant = " + quote(d.Tenant)
	if d.Session != "" {
		s += " AND session_id = " + quote(d.Session)
	}
	if d.Bounded {
		s += fmt.Sprintf(" AND rows_partition %% %d = %d AND chunk <= %d", d.Partitions, d.Partition, d.Chunk)
	}
	return s
}

// Holds reports whether rows of t can belong to d. Contents belong to the sessions that have links to them, see orphans.go.
func (t *Table) Holds(d *Doomed) bool {
	return t.Retention != Static && t.Column("tenant") != nil && (d.Session == "" || t.LinkedBy != "" || t.Column("session_id") != nil)
}

// condition returns SQL that selects d's rows in t; false when rows of t are not found by what they say of themselves. In a table of
// contents those are all but the marks: which partition brought a content says nothing about whose it is.
func (t *Table) condition(d *Doomed) (sql string, ok bool) {
	if !t.Holds(d) || t.LinkedBy != "" && d.Session != "" {
		return "", false
	}
	sql = d.condition()
	if t.LinkedBy != "" && d.Bounded {
		sql += " AND content_hi = 0 AND content_lo = 0"
	}
	return sql, true
}

// conditions returns what selects the rows of all of doomed in t, as few conditions as that takes, and by each which of doomed it is; several
// sessions of a tenant are one condition.
func (t *Table) conditions(doomed []Doomed) (out []selection) {
	byTenant := map[string]int{}
	for i := range doomed {
		d := &doomed[i]
		where, ok := t.condition(d)
		if !ok {
			continue
		}
		if d.Session == "" || d.Bounded {
			out = append(out, selection{where: where, of: []int{i}})
			continue
		}
		at, ok := byTenant[d.Tenant]
		if !ok {
			at = len(out)
			byTenant[d.Tenant] = at
			out = append(out, selection{tenant: d.Tenant})
		}
		out[at].of = append(out[at].of, i)
		out[at].sessions = append(out[at].sessions, quote(d.Session))
	}
	for i := range out {
		if s := &out[i]; s.where == "" {
			s.where = "tenant = " + quote(s.tenant) + " AND session_id IN (" + strings.Join(s.sessions, ", ") + ")"
		}
	}
	return out
}

// selection is one condition that selects rows of one of doomed, or of many sessions of one tenant.
type selection struct {
	where    string
	tenant   string
	of       []int
	sessions []string // quoted; nil: it selects all of the one
}

// DoomedSQL returns the condition that selects the rows of doomed in t, "" when t cannot have any, or none that can be told so.
func (t *Table) DoomedSQL(doomed []Doomed) string {
	var or []string
	for _, s := range t.conditions(doomed) {
		or = append(or, "("+s.where+")")
	}
	return strings.Join(or, " OR ")
}

// CountSQL returns a query with one row for each of doomed that has rows in t: its index (Int64) and how many rows (UInt64). A session that is
// named twice is counted once. It is "" when t cannot have any, or none that can be told so.
func (t *Table) CountSQL(o Options, doomed []Doomed) string {
	from := ident(o.database()) + "." + ident(t.Name)
	var parts []string
	for _, s := range t.conditions(doomed) {
		index := fmt.Sprintf("toInt64(%d)", s.of[0])
		if s.sessions != nil {
			of := make([]string, len(s.of))
			for i, n := range s.of {
				of[i] = fmt.Sprint(n)
			}
			index = fmt.Sprintf("toInt64([%s][indexOf([%s], toString(session_id))])", strings.Join(of, ", "), strings.Join(s.sessions, ", "))
		}
		parts = append(parts, fmt.Sprintf("SELECT %s AS i, count() AS n FROM %s WHERE %s GROUP BY i", index, from, s.where))
	}
	if parts == nil {
		return ""
	}
	return "SELECT i, n FROM (" + strings.Join(parts, " UNION ALL ") + ") WHERE n > 0"
}

// DeleteSQL returns the statement that makes ClickHouse write t's parts anew without the rows of doomed, "" when t cannot have any. It
// returns before that is done.
func (t *Table) DeleteSQL(o Options, doomed []Doomed) string {
	where := t.DoomedSQL(doomed)
	if where == "" {
		return ""
	}
	return fmt.Sprintf("ALTER TABLE %s.%s%s DELETE WHERE %s SETTINGS mutations_sync = 0", ident(o.database()), ident(t.Name), o.onCluster(), where)
}

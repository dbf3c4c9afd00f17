package table

import (
	"fmt"
	"strings"
)

// Target says which rows are to be deleted.
type Target struct {
	Tenant  string
	Session string // "" is all of the tenant
	// Bounded restricts it to rows that the ROWS partitions p with p mod Partitions = Partition brought up to Chunk. That includes rows of
	// an earlier stream with more partitions: chunk numbers rise from one stream to the next.
	Bounded               bool
	Partition, Partitions int
	Chunk                 uint64
}

// condition returns SQL that selects d's rows.
func (d *Target) condition() string {
	s := "tenant = " + Quote(d.Tenant)
	if d.Session != "" {
		s += " AND session_id = " + Quote(d.Session)
	}
	if d.Bounded {
		s += fmt.Sprintf(" AND rows_partition %% %d = %d AND chunk <= %d", d.Partitions, d.Partition, d.Chunk)
	}
	return s
}

// Holds reports whether rows of t can belong to d. Contents belong to the sessions that have links to them, see orphans.go.
func (t *Table) Holds(d *Target) bool {
	return t.Retention != Static && !t.Lasting && t.Column("tenant") != nil &&
		(d.Session == "" || t.LinkedBy != "" || t.Column("session_id") != nil)
}

// condition returns SQL that selects d's rows in t; false when rows of t do not say to what they belong. In a table of contents those are
// all rows except the marks: the partition that brought a content does not say whose it is.
func (t *Table) condition(d *Target) (sql string, ok bool) {
	if !t.Holds(d) || t.LinkedBy != "" && d.Session != "" {
		return "", false
	}
	sql = d.condition()
	if t.LinkedBy != "" && d.Bounded {
		sql += " AND content_hi = 0 AND content_lo = 0"
	}
	return sql, true
}

// conditions returns what selects the rows of all of targets in t, in as few conditions as possible, each with the targets that it is for;
// several sessions of a tenant are one condition.
func (t *Table) conditions(targets []Target) (out []selection) {
	byTenant := map[string]int{}
	for i := range targets {
		d := &targets[i]
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
		out[at].sessions = append(out[at].sessions, Quote(d.Session))
	}
	for i := range out {
		if s := &out[i]; s.where == "" {
			s.where = "tenant = " + Quote(s.tenant) + " AND session_id IN (" + strings.Join(s.sessions, ", ") + ")"
		}
	}
	return out
}

// selection is one condition that selects rows of one of targets, or of many sessions of one tenant.
type selection struct {
	where    string
	tenant   string
	of       []int
	sessions []string // quoted; nil: it selects all of the one
}

// ConditionSQL returns the condition that selects the rows of targets in t, "" when t cannot have any, or none that can be selected in this
// way.
func (t *Table) ConditionSQL(targets []Target) string {
	var or []string
	for _, s := range t.conditions(targets) {
		or = append(or, "("+s.where+")")
	}
	return strings.Join(or, " OR ")
}

// CountSQL returns a query with one row for each of targets that has rows in t: its index (Int64) and how many rows (UInt64). A session
// that is named twice is counted once. It is "" when t cannot have any, or none that can be selected in this way.
func (t *Table) CountSQL(o Options, targets []Target) string {
	from := ident(o.database()) + "." + ident(t.Name)
	var parts []string
	for _, s := range t.conditions(targets) {
		index := fmt.Sprintf("toInt64(%d)", s.of[0])
		if s.sessions != nil {
			of := make([]string, len(s.of))
			for i, n := range s.of {
				of[i] = fmt.Sprint(n)
			}
			index = fmt.Sprintf("toInt64([%s][indexOf([%s], toString(session_id))])", strings.Join(of, ", "),
				strings.Join(s.sessions, ", "))
		}
		parts = append(parts, fmt.Sprintf("SELECT %s AS i, count() AS n FROM %s WHERE %s GROUP BY i", index, from, s.where))
	}
	if parts == nil {
		return ""
	}
	return "SELECT i, n FROM (" + strings.Join(parts, " UNION ALL ") + ") WHERE n > 0"
}

// DeleteSQL returns the statement that makes ClickHouse write t's data parts anew without the rows of targets, "" when t cannot have any.
// The statement returns before that is done.
func (t *Table) DeleteSQL(o Options, targets []Target) string {
	where := t.ConditionSQL(targets)
	if where == "" {
		return ""
	}
	return fmt.Sprintf("ALTER TABLE %s.%s%s DELETE WHERE %s SETTINGS mutations_sync = 0", ident(o.database()), ident(t.Name),
		o.onCluster(), where)
}

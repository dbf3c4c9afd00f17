package report

import (
	"fmt"
	"strings"
	"time"
)

// Selection says which PC samples and kernels are meant. The zero value is all.
type Selection struct {
	Tenant  string // "" is all
	Session string // "" is all; else a session id or the beginning of one
	App     string // "" is all
	Host    string // "" is all
	Build   string // "" is all; else the build id of a cubin or the beginning of one
	NotIn   string // "" leaves nothing out; else the same, of cubins to leave out
	// Since and Until bound the minutes (after 30 days, hours) by their beginning: Since is in, Until is not. The zero time is no bound.
	Since, Until time.Time
}

// Of returns "database.view WHERE …" with the arguments of its conditions, for a view that has tenant, session_id, build_id and bucket.
func (s Selection) Of(database, view string, more ...string) (from string, args []any) {
	where, args := s.sessions(database)
	if s.Build != "" {
		where, args = append(where, "startsWith(toString(build_id), ?)"), append(args, s.Build)
	}
	if s.NotIn != "" {
		where, args = append(where, "NOT startsWith(toString(build_id), ?)"), append(args, s.NotIn)
	}
	return "`" + database + "`." + view + " WHERE " + strings.Join(append(where, more...), " AND "), args
}

// OfKernels is the same for a view of kernels, which do not have a build id: those of sessions that have samples of the build are meant.
func (s Selection) OfKernels(database, view string, more ...string) (from string, args []any) {
	where, args := s.sessions(database)
	if s.Build != "" || s.NotIn != "" {
		of, asked := Selection{Tenant: s.Tenant, Session: s.Session, Build: s.Build, NotIn: s.NotIn}.Of(database, "pc_stalls")
		where, args = append(where, "(tenant, session_id) IN (SELECT tenant, session_id FROM "+of+")"), append(args, asked...)
	}
	return "`" + database + "`." + view + " WHERE " + strings.Join(append(where, more...), " AND "), args
}

// sessions are the conditions that every view with sessions and buckets can be asked with; there is at least one.
func (s Selection) sessions(database string) (where []string, args []any) {
	where = []string{"true"}
	if s.Tenant != "" {
		where, args = append(where, "tenant = ?"), append(args, s.Tenant)
	}
	if s.Session != "" {
		begins, asked := SessionBegins("session_id", s.Session)
		where, args = append(where, begins), append(args, asked...)
	}
	var of []string
	for _, c := range []struct{ column, value string }{{"app", s.App}, {"host", s.Host}} {
		if c.value != "" {
			of, args = append(of, c.column+" = ?"), append(args, c.value)
		}
	}
	if len(of) > 0 {
		where = append(where, fmt.Sprintf("(tenant, session_id) IN (SELECT tenant, session_id FROM `%s`.sessions WHERE %s)", database,
			strings.Join(of, " AND ")))
	}
	for _, c := range []struct {
		is string
		at time.Time
	}{{">=", s.Since}, {"<", s.Until}} {
		if !c.at.IsZero() {
			where, args = append(where, "bucket "+c.is+" fromUnixTimestamp64Nano(toInt64(?))"), append(args, c.at.UnixNano())
		}
	}
	return where, args
}

// Named says in words what was selected, for errors and titles; "" for everything.
func (s Selection) Named() string {
	var named []string
	for _, n := range [][2]string{{"session", s.Session}, {"app", s.App}, {"host", s.Host}, {"build", s.Build}, {"tenant", s.Tenant}} {
		if n[1] != "" {
			named = append(named, fmt.Sprintf("%s %q", n[0], n[1]))
		}
	}
	if !s.Since.IsZero() {
		named = append(named, "since "+s.Since.UTC().Format(time.RFC3339))
	}
	if !s.Until.IsZero() {
		named = append(named, "until "+s.Until.UTC().Format(time.RFC3339))
	}
	return strings.Join(named, ", ")
}

// Package rejects reads what was refused, and sends it again the way a client would.
package rejects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/query/report"
)

// Filter picks rejects; its zero value picks all.
type Filter struct {
	IDs                           []string // whole, or how they begin
	Tenant, Session, Reason, Type string
	From, To                      time.Time // zero: no bound
	Limit                         int       // most rejects, the newest; at least 1
	After                         Mark      // where to go on; its zero value is the newest
}

// Mark is the last reject of a list, which is by time and id.
type Mark struct {
	At time.Time
	ID string
}

// Reject is one reject, or several equal ones that came together.
type Reject struct {
	ID         string    `json:"reject_id"`
	At         time.Time `json:"at"`
	Tenant     string    `json:"tenant"`
	Session    string    `json:"session_id"`
	Source     string    `json:"source"`
	Stage      string    `json:"stage"`
	Reason     string    `json:"reason"`
	Detail     string    `json:"detail"`
	Type       string    `json:"type"`
	Events     uint64    `json:"events"`
	Bytes      uint64    `json:"bytes"`
	Attempts   uint64    `json:"attempts"`
	ReplayedAt time.Time `json:"replayed_at,omitzero"` // zero: never taken
	Payload    string    `json:"payload"`
	Ref        string    `json:"payload_ref,omitempty"`
}

// Picks reports whether a filter says which rejects, so that nobody takes all of them by mistake.
func (f Filter) Picks() bool {
	return len(f.IDs) > 0 || f.Tenant != "" || f.Session != "" || f.Reason != "" || f.Type != "" || !f.From.IsZero()
}

// Check returns what is wrong with the ids, and with times that nothing can be between.
func (f Filter) Check() error {
	if !f.From.IsZero() && !f.To.IsZero() && f.To.Before(f.From) {
		return errors.New("from is after to: exchange them")
	}
	for _, id := range f.IDs {
		if len(id) < 4 || len(id) > stream.RejectIDBytes || strings.Trim(id, "0123456789abcdef") != "" {
			return fmt.Errorf("%q is no reject: name it by its id, or the first 4 to %d characters, as \"warpline reject list\" shows it", id,
				stream.RejectIDBytes)
		}
	}
	return nil
}

// where is the condition and its arguments.
func (f Filter) where() (string, []any) {
	where, args := []string{"1"}, []any{}
	for _, c := range []struct{ column, value string }{{"tenant", f.Tenant}, {"reason", f.Reason}, {"type", f.Type}} {
		if c.value != "" {
			where, args = append(where, c.column+" = ?"), append(args, c.value)
		}
	}
	if f.Session != "" {
		begins, asked := report.SessionBegins("session_id", f.Session)
		where, args = append(where, begins), append(args, asked...)
	}
	for _, b := range []struct {
		sign string
		at   time.Time
	}{{">=", f.From}, {"<", f.To}} {
		if !b.at.IsZero() {
			where, args = append(where, "at "+b.sign+" fromUnixTimestamp64Nano(?)"), append(args, b.at.UnixNano())
		}
	}
	if len(f.IDs) > 0 {
		any := make([]string, len(f.IDs))
		for i, id := range f.IDs {
			any[i], args = "startsWith(reject_id, ?)", append(args, id)
		}
		where = append(where, "("+strings.Join(any, " OR ")+")")
	}
	return strings.Join(where, " AND "), args
}

// Read returns the newest rejects of a filter, and whether there are more.
func Read(ctx context.Context, conn driver.Conn, database string, f Filter) (all []Reject, more bool, err error) {
	where, args := f.where()
	having := "1"
	if f.After.ID != "" {
		having = "max(at) < fromUnixTimestamp64Nano(?) OR max(at) = fromUnixTimestamp64Nano(?) AND reject_id > ?"
		args = append(args, f.After.At.UnixNano(), f.After.At.UnixNano(), f.After.ID)
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT reject_id, max(at), toString(tenant), toString(session_id), toString(any(source)), "+
		"toString(any(stage)), toString(reason), any(detail), toString(any(type)), sum(events), any(bytes), max(attempts), max(replayed_at), "+
		"any(payload), any(payload_ref) FROM `%s`.rejects WHERE %s GROUP BY reject_id, tenant, session_id, reason "+
		"HAVING %s ORDER BY max(at) DESC, reject_id LIMIT %d", database, where, having, f.Limit+1), args...)
	if err != nil {
		return nil, false, fmt.Errorf("read rejects: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r Reject
		if err := rows.Scan(&r.ID, &r.At, &r.Tenant, &r.Session, &r.Source, &r.Stage, &r.Reason, &r.Detail, &r.Type, &r.Events, &r.Bytes,
			&r.Attempts, &r.ReplayedAt, &r.Payload, &r.Ref); err != nil {
			return nil, false, fmt.Errorf("read rejects: %w", err)
		}
		if r.ReplayedAt.Unix() <= 0 {
			r.ReplayedAt = time.Time{}
		}
		all = append(all, r)
	}
	if err := rows.Err(); err != nil {
		return nil, false, fmt.Errorf("read rejects: %w", err)
	}
	if len(all) > f.Limit {
		return all[:f.Limit], true, nil
	}
	return all, false, nil
}

// Package trace writes sessions of any source as traces in Chrome's JSON.
//
// Start with Find and Write. ClickHouse makes the text of each event, so that a session of millions of events passes through little memory.
// Events come in no order: whoever draws them orders them, as `warpline trace export` does.
package trace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/table"
)

// Session is a session to write.
type Session struct {
	Tenant, ID, Source string
	App, Host          string
}

// Find returns the session whose id is id, or the only one that begins so. tenant may be "" where only one tenant has it.
func Find(ctx context.Context, conn driver.Conn, database, tenant, id string) (*Session, error) {
	rows, err := conn.Query(ctx, "SELECT tenant, session_id, source, app, host FROM `"+database+"`.sessions "+
		"WHERE (startsWith(session_id, ?) OR startsWith(session_id, concat('trace:', ?))) AND (? = '' OR tenant = ?) "+
		"ORDER BY session_id = ? DESC, started_at DESC, session_id LIMIT 6", id, id, tenant, tenant, id)
	if err != nil {
		return nil, fmt.Errorf("find the session: %w", err)
	}
	defer rows.Close()
	var found []Session
	for rows.Next() {
		var s Session
		if err := rows.Scan(&s.Tenant, &s.ID, &s.Source, &s.App, &s.Host); err != nil {
			return nil, fmt.Errorf("find the session: %w", err)
		}
		found = append(found, s)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("find the session: %w", err)
	}
	exact := 0
	for _, s := range found {
		if s.ID == id {
			exact++
		}
	}
	switch {
	case len(found) == 0:
		return nil, fmt.Errorf("no session is %q or begins so: \"warpline report\" lists sessions", id)
	case exact == 1, len(found) == 1:
		return &found[0], nil
	case exact > 1:
		return nil, fmt.Errorf("session %q is one of several tenants: say which", id)
	}
	var ids []string
	for _, s := range found {
		ids = append(ids, s.ID)
	}
	return nil, fmt.Errorf("%q is the beginning of several sessions: %s: name one", id, strings.Join(ids, ", "))
}

// Write writes a session as an object with its events in traceEvents, and returns how many there are. conn may be a user that only reads;
// it stays open.
func Write(ctx context.Context, conn driver.Conn, database string, s *Session, w io.Writer) (events uint64, err error) {
	out := bufio.NewWriterSize(w, 1<<20)
	out.WriteString("{\"traceEvents\":[")
	for i := range layers {
		l := &layers[i]
		if !l.of(s.Source) {
			continue
		}
		n, err := l.write(ctx, conn, database, s, out, events > 0)
		events += n
		if err != nil {
			return events, fmt.Errorf("read %s: %w", l.name, err)
		}
	}
	out.WriteString("\n]}\n")
	return events, out.Flush()
}

// write writes the events of one layer.
func (l *layer) write(ctx context.Context, conn driver.Conn, database string, s *Session, out *bufio.Writer, more bool) (
	n uint64, err error) {
	// The driver takes braces in a query with arguments for their names, so these are written out.
	sql := strings.NewReplacer("{db}", "`"+database+"`", "{own}", "tenant = "+table.Quote(s.Tenant)+" AND session_id = "+table.Quote(s.ID)).
		Replace(l.sql)
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return n, err
		}
		if more {
			out.WriteByte(',')
		}
		more = true
		out.WriteByte('\n')
		if _, err := out.WriteString(text); err != nil {
			return n, err
		}
		n++
	}
	return n, rows.Err()
}

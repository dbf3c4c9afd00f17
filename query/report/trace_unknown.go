package report

import (
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// UnknownTraceError says that there is no such trace, and what there is.
type UnknownTraceError struct {
	Asked string   // "session \"x\""
	Near  []string // ids or jobs whose names are the nearest, as flags take them; empty where there are no traces
	Other string   // source of a session that is no trace and begins as asked, "" none
}

// Error ends in what to do.
func (e *UnknownTraceError) Error() string {
	switch {
	case e.Other != "":
		return fmt.Sprintf("%s is no trace but of source %s: \"warpline report --session\" shows it", e.Asked, e.Other)
	case len(e.Near) == 0:
		return fmt.Sprintf("no trace of %s, nor any other: send one with \"warpline send FILE\"", e.Asked)
	}
	return fmt.Sprintf("no trace of %s; near it are %s: \"warpline report trace\" lists them all", e.Asked, strings.Join(e.Near, ", "))
}

// nearest is how many names an error proposes.
const nearest = 5

func (in *traceReader) unknown(session, job string) error {
	e := &UnknownTraceError{Asked: fmt.Sprintf("session %q", session)}
	name, asked := "session_id", session
	if session == "" || job != "" {
		name, asked, e.Asked = "run_id", job, fmt.Sprintf("job %q", job)
		if session != "" {
			e.Asked += fmt.Sprintf(" and session %q", session)
		}
	}
	tenant, args := "", []any{}
	if t := in.r.Query.Tenant; t != "" {
		e.Asked += fmt.Sprintf(" of tenant %q", t)
		tenant, args = " AND tenant = ?", append(args, t)
	}
	sessions := "`" + in.r.Query.Database + "`.sessions"
	if session != "" {
		begins, more := SessionBegins("session_id", session)
		if err := in.each("SELECT any(toString(source)) FROM "+sessions+" WHERE source != 'trace'"+tenant+" AND "+begins+" HAVING count() > 0",
			append(append([]any{}, args...), more...), func(rows driver.Rows) error { return rows.Scan(&e.Other) }); err != nil {
			return fmt.Errorf("read traces: %w", err)
		}
	}
	err := in.each(fmt.Sprintf("SELECT toString(%[1]s) AS near FROM %[2]s WHERE source = 'trace' AND near != ''%[3]s GROUP BY near "+
		"ORDER BY greatest(jaroWinklerSimilarity(near, ?), jaroWinklerSimilarity(near, ?)) DESC, near LIMIT %[4]d", name, sessions, tenant,
		nearest), append(args, asked, tracePrefix+asked), func(rows driver.Rows) error {
		var near string
		err := rows.Scan(&near)
		e.Near = append(e.Near, cut(near, 60))
		return err
	})
	if err != nil {
		return fmt.Errorf("read traces: %w", err)
	}
	return e
}

package tenantsql

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/sink/table"
)

// viewSet is a database of views over the contract's, which their owner reads for whoever asks.
type viewSet struct {
	database, owner string
	from            string // Warpline's database
	on              string // ON CLUSTER …, or ""
	views           []table.View
}

// make makes the views what they should be. A view of before that is there no more is dropped.
func (s viewSet) make(ctx context.Context, conn driver.Conn) error {
	if err := conn.Exec(ctx, fmt.Sprintf("CREATE DATABASE IF NOT EXISTS %s%s", quoted(s.database), s.on)); err != nil {
		return fmt.Errorf("database %s: %w", s.database, err)
	}
	have, err := s.have(ctx, conn)
	if err != nil {
		return err
	}
	for _, v := range s.views {
		body := fmt.Sprintf("DEFINER = %s SQL SECURITY DEFINER AS SELECT * FROM `%s`.`%s`%s", quoted(s.owner), s.from, v.Name,
			parameters(v.Body))
		mark := fmt.Sprintf("%s%016x %016x", viewMark, xxh3.HashString(body), xxh3.HashString(v.Body)) // its columns are those of the view
		if have[v.Name] != mark {
			if err := conn.Exec(ctx, fmt.Sprintf("CREATE OR REPLACE VIEW %s.`%s`%s %s COMMENT '%s'", quoted(s.database), v.Name, s.on, body,
				mark)); err != nil {
				return fmt.Errorf("view %s.%s: %w", s.database, v.Name, err)
			}
		}
		delete(have, v.Name)
	}
	for old := range have {
		if err := conn.Exec(ctx, fmt.Sprintf("DROP TABLE %s.%s%s", quoted(s.database), quoted(old), s.on)); err != nil {
			return fmt.Errorf("view %s.%s: %w", s.database, old, err)
		}
	}
	return nil
}

// viewMark begins the comment of a view that was made here.
const viewMark = "warpline "

// have are the comments of what is in the database, by name.
func (s viewSet) have(ctx context.Context, conn driver.Conn) (map[string]string, error) {
	rows, err := conn.Query(ctx, "SELECT name, comment FROM system.tables WHERE database = $1", s.database)
	if err != nil {
		return nil, fmt.Errorf("views of %s: %w", s.database, err)
	}
	defer rows.Close()
	have := map[string]string{}
	for rows.Next() {
		var view, comment string
		if err := rows.Scan(&view, &comment); err != nil {
			return nil, fmt.Errorf("views of %s: %w", s.database, err)
		}
		have[view] = comment
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("views of %s: %w", s.database, err)
	}
	return have, nil
}

var parameter = regexp.MustCompile(`\{(\w+):\s*([A-Za-z0-9()]+)\}`)

// parameters are the arguments with which a view of a slot asks the view of that name: its own, for those that a body has.
func parameters(body string) string {
	var args []string
	seen := map[string]bool{}
	for _, m := range parameter.FindAllStringSubmatch(body, -1) {
		if !seen[m[1]] {
			seen[m[1]] = true
			args = append(args, m[1]+" = "+m[0])
		}
	}
	if len(args) == 0 {
		return ""
	}
	return "(" + strings.Join(args, ", ") + ")"
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/query/pprof"
	"github.com/warpline/warpline/query/report"
)

// sessionExportCmd writes a session as NDJSON: {"table":"kernels","row":{…}}, table after table, in no order within one. Times are text in
// UTC with nanoseconds. 64-bit integers are text too: a reader that keeps numbers as doubles would round them. Bytes that are not UTF-8
// become U+FFFD.
type sessionExportCmd struct {
	askFlags
	Tenant  string   `arg:"" help:"Tenant of the session."`
	Session string   `arg:"" help:"Session id, or the beginning of one, as reports show it."`
	Tables  []string `placeholder:"A,B" help:"Only these tables and views; by default all that have sessions."`
}

func (c *sessionExportCmd) check(p *program) error {
	return errors.Join(tenant.CheckName(c.Tenant), stream.CheckSession(c.Session), c.clickhouseFlags.check(p.Settings))
}

// Run writes row after row as ClickHouse gives them, so that memory does not grow with the session.
func (c *sessionExportCmd) Run(ctx context.Context, p *program) error {
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tables, err := sessionTables(ctx, conn, database)
	if err != nil {
		return err
	}
	if len(c.Tables) > 0 {
		for _, t := range c.Tables {
			if !slices.Contains(tables, t) {
				return usage(fmt.Errorf("%s: %q is not a table with sessions: there are %s", p.Settings.name("tables"), t, strings.Join(tables, ", ")))
			}
		}
		tables = slices.Sorted(slices.Values(c.Tables))
		tables = slices.Compact(tables)
	}
	out := bufio.NewWriterSize(p.Stdout, 1<<20)
	session, err := wholeID(ctx, conn, database, c.Tenant, c.Session)
	if err != nil {
		return err
	}
	if session != c.Session {
		fmt.Fprintf(p.Stderr, "session %q of tenant %s\n", session, c.Tenant)
	}
	var total uint64
	for _, t := range tables {
		n, err := exportTable(ctx, conn, out, database, t, c.Tenant, session)
		if err != nil {
			out.Flush()
			return fmt.Errorf("export %s: %w: what was written is not the whole session", t, err)
		}
		if n > 0 {
			fmt.Fprintf(p.Stderr, "%s: %s\n", t, plural(int64(n), "row"))
		}
		total += n
	}
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	if total == 0 {
		return fmt.Errorf("nothing is stored of session %q of tenant %s: \"warpline session list --tenant %s\" lists those there are", c.Session,
			c.Tenant, c.Tenant)
	}
	return nil
}

// wholeID is the id of the one session that asked names (see report.SessionBegins). It is asked itself where a session has just that id,
// and where none is listed: rows may be here of a session whose beginning is not.
func wholeID(ctx context.Context, conn driver.Conn, database, tenantName, asked string) (string, error) {
	begins, args := report.SessionBegins("session_id", asked)
	var exact bool
	var found []string
	err := conn.QueryRow(ctx, fmt.Sprintf("SELECT countIf(session_id = ?) > 0, arraySort(groupUniqArray(4)(toString(session_id))) FROM "+
		"`%s`.sessions WHERE tenant = ? AND %s", database, begins),
		append([]any{asked, tenantName}, args...)...).Scan(&exact, &found)
	switch {
	case err != nil:
		return "", fmt.Errorf("find session %q: %w", asked, err)
	case exact || len(found) == 0:
		return asked, nil
	case len(found) == 1:
		return found[0], nil
	}
	more := ""
	if len(found) > 3 {
		found, more = found[:3], " and more"
	}
	return "", usage(fmt.Errorf("%q is the beginning of %q%s: write more of it", asked, found, more))
}

// longerID is a word about a session whose id begins as id does, since reports show only the beginning; "" if there is none.
func longerID(ctx context.Context, conn driver.Conn, database, tenantName, id string) string {
	if conn == nil {
		return ""
	}
	var whole string
	var n uint64
	err := conn.QueryRow(ctx, fmt.Sprintf("SELECT toString(any(session_id)), uniqExact(session_id) FROM `%s`.sessions WHERE tenant = ? AND "+
		"startsWith(toString(session_id), ?)", database), tenantName, id).Scan(&whole, &n)
	switch {
	case err != nil || n == 0 || whole == id:
		return ""
	case n == 1:
		return fmt.Sprintf(" (%q begins so: write the whole id)", whole)
	default:
		return fmt.Sprintf(" (%d sessions begin so: write a whole id)", n)
	}
}

// sessionTables lists the tables and views of the contract that have a session in each row.
func sessionTables(ctx context.Context, conn driver.Conn, database string) (names []string, err error) {
	rows, err := conn.Query(ctx, "SELECT table FROM system.columns WHERE database = ? AND name IN ('tenant', 'session_id') AND NOT "+
		"endsWith(table, '_data') GROUP BY table HAVING count() = 2 ORDER BY table", database)
	if err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("list tables: %w", err)
		}
		names = append(names, name)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list tables: %w", err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("database %q has no tables of Warpline: was the sink ever started?", database)
	}
	return names, nil
}

// exportTable writes the session's rows of one table. ClickHouse makes the JSON, which knows every type.
func exportTable(ctx context.Context, conn driver.Conn, out *bufio.Writer, database, name, tenantName, session string) (n uint64,
	err error) {
	ctx = clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"output_format_json_quote_64bit_integers": 1, "output_format_json_validate_utf8": 1, "output_format_json_quote_denormals": 1,
		"date_time_output_format": "simple", "max_block_size": 8192,
	}))
	rows, err := conn.Query(ctx, fmt.Sprintf("SELECT formatRowNoNewline('JSONEachRow', *) FROM `%s`.`%s` WHERE tenant = ? AND session_id = ?",
		database, name), tenantName, session)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		var row string
		if err := rows.Scan(&row); err != nil {
			return n, err
		}
		for _, s := range []string{`{"table":"`, name, `","row":`, row, "}\n"} {
			if _, err := out.WriteString(s); err != nil {
				return n, err
			}
		}
		n++
	}
	return n, rows.Err()
}

// pprofCmd writes profiles for other viewers.
type pprofCmd struct {
	askFlags
	selectionFlags
	Type   string `enum:"pc,kernels" default:"pc" help:"${pprof_type}"`
	Out    string `short:"o" required:"" placeholder:"FILE" help:"File to write, as stalls.pb.gz; - is stdout."`
	Folded bool   `help:"Write folded stacks for flame graphs instead: text, a stack a line."`
}

func (c *pprofCmd) check(p *program) error {
	_, err := c.selection(p.Settings, time.Now())
	return errors.Join(err, c.clickhouseFlags.check(p.Settings))
}

// Run writes a file beside the one that is asked for, and renames it when it is whole.
func (c *pprofCmd) Run(ctx context.Context, p *program) (err error) {
	selected, err := c.selection(p.Settings, time.Now())
	if err != nil {
		return err
	}
	conn, database, err := c.ask(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	q := pprof.Query{Database: database, Type: pprof.Type(c.Type), Selection: selected, Folded: c.Folded}
	out, whole := p.Stdout, func() error { return nil }
	if c.Out != "-" {
		f, err := os.CreateTemp(filepath.Dir(c.Out), "."+filepath.Base(c.Out)+".*")
		if err != nil {
			return fmt.Errorf("%s: %w", p.Settings.name("out"), err)
		}
		defer os.Remove(f.Name())
		defer f.Close()
		out, whole = f, func() error {
			return errors.Join(f.Chmod(0o644), f.Close(), os.Rename(f.Name(), c.Out))
		}
	}
	t, err := pprof.Write(ctx, conn, out, q)
	switch {
	case errors.Is(err, pprof.ErrTooMany):
		return fmt.Errorf("%w: select less with --session, --build, --since and --until, or write --folded", err)
	case err != nil:
		return err
	case t.Stacks == 0:
		return c.nothing(selected.Named())
	}
	if err := whole(); err != nil {
		return fmt.Errorf("write %s: %w", c.Out, err)
	}
	if c.Type == string(pprof.PC) {
		fmt.Fprintf(p.Stderr, "%d stacks: %d samples, estimated %v on the GPU's samplers\n", t.Stacks, t.Count, time.Duration(t.NS))
	} else {
		fmt.Fprintf(p.Stderr, "%d stacks: %d calls, %v\n", t.Stacks, t.Count, time.Duration(t.NS))
	}
	return nil
}

// nothing is the error of a selection without samples or kernels.
func (c *pprofCmd) nothing(named string) error {
	what := map[string]string{"pc": "PC samples", "kernels": "kernels"}[c.Type]
	if named == "" {
		return fmt.Errorf("no %s are here yet: \"warpline report\" shows what is", what)
	}
	return fmt.Errorf("no %s of %s: \"warpline report\" shows what there is", what, named)
}

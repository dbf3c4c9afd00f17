package tenantsql

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// forbidden are questions that a tenant's user must be refused. {db} is Warpline's database, {table} a table in it, {user} the user.
var forbidden = []string{
	"SELECT count() FROM {db}.{table}", "SELECT count() FROM {db}.sessions", "SELECT count() FROM mergeTreeIndex({db}, {table})",
	"SELECT count() FROM merge({db}, '.*')", "SELECT count() FROM loop({db}, {table})",
	"SELECT count() FROM remote('127.0.0.1', {db}, {table})", "SELECT count() FROM url('http://127.0.0.1:1/', LineAsString)",
	"SELECT count() FROM file('/etc/passwd', LineAsString)", "SELECT length(file('/etc/passwd'))",
	"SELECT count() FROM s3('http://127.0.0.1:1/bucket/key', 'TSV', 'a String')",
	"SELECT count() FROM clusterAllReplicas('default', {db}, {table})",
	"EXPLAIN ESTIMATE SELECT * FROM {db}.{table}", "SHOW CREATE TABLE {db}.{table}", "SELECT count() FROM system.query_log",
	"SELECT count() FROM system.parts", "SELECT count() FROM system.users", "SELECT count() FROM system.row_policies",
	"SELECT count() FROM system.query_cache", "SELECT count() FROM system.query_thread_log", "SELECT count() FROM system.session_log",
	"SELECT count() FROM system.text_log", "SELECT count() FROM system.errors", "SELECT count() FROM system.stack_trace", "SHOW USERS",
	"CREATE TEMPORARY TABLE t (a UInt8)", "CREATE TABLE {user}.t (a UInt8) ENGINE = Memory",
	"INSERT INTO FUNCTION null('a UInt8') SELECT 1", "INSERT INTO FUNCTION file('t.csv', 'CSV', 'a UInt8') SELECT 1",
	"DROP VIEW {user}.sessions", "SYSTEM FLUSH LOGS", "SYSTEM DROP QUERY CACHE", "SET readonly = 0", "SET max_memory_usage = 0",
	"SET max_execution_time = 0", "SET max_rows_to_read = 0", "SELECT 1 SETTINGS max_memory_usage = 0",
	"SELECT 1 SETTINGS max_concurrent_queries_for_user = 0", "SELECT 1 SETTINGS readonly = 0", "SELECT 1 SETTINGS max_result_rows = 0",
	"SELECT 1 SETTINGS use_query_cache = 1", "CREATE USER {user}", "ALTER USER {user} IDENTIFIED BY 'x'", "GRANT SELECT ON *.* TO {user}",
	"EXECUTE AS default SELECT 1",
}

// refusals are the codes of errors that say no: to the question itself, not to what became of it. ACCESS_DENIED, READONLY,
// SETTING_CONSTRAINT_VIOLATION, DATABASE_ACCESS_DENIED, SUPPORT_IS_DISABLED; what an older server does not know at all (a function, a
// table, a database, a setting, words, an expression, a table function); no table or cluster of
// that name that it may see; and CANNOT_OPEN_FILE of one that everybody may open.
var refusals = []int32{codeDenied, 164, 452, 291, 344, 46, 60, 81, 115, 62, 47, 63, 636, 701, 76}

// absent are names that a user must not find where ClickHouse lists what there is.
var absent = []string{
	"SELECT count() FROM system.tables WHERE database = '{db}'", "SELECT count() FROM system.columns WHERE database = '{db}'",
	"SELECT count() FROM system.databases WHERE name = '{db}'",
	"SELECT count() FROM information_schema.tables WHERE table_schema = '{db}'",
	"SELECT count() FROM system.databases WHERE name LIKE '" + userPrefix + "%' AND name != '{user}'",
	"SELECT count() FROM system.processes WHERE user != currentUser()",
}

// try logs in as a user that was just made and tries what must not be possible, and whether it sees the tenant's rows and no others.
func (u Users) try(ctx context.Context, p plan, user, password string) error {
	conn, err := u.Login(ctx, user, password)
	if err == nil {
		defer conn.Close()
		err = conn.Ping(ctx)
	}
	if err != nil {
		return fmt.Errorf("nobody can log in as its user %s: %w", user, err)
	}
	fill := strings.NewReplacer("{db}", quoted(p.database), "{table}", quoted(p.filtered[0]), "{user}", quoted(UserName(p.tenant)))
	for _, sql := range forbidden {
		err := conn.Exec(ctx, fill.Replace(sql))
		switch {
		case err == nil:
			return fmt.Errorf("its user is let do this: %s", fill.Replace(sql))
		case codeOf(err) == 0:
			return fmt.Errorf("nobody can tell what its user may do: %w", err)
		case !slices.Contains(refusals, codeOf(err)):
			return fmt.Errorf("its user is not refused this, though it failed: %s: %w", fill.Replace(sql), err)
		}
	}
	bare := strings.NewReplacer("{db}", p.database, "{user}", UserName(p.tenant))
	for _, sql := range absent {
		var n uint64
		err := conn.QueryRow(ctx, bare.Replace(sql)).Scan(&n)
		if err != nil && codeOf(err) == 0 {
			return fmt.Errorf("nobody can tell what its user may see: %w", err)
		}
		if err == nil && n > 0 {
			return fmt.Errorf("its user sees names of others: %s", bare.Replace(sql))
		}
	}
	if err := u.tryRows(ctx, p, conn); err != nil {
		return err
	}
	return u.tryClosing(ctx, p, conn)
}

// tryClosing closes the tenant for a moment: its user must see no row then.
func (u Users) tryClosing(ctx context.Context, p plan, conn driver.Conn) error {
	rows := func() (n uint64, err error) {
		err = conn.QueryRow(ctx, "SELECT count() FROM "+quoted(UserName(p.tenant))+".usage").Scan(&n)
		return n, err
	}
	if n, err := rows(); err != nil || n == 0 {
		return err // nothing could be seen
	}
	if err := say(ctx, u.Conn, p.database, true, []string{p.tenant}); err != nil {
		return denied(err)
	}
	n, err := rows()
	if err := errors.Join(err, say(context.WithoutCancel(ctx), u.Conn, p.database, false, []string{p.tenant})); err != nil {
		return denied(err)
	}
	if n > 0 {
		return fmt.Errorf("its user would go on seeing rows, %d of usage, after the tenant is disabled", n)
	}
	return nil
}

// tryRows compares what a user sees with what there is, and lets an expression of its own look for rows of others.
func (u Users) tryRows(ctx context.Context, p plan, conn driver.Conn) error {
	for _, view := range []string{"usage", "sessions"} {
		own := quoted(UserName(p.tenant)) + "." + view
		var seen, there uint64
		if err := conn.QueryRow(ctx, "SELECT count() FROM "+own).Scan(&seen); err != nil {
			return fmt.Errorf("its user cannot read %s: %w", own, err)
		}
		if err := u.Conn.QueryRow(ctx, fmt.Sprintf("SELECT countIf(tenant = $1) FROM %s.%s", quoted(p.database), view),
			p.tenant).Scan(&there); err != nil {
			return denied(fmt.Errorf("read %s: %w", view, err))
		}
		if seen > there { // more may have come meanwhile, not less
			return fmt.Errorf("its user sees %d rows of %s, and the tenant has %d", seen, view, there)
		}
		if seen == 0 && there > 0 {
			return fmt.Errorf("its user sees no row of %s, and the tenant has %d", view, there)
		}
		for _, where := range []string{"throwIf(tenant != '" + p.tenant + "')", "intDiv(1, tenant = '" + p.tenant + "') = 5"} {
			if err := conn.Exec(ctx, fmt.Sprintf("SELECT count() FROM %s WHERE %s", own, where)); err != nil {
				return fmt.Errorf("an expression of its user meets rows of others, or cannot be tried: %w", err)
			}
		}
	}
	return nil
}

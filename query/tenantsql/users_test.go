package tenantsql_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"

	"github.com/warpline/warpline/query/tenantsql"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// The embedded engine takes no users by SQL, and there is no server here. So these tests give it the same users by its file, and hold the
// statements against its parser.

// A tenant's own user sees in every view what is the tenant's, all of that, and nothing else: at the ports of ClickHouse itself.
func TestOwnUserSeesItsRowsAlone(t *testing.T) {
	s := serve(t)
	for _, v := range tabletest.Schema().Views(table.Options{}) {
		from := v.From()
		got := s.askOwn(t, mine, "SELECT * FROM "+from+" FORMAT JSONEachRow")
		if got.status != http.StatusOK || strings.Contains(got.all(), canary) || strings.Contains(got.all(), theirs) {
			t.Errorf("%s: %d, or rows of another tenant:\n%.600s", v.Name, got.status, got.body)
			continue
		}
		if strings.Contains(from, "(") {
			continue
		}
		sql := "SELECT count() FROM warpline." + from
		if v.Name != "stall_reasons" { // which says the same to everybody
			sql += " WHERE tenant = '" + mine + "'"
		}
		wanted := s.write(t, sql, "")
		if rows := fmt.Sprint(len(strings.FieldsFunc(got.body, func(r rune) bool { return r == '\n' }))); rows != wanted {
			t.Errorf("%s: the user sees %s rows, and the tenant has %s", v.Name, rows, wanted)
		}
	}
}

// askOwn asks as a tenant's own user, without Warpline between.
func (s *service) askOwn(t *testing.T, who, sql string) answer {
	t.Helper()
	return sendTo(t, "http://"+s.engine.HTTPAddr()+"/", sql, "database="+tenantsql.UserName(who), func(r *http.Request) {
		r.SetBasicAuth(tenantsql.UserName(who), ownPassword+who)
	})
}

// What is tried of a user that was just made finds nothing where the user is made well, and something where it is not.
func TestBadUsersAreFound(t *testing.T) {
	s := serve(t)
	if err := s.users.Try(t.Context(), mine, ownPassword+mine); err != nil {
		t.Errorf("a good user: %v", err)
	}
	if closed, _, err := tenantsql.Closed(t.Context(), s.conn, ""); err != nil || closed[mine] {
		t.Errorf("a good user is left closed: %v", err)
	}
	s.write(t, "INSERT INTO warpline.usage_data (tenant, day, source, events, received_day, retention_days) VALUES ('leaky-closed', "+
		"today(), 'x', 1, today(), 30)", "")
	for _, who := range slices.Sorted(maps.Keys(leaky)) {
		err := s.users.Try(t.Context(), who, ownPassword+who)
		if err == nil {
			t.Errorf("%s: nothing was found", who)
			continue
		}
		t.Logf("%s: %v", who, err)
		if who == "leaky-closed" && !strings.Contains(err.Error(), "after the tenant is disabled") {
			t.Error("it is not found for what it is")
		}
	}
	if err := s.users.Try(t.Context(), mine, "wrong"); err == nil || !strings.Contains(err.Error(), "log in") {
		t.Errorf("a wrong password: %v", err)
	}
}

// Each question that is tried is one that this ClickHouse understands: else a refusal would say nothing.
func TestTriesAreUnderstood(t *testing.T) {
	s := serve(t)
	fill := strings.NewReplacer("{db}", "warpline", "{table}", "usage_data", "{user}", "tenant_acme")
	for _, sql := range tenantsql.Forbidden {
		if err := s.conn.Exec(t.Context(), "EXPLAIN AST "+fill.Replace(sql)); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// ClickHouse understands every statement, on one server and on a cluster.
func TestStatementsAreUnderstood(t *testing.T) {
	s := serve(t)
	for _, cluster := range []string{"", "all-of-us"} {
		u := s.users
		u.Cluster = cluster
		all, err := u.Statements(t.Context(), "my-team")
		if err != nil {
			t.Fatal(err)
		}
		for _, sql := range all {
			if err := s.conn.Exec(t.Context(), "EXPLAIN AST "+sql); err != nil {
				t.Errorf("%s: %v", sql, err)
			}
			if cluster != "" && !strings.Contains(sql, "ON CLUSTER `all-of-us`") && !strings.Contains(sql, "probe") {
				t.Errorf("not on the cluster: %s", sql)
			}
		}
	}
}

// A ClickHouse that keeps its users in a file says so, and nothing is left there.
func TestUsersInAFile(t *testing.T) {
	s := serve(t)
	err := s.users.Make(t.Context(), "newcomer", "a-password", "")
	if !errors.Is(err, tenantsql.ErrUsersInFile) {
		t.Fatalf("%v", err)
	}
	if n := s.write(t, "SELECT count() FROM system.databases WHERE name LIKE '%newcomer%'", ""); n != "0" {
		t.Error("a database is left")
	}
}

// What is somebody else's under a tenant's name is left alone.
func TestWhatIsNotOursIsLeftAlone(t *testing.T) {
	s := serve(t)
	s.write(t, "CREATE DATABASE tenant_other", "")
	s.write(t, "CREATE TABLE tenant_other.precious (a UInt8) ENGINE = Memory", "")
	defer s.write(t, "DROP DATABASE tenant_other", "")
	for what, do := range map[string]func(context.Context, string) error{"drop": s.users.Drop,
		"make": func(ctx context.Context, who string) error { return s.users.Make(ctx, who, "password", "") }} {
		if err := do(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "precious") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, who := range []string{"", "a b", "acme_rows", "x`; DROP DATABASE warpline", "../acme", "ACME"} {
		if err := s.users.Make(t.Context(), who, "password", ""); err == nil {
			t.Errorf("%q is taken for a tenant", who)
		}
	}
}

// A tenant whose user is missing on a server, or has another secret, is told to ask the operator, and hears nothing of users.
func TestWebWithoutAUser(t *testing.T) {
	s := serve(t)
	a := sendTo(t, s.web.URL+"/clickhouse/", "SELECT 1", "", func(r *http.Request) { r.SetBasicAuth("newcomer", "key-of-newcomer") })
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "sql-user") || strings.Contains(a.body, "tenant_newcomer") ||
		a.header.Get("Retry-After") == "" {
		t.Errorf("%+v", a)
	}
}

// Passwords of the users of `warpline web` follow from the secret and the tenant, and from nothing else.
func TestWebPasswords(t *testing.T) {
	a := tenantsql.WebPassword("secret", "acme")
	if len(a) != 64 || a != tenantsql.WebPassword("secret", "acme") || a == tenantsql.WebPassword("secret", "acme2") ||
		a == tenantsql.WebPassword("secre", "tacme") {
		t.Errorf("%q", a)
	}
	if tenantsql.CheckWebSecret("short") == nil || tenantsql.CheckWebSecret(webSecret) != nil {
		t.Error("which secrets are long enough")
	}
}

// At the door of a server tools work as at that of an embedded engine: over HTTP, and with what they ask for beyond their bounds.
func TestToolsAtTheDoorOfAServer(t *testing.T) {
	s := serve(t)
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{strings.TrimPrefix(s.web.URL, "http://")}, Protocol: clickhouse.HTTP,
		HttpUrlPath: "/clickhouse/", Auth: clickhouse.Auth{Database: "warpline", Username: mine, Password: "key-of-" + mine},
		Settings: clickhouse.Settings{"max_execution_time": 60}, Compression: &clickhouse.Compression{Method: clickhouse.CompressionLZ4}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var who string
	if err := conn.QueryRow(t.Context(), "SELECT DISTINCT tenant FROM kernels WHERE tenant = ?",
		mine).Scan(&who); err != nil || who != mine {
		t.Errorf("%q, %v", who, err)
	}
	for name, change := range map[string]func(*http.Request){
		"headers": func(r *http.Request) {
			r.Header.Set("X-ClickHouse-User", mine)
			r.Header.Set("X-ClickHouse-Key", "key-of-"+mine)
		},
		"address": func(r *http.Request) { r.URL.RawQuery += "&user=" + mine + "&password=key-of-" + mine },
		"beyond its bounds": func(r *http.Request) {
			r.SetBasicAuth(mine, "key-of-"+mine)
			r.URL.RawQuery += "&max_execution_time=65&max_result_rows=99999999999&max_block_size=1000000"
		},
	} {
		if a := sendTo(t, s.web.URL+"/clickhouse/", "SELECT DISTINCT tenant FROM kernels", "", change); a.body != mine {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// The embedded engine takes no users by SQL: tenant sql-user says so, and where tenants ask instead. What drops a user is done all the same
// where there is none.
func TestSQLUserOfTheEmbeddedEngine(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--data", dir, "--clickhouse", r.ClickHouse, "--clickhouse-user", "warpline", "--clickhouse-password-file",
		filepath.Join(dir, "writer-password")}
	as := func(code int, says string, args ...string) {
		t.Helper()
		got := runIn(t, nil, args...)
		if got.code != code || !strings.Contains(got.stdout+got.stderr, says) {
			t.Errorf("%v: %+v, want exit %d and %q", args, got, code, says)
		}
	}
	as(exitFailed, "has no record", append([]string{"tenant", "sql-user", "acme"}, at...)...)
	as(exitOK, "", "tenant", "create", "acme", "--data", dir)
	as(exitFailed, "/clickhouse/", append([]string{"tenant", "sql-user", "acme"}, at...)...)
	as(exitUsage, "--clickhouse is missing", "tenant", "sql-user", "acme", "--data", dir)
	as(exitUsage, "12 characters", append([]string{"tenant", "sql-user", "acme", "--password", "short"}, at...)...)
	as(exitUsage, "16 at least", append([]string{"tenant", "sql-user", "acme", "--web-secret", "short"}, at...)...)
	as(exitUsage, "memory", append([]string{"tenant", "sql-user", "acme", "--memory", "0"}, at...)...)
	as(exitOK, "no user", append([]string{"tenant", "sql-user", "acme", "--drop"}, at...)...)
	as(exitOK, "disabled", append([]string{"tenant", "disable", "acme"}, at...)...)
	as(exitFailed, "is disabled", append([]string{"tenant", "sql-user", "acme"}, at...)...)
	as(exitOK, "no limits", append([]string{"tenant", "delete", "acme"}, at...)...)
}

package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was refused is dropped with its bytes, by the same filters as it is listed; usage goes on counting it, the audit balances, and what
// another tenant's filter, a quote or an id that fits several picks is not dropped.
func TestRejectDrop(t *testing.T) {
	dir := dataFolder(t)
	_, r, sql := serving(t, dir)
	run := runAt(t, dir)
	own, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{strings.TrimSpace(string(own)), strings.Fields(run(exitOK, "key", "create", "other").stdout)[0]} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.Gateway+"/api/v1/events/stream",
			strings.NewReader("{\"type\":\"job_start\",\"session_id\":\"s\"\nnonsense\n{]\n"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+key)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode >= 300 {
			t.Fatalf("sent with %q: %s", key, res.Status)
		}
	}
	const kept = "SELECT groupArray((tenant, n)) FROM (SELECT tenant, count() > 0 AS n FROM warpline.rejects GROUP BY tenant ORDER BY tenant)"
	eventually(t, sql, kept, "[('default',1),('other',1)]")
	const refused = "SELECT sum(rejected) FROM warpline.usage WHERE tenant = 'other'"
	eventually(t, sql, refused, "3")
	settled(t, dir)

	run(exitUsage, "reject", "drop", "--tenant", "other") // nobody can be asked
	run(exitUsage, "reject", "drop", "--yes")
	run(exitUsage, "reject", "drop", "--resume", "--tenant", "other")
	for _, command := range [][]string{{"reject", "drop", "--yes"}, {"reject", "replay"}} {
		for _, flag := range []string{"--from", "--to"} {
			got := run(exitUsage, append(command, flag, "yesterday")...)
			if !strings.Contains(got.stderr, `"yesterday"`) || strings.Contains(got.stderr, "which rejects?") {
				t.Errorf("%v %s: %s", command, flag, got.stderr)
			}
		}
	}
	if got := run(exitUsage, "reject", "list", "--from", "1h", "--to", "2h"); !strings.Contains(got.stderr, "from is after to") {
		t.Error(got.stderr)
	}
	run(exitOK, "reject", "drop", "--resume")
	for _, no := range [][]string{{"--reason", "no_such"}, {"--tenant", "oth"}, {"--tenant", "other", "--reason", "x' OR '1'='1"},
		{"--session", "') OR (1=1"}, {"--tenant", "other", "--to", "1000h"}} {
		run(exitOK, append([]string{"reject", "drop", "--yes"}, no...)...)
	}
	eventually(t, sql, kept, "[('default',1),('other',1)]")
	got := run(exitOK, "reject", "drop", "--yes", "--tenant", "other", "--json")
	var one struct {
		Tenant string
		Rows   int
	}
	if err := json.Unmarshal([]byte(got.stdout), &one); err != nil || one.Tenant != "other" || one.Rows == 0 {
		t.Errorf("%+v: %v", got, err)
	}
	eventually(t, sql, kept, "[('default',1)]")
	eventually(t, sql, refused, "3")
	id := query(t, sql, "SELECT any(reject_id) FROM warpline.rejects")
	run(exitOK, "reject", "drop", "--yes", id)
	eventually(t, sql, "SELECT count() FROM warpline.rejects WHERE reject_id = '"+id+"'", "0")
	balanced(t, "--deep", "--data", dir)
	balanced(t, "--tenant", "other", "--from", "1d", "--data", dir)
	for _, none := range [][]string{{"--tenant", "othr"}, {"--from", "2020-01-01", "--to", "2020-01-02"}} {
		if got := run(exitOK, append([]string{"audit"}, none...)...); !strings.Contains(got.stderr, "nothing came") {
			t.Errorf("%v: %s", none, got.stderr)
		}
	}
	run(exitUsage, "audit", "--tenant", "other", "--accept")
	run(exitUsage, "audit", "--from", "2026-11-20", "--to", "2026-11-19")
	run(exitUsage, "audit", "--from", "yesterday")
}

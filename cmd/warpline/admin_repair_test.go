package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
)

// hostileIDs are session ids that a path has to escape, or that a server that cleans paths would lead elsewhere.
var hostileIDs = []string{"a/b", "a", "100%", "%2F", "x:y", "..", ".", "a?b#c&d=e+f", "日本 é", `q"'\`, strings.Repeat("l", 256)}

// An administrator audits, drops, brings back, deletes and purges over the API what is its own, with a client that goes away amid a drop.
// The books balance after each, and nothing of another tenant is touched, named or there.
func TestAdminAPIRepairs(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir, "--admin-listen", "127.0.0.1:0")...)
	up.await(t, "msg=ready")
	at := regexp.MustCompile(`msg=ready .* admin=(127\S+)`).FindStringSubmatch(up.words.String())
	r, err := service.ReadRunning(dir)
	if err != nil || at == nil {
		t.Fatal(err, up.words.String())
	}
	sql := asReader(t, dir, r.ClickHouseHTTP)
	t.Cleanup(func() {
		if t.Failed() {
			for line := range strings.Lines(up.words.String()) {
				if strings.Contains(line, "administrator") {
					t.Log(line)
				}
			}
		}
	})
	run := runAt(t, dir)
	key := func(args ...string) string {
		t.Helper()
		return strings.TrimSpace(run(exitOK, append([]string{"key", "create"}, args...)...).stdout)
	}
	operator, own, others := key("--operator"), key("default", "--scope", "admin"), key("other", "--scope", "admin")
	both := map[string]string{"default": key("default"), "other": key("other")}
	post := func(key, lines string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+r.Gateway+"/api/v1/events/stream", strings.NewReader(lines))
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
			t.Fatal(res.Status)
		}
	}
	quoted := func(text string) string {
		b, _ := json.Marshal(text)
		return string(b)
	}
	content := func(key, of string) {
		t.Helper()
		for began := time.Now(); ; time.Sleep(200 * time.Millisecond) { // it may look while something is on its way
			got, raw := askAdmin(t, r.Gateway, key, "GET", "audit?tenant="+of, "", 200)
			if problems, _ := got["problems"].([]any); len(problems) == 0 && len(got["Usage"].([]any)) > 0 {
				return
			}
			if time.Since(began) > 60*time.Second {
				t.Fatalf("the audit of %s: %s", of, raw)
			}
		}
	}
	run(exitOK, "send", "../../testdata/gpuflight/trace_default")
	for _, key := range both {
		post(key, "{\"type\":\"job_start\",\"session_id\":\"s\"\nnonsense\n{]\n")
	}
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "300")
	eventually(t, sql, "SELECT sum(calls) FROM warpline.kernel_stats", "280")
	const kept = "SELECT groupArray((tenant, n)) FROM (SELECT tenant, count() > 0 AS n FROM warpline.rejects GROUP BY tenant ORDER BY tenant)"
	eventually(t, sql, kept, "[('default',1),('other',1)]")
	eventually(t, sql, "SELECT sum(rejected) FROM warpline.usage WHERE tenant = 'default'", "3")
	settled(t, dir)

	// Rejects are dropped, also where the client goes away once it is noted which.
	got, raw := askAdmin(t, at[1], own, "POST", "rejects/drop", `{"reason":"bad_json","dry_run":true}`, 200)
	if picked, _ := got["picked"].([]any); len(picked) != 1 || got["dropped"] != 0.0 || strings.Contains(raw, "other") {
		t.Error(raw)
	}
	askAdmin(t, at[1], own, "POST", "rejects/drop", `{"tenant":"other"}`, 404)
	askAdmin(t, at[1], own, "POST", "rejects/drop", `{}`, 400)
	nc, err := service.Connect(t.Context(), dir, service.NATS{})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	streams, err := nc.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	defer leave()
	notes, err := streams.Marks.Watch(t.Context(), "drop")
	if err != nil {
		t.Fatal(err)
	}
	defer notes.Stop()
	req, err := http.NewRequestWithContext(gone, http.MethodPost, "http://"+at[1]+admin.Path+"rejects/drop",
		strings.NewReader(`{"reason":"bad_json"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+own)
	left := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		left <- err
	}()
	begun, ended := false, false
	for deadline := time.After(3 * time.Minute); !ended; {
		select {
		case e := <-notes.Updates():
			switch {
			case e == nil:
			case len(e.Value()) > 0 && !begun:
				begun = true
				leave()
			case len(e.Value()) == 0:
				ended = true
			}
		case <-deadline:
			t.Fatal("the drop has no end: begun ", begun)
		}
	}
	<-left
	eventually(t, sql, kept, "[('other',1)]")
	eventually(t, sql, "SELECT sum(rejected) FROM warpline.usage WHERE tenant = 'default'", "3")
	eventually(t, sql, "SELECT outcome FROM warpline.admin_log WHERE action = 'reject drop'", "done")
	content(own, "default")
	askAdmin(t, r.Gateway, own, "GET", "audit?tenant=other", "", 404)
	askAdmin(t, r.Gateway, own, "GET", "audit?deep=true", "", 403)
	content(operator, "other")

	// What somebody took from tables comes back, and what was dropped does not.
	srv, err := service.WriterOf(dir, "warpline")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := srv.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const take = "ALTER TABLE warpline.kernels_data DELETE WHERE corr_id % 3 = 0 SETTINGS mutations_sync = 2"
	if err := conn.Exec(t.Context(), take); err != nil {
		t.Fatal(err)
	}
	lost := query(t, sql, "SELECT 300 - count() FROM warpline.kernels")
	got, raw = askAdmin(t, r.Gateway, own, "GET", "audit", "", 200)
	if problems := fmt.Sprint(got["problems"]); !strings.Contains(problems, "table kernels_data") ||
		!strings.Contains(problems, lost+" rows fewer than it was given: warpline replay --tenant default") {
		t.Errorf("%s rows are lost: %s", lost, raw)
	}
	if _, raw := askAdmin(t, r.Gateway, others, "GET", "audit", "", 200); strings.Contains(raw, "default") ||
		strings.Contains(raw, "kernels") {
		t.Errorf("another tenant's audit: %s", raw)
	}
	if _, raw := askAdmin(t, r.Gateway, others, "POST", "replay", `{}`, 200); strings.Contains(raw, "kernels") {
		t.Errorf("another tenant's replay: %s", raw)
	}
	for _, c := range []struct{ body, back string }{{`{"table":"kernels_data","dry_run":true}`, "0"}, {`{"table":"kernels_data"}`, lost}} {
		got, raw = askAdmin(t, r.Gateway, own, "POST", "replay", c.body, 200)
		tables, _ := got["Tables"].([]any)
		if len(tables) != 1 {
			t.Fatal(raw)
		}
		if one := tables[0].(map[string]any); fmt.Sprint(one["Missing"]) != lost || fmt.Sprint(one["Back"]) != c.back || got["Chunks"] != 0.0 {
			t.Errorf("%s: %s", c.body, raw)
		}
	}
	askAdmin(t, r.Gateway, operator, "POST", "replay", `{}`, 200)
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "300")
	eventually(t, sql, kept, "[('other',1)]")
	content(own, "default")
	settled(t, dir)
	if got, raw := askAdmin(t, r.Gateway, operator, "GET", "audit?deep=true", "", 200); fmt.Sprint(got["problems"]) != "[]" ||
		got["Deep"] == nil || len(got["Lanes"].([]any)) == 0 {
		t.Error(raw)
	}

	// Sessions are deleted by their whole ids, whatever these are.
	for of, key := range both {
		for _, id := range hostileIDs {
			post(key, fmt.Sprintf("{\"type\":\"job_start\",\"session_id\":%s,\"app\":%q}\n", quoted(id), of))
		}
	}
	sessions := func(of string) string {
		return "SELECT uniqExact(session_id) FROM warpline.sessions_data WHERE session_id NOT IN ('s', 'unknown') AND tenant = '" + of +
			"'"
	}
	eventually(t, sql, sessions("other"), fmt.Sprint(len(hostileIDs)))
	const captured = "dbca9991-838e-4545-b1e3-570e3dac0e39"
	eventually(t, sql, sessions("default"), fmt.Sprint(len(hostileIDs)+1))
	for i, id := range append(hostileIDs, captured) {
		path := "tenants/default/sessions/" + url.PathEscape(id) + "?wait_seconds=60"
		askAdmin(t, r.Gateway, others, "DELETE", path, "", 404)
		addr := []string{r.Gateway, at[1]}[i%2]
		if got, raw := askAdmin(t, addr, own, "DELETE", path, "", 200); got["done"] != true || got["session_id"] != id ||
			got["removed"].(map[string]any)["sessions_data"] == nil {
			t.Errorf("%q: %s", id, raw)
		}
		if got, _ := askAdmin(t, addr, own, "DELETE", path, "", 404); got["error"] != "no_such_session" {
			t.Errorf("%q again: %v", id, got)
		}
		eventually(t, sql, sessions("default"), fmt.Sprint(len(hostileIDs)-i))
	}
	eventually(t, sql, sessions("other"), fmt.Sprint(len(hostileIDs)))
	content(own, "default")

	askAdmin(t, r.Gateway, operator, "POST", "tenants/other/retain", `{"class":"default","dry_run":true}`, 200)
	got, raw = askAdmin(t, r.Gateway, operator, "POST", "tenants/other/purge", `{"revoke_keys":true,"wait_seconds":60}`, 200)
	if got["done"] != true || got["revoked_keys"] != 2.0 || strings.Contains(raw, "default") {
		t.Error(raw)
	}
	eventually(t, sql, sessions("other"), "0")
	balanced(t, "--data", dir)
	eventually(t, sql, "SELECT countIf(action = 'reject drop'), countIf(action = 'replay'), countIf(action = 'session delete'), "+
		"countIf(action = 'tenant purge'), countIf(outcome != 'done'), countIf(change LIKE '%"+captured+"%' OR object LIKE '%"+captured+
		"%') FROM warpline.admin_log FORMAT CSV", fmt.Sprintf("1,3,%d,1,0,0", len(hostileIDs)+1))
}

package admin_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
)

// What is asked for of another tenant, oddly or too much, is refused with what to do, changes nothing and is not in the log.
func TestHostileRepairs(t *testing.T) {
	r := start(t, rowsOfTwo(t))
	ids := r.rows.Query("SELECT arrayStringConcat(groupArray(reject_id), '\",\"') FROM {db}.rejects WHERE tenant = 'globex'")
	all := []struct {
		who, method, path, body string
		status                  int
	}{
		{"acme admin", "POST", "rejects/drop", `{"tenant":"globex"}`, 404},
		{"acme admin", "POST", "rejects/drop", `{"tenant":"' OR 1=1 --"}`, 404},
		{"acme admin", "POST", "rejects/drop", `{"tenant":"acme","session_id":"x' OR '1'='1"}`, 200},
		{"acme admin", "POST", "rejects/drop", `{"reason":"x') OR (1=1"}`, 200},
		{"acme admin", "POST", "rejects/drop", `{"type":"\\' OR 1=1 /*"}`, 200},
		{"acme admin", "POST", "rejects/drop", `{"reject_ids":["` + ids + `"]}`, 200}, // another's: none is picked
		{"acme admin", "POST", "rejects/drop", `{"reject_ids":["%"]}`, 400},
		{"acme admin", "POST", "rejects/drop", `{"reject_ids":[]}`, 400},
		{"acme admin", "POST", "rejects/drop", `{"dry_run":true}`, 400},
		{"acme admin", "POST", "rejects/drop", `{"from":"yesterday"}`, 400},
		{"acme admin", "POST", "rejects/drop", `{"tenant":"acme","limit":1}`, 400},
		{"acme admin", "GET", "audit?tenant=globex", "", 404},
		{"acme admin", "GET", "audit?tenant=ac%27me", "", 404},
		{"operator", "GET", "audit?tenant=%2A", "", 404},
		{"acme admin", "GET", "audit?deep=true", "", 403},
		{"acme admin", "GET", "audit?deep=1", "", 400},
		{"acme admin", "GET", "audit?from=7d", "", 400},
		{"acme admin", "GET", "audit?from=2026-11-20&to=2026-11-19", "", 400},
		{"acme admin", "POST", "audit", "", 405},
		{"acme admin", "POST", "replay", `{"tenant":"globex"}`, 404},
		{"acme admin", "POST", "replay", `{"table":"ledger"}`, 403},
		{"acme admin", "POST", "replay", `{"table":"kernels_data; DROP TABLE x"}`, 400},
		{"acme admin", "POST", "replay", `{"table":"system.tables"}`, 400},
		{"acme admin", "POST", "replay", `{"from":"1969-01-01"}`, 400},
		{"acme admin", "GET", "replay", "", 405},
		{"acme admin", "DELETE", "tenants/globex/sessions/s", "", 404},
		{"acme admin", "DELETE", "tenants/globex/sessions/s?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/%2A/sessions/s?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/acme%2E%3E/sessions/s?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/%00?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/%FF?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/" + strings.Repeat("x", 257) + "?force=true", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/nothing", "", 404},
		{"acme admin", "DELETE", "tenants/acme/sessions/s?wait_seconds=61", "", 400},
		{"acme admin", "DELETE", "tenants/acme/sessions/s?wait_seconds=x", "", 400},
		{"acme admin", "DELETE", "tenants/acme/sessions/s?force=yes", "", 400},
		{"acme admin", "DELETE", "tenants/acme/sessions/s", "{}", 400},
		{"acme admin", "GET", "tenants/acme/sessions/s", "", 405},
		{"acme admin", "DELETE", "tenants/acme/sessions", "", 404},
		{"acme admin", "POST", "tenants/acme/purge", `{}`, 403},
		{"acme admin", "POST", "tenants/globex/purge", `{}`, 404},
		{"operator", "POST", "tenants/nobody/purge", `{}`, 404},
		{"operator", "POST", "tenants/%2A/purge", `{"force":true}`, 404},
		{"operator", "POST", "tenants/acme/purge", `{"wait_seconds":-1}`, 400},
		{"acme admin", "POST", "tenants/globex/retain", `{"class":"short"}`, 404},
		{"acme admin", "GET", "tenants/globex/retain", "", 404},
		{"operator", "POST", "tenants/acme/retain", `{"class":"long"}`, 400},
		{"operator", "POST", "tenants/acme/retain", `{"class":""}`, 400},
		{"operator", "POST", "tenants/%3E/retain", `{"class":"short"}`, 404},
	}
	for _, c := range all {
		a := r.want(c.status, c.who, c.method, c.path, c.body)
		if c.status == 200 && fmt.Sprint(a.fields["picked"]) != "[]" {
			t.Errorf("%s %s picks something: %s", c.path, c.body, a.raw)
		}
		if c.status >= 400 && (a.header.Get("Content-Type") != "application/problem+json" || a.text("detail") == "") {
			t.Errorf("%s %s: %s", c.path, c.body, a.raw)
		}
		for _, who := range []string{"acme ingest", "acme read", "globex read", "dev"} {
			if a := r.ask(who, c.method, c.path, c.body); a.status != 403 && a.status != 404 && a.status != 405 {
				t.Errorf("%s: %s %s: %s", who, c.method, c.path, a.raw)
			}
		}
	}
	if words, _ := r.words(); len(words) > 0 {
		t.Errorf("the log has %d words", len(words))
	}
	if got := r.rows.Query("SELECT count() FROM {db}.rejects"); got != "14" {
		t.Errorf("%s rejects are left", got)
	}
	info, err := r.streams.Ingest.Info(t.Context())
	if err != nil || info.State.Msgs != uint64(r.before) {
		t.Errorf("INGEST has %+v (%v)", info.State, err)
	}
}

// An audit, and a replay or drop, is made by one at a time in the service, whichever gateway or command it is; who was refused comes before
// whoever had it.
func TestOneAtATime(t *testing.T) {
	r := start(t, rowsOfTwo(t))
	for work, ask := range map[admin.Work][][3]string{
		admin.Audit: {{"GET", "audit", ""}},
		admin.Repair: {{"POST", "replay", `{"dry_run":true,"table":"kernels_data"}`}, {"POST", "rejects/drop", `{"tenant":"acme"}`},
			{"POST", "replay", `{"table":"kernels_data"}`}},
	} {
		_, end, err := admin.TakeTurn(t.Context(), r.streams, work)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range ask {
			for _, who := range []string{"acme admin", "operator"} {
				if a := r.want(429, who, c[0], c[1], c[2]); a.code() != string(work)+"_under_way" || a.header.Get("Retry-After") == "" {
					t.Error(a.raw)
				}
			}
		}
		waited := false
		waiting := make(chan error, 1)
		go func() {
			_, end, err := admin.AwaitTurn(t.Context(), r.streams, work, func() { waited = true })
			if err == nil {
				end()
			}
			waiting <- err
		}()
		r.await(func() bool { // it is renewed for as long as it is held
			_, other, err := admin.TakeTurn(t.Context(), r.streams, work)
			if err == nil {
				other()
				t.Error("two have the turn")
			}
			return waited
		})
		end()
		if err := <-waiting; err != nil {
			t.Error(err)
		}
	}
	r.want(200, "acme admin", "POST", "replay", `{"table":"kernels_data","from":"2026-11-20"}`)
}

// underWay reports whether somebody has the turn of some work.
func (r *rig) underWay(of admin.Work) bool {
	_, err := r.streams.Leases.Get(r.t.Context(), "admin.turn."+string(of))
	return err == nil
}

// An audit whose client goes away ends, and the next can begin.
func TestWorkEndsWithItsClient(t *testing.T) {
	r := start(t, rowsOfTwo(t)) // rows without books: the audit looks several times
	ctx, leave := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+admin.Path+"audit", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.secrets["operator"])
	gone := make(chan error, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			res.Body.Close()
		}
		gone <- err
	}()
	r.await(func() bool { return r.underWay(admin.Audit) })
	leave()
	if err := <-gone; err == nil {
		t.Fatal("the audit was answered before its client could go")
	}
	r.await(func() bool { return !r.underWay(admin.Audit) && r.told.has("client_gone") })
}

// Who asks for another retention class sees whether somebody else did meanwhile; sessions have nothing that could have changed.
func TestRequestsHaveRevisions(t *testing.T) {
	r := start(t, nil)
	first := r.want(202, "operator", "POST", "tenants/acme/retain", `{"class":"short"}`)
	etag := first.header.Get("ETag")
	if got := r.want(200, "acme admin", "GET", "tenants/acme/retain", ""); etag == "" || got.header.Get("ETag") != etag ||
		got.text("class") != "short" || got.fields["done"] != false || got.fields["raw_days"] != 1.0 {
		t.Errorf("%s %s", etag, got.raw)
	}
	r.want(202, "operator", "POST", "tenants/acme/retain", `{"class":"default"}`, "If-Match", etag)
	if a := r.want(412, "operator", "POST", "tenants/acme/retain", `{"class":"short"}`, "If-Match", etag); a.code() != "changed" {
		t.Error(a.raw)
	}
	r.want(412, "operator", "POST", "tenants/globex/retain", `{"class":"short"}`, "If-Match", etag)
	if a := r.want(200, "operator", "GET", "tenants/acme/retain", ""); a.text("class") != "default" {
		t.Error(a.raw)
	}
	was := r.want(200, "operator", "GET", "tenants/acme", "").header.Get("ETag")
	r.want(200, "operator", "PATCH", "tenants/acme", `{"note":"other"}`)
	r.want(412, "operator", "POST", "tenants/acme/purge", `{"force":true,"wait_seconds":0}`, "If-Match", was)
	r.want(412, "acme admin", "DELETE", "tenants/acme/sessions/s?force=true&wait_seconds=0", "", "If-Match", was)
	words, raw := r.words()
	if len(words) != 2+2+2 || !strings.Contains(raw, `"tenant retain"`) {
		t.Errorf("%d words of two requests and a change: %s", len(words), raw)
	}
}

// A deletion stores one tombstone of the session of the id that the path has, escaped as it must be, and its id is not in the log.
func TestDeletionsOfOddIDs(t *testing.T) {
	r := start(t, nil)
	ids := []string{"a/b", "100%", "%2F", "x:y", "..", "a?b#c", "日本", "a b"}
	for _, id := range ids {
		a := r.want(202, "acme admin", "DELETE", "tenants/acme/sessions/"+escaped(id)+"?force=true&wait_seconds=0", "")
		if a.text("session_id") != id || a.fields["done"] != false {
			t.Errorf("%q: %s", id, a.raw)
		}
	}
	words, raw := r.words()
	if len(words) != 2*len(ids) || strings.Contains(raw, "日本") || strings.Contains(raw, "x:y") {
		t.Errorf("%d words: %s", len(words), raw)
	}
}

// escaped is an id as a segment of a path.
func escaped(id string) string { return strings.ReplaceAll(url.PathEscape(id), ".", "%2E") }

// A tenant whose audit took long leaves the next one to others that were refused meanwhile, and has its turn again after one of them.
func TestOthersComeFirst(t *testing.T) {
	r := start(t, rowsOfTwo(t)) // rows without books: an audit of them looks several times
	const short = "audit?from=2040-01-01"
	answered := make(chan answer, 1)
	go func() { answered <- r.ask("acme admin", "GET", "audit", "") }()
	r.await(func() bool { return r.underWay(admin.Audit) })
	began := time.Now()
	r.want(429, "globex admin", "GET", short, "")
	if a := <-answered; a.status != 200 || len(a.fields["problems"].([]any)) == 0 {
		t.Fatal(a.raw)
	}
	took, ended := time.Since(began), time.Now()
	if a := r.ask("acme admin", "GET", short, ""); time.Since(ended) < took/2 && a.code() != "others_first" {
		t.Errorf("the audit took %s, and the next of this tenant: %s", took, a.raw)
	}
	r.want(200, "globex admin", "GET", short, "")
	r.want(200, "acme admin", "GET", short, "")
}

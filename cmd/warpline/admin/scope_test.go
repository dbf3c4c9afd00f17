package admin_test

import (
	"strings"
	"testing"
)

// everything is each thing that can be asked for, of tenant acme: what its administrator and the operator are answered. A name in braces is
// a key's id. They come in an order in which none makes the next impossible.
var everything = []struct {
	method, path, body string
	admin, operator    int
}{
	{"GET", "status", "", 200, 200},
	{"GET", "tenants", "", 200, 200},
	{"GET", "tenants/acme", "", 200, 200},
	{"GET", "tenants/acme/keys", "", 200, 200},
	{"GET", "keys", "", 200, 200},
	{"GET", "keys/{acme read}", "", 200, 200},
	{"GET", "tenants/acme/usage", "", 503, 503}, // this gateway knows no ClickHouse
	{"GET", "rejects", "", 503, 503},
	{"GET", "rejects?tenant=acme", "", 503, 503},
	{"GET", "rejects/0123456789abcdef", "", 503, 503},
	{"POST", "rejects/replay", `{"reject_ids":["0123456789abcdef"],"tenant":"acme"}`, 503, 503},
	{"POST", "rejects/drop", `{"reject_ids":["0123456789abcdef"],"tenant":"acme"}`, 503, 503},
	{"POST", "rejects/drop", `{"tenant":"acme","dry_run":true}`, 503, 503},
	{"GET", "audit?tenant=acme", "", 503, 503},
	{"GET", "audit?tenant=acme&from=2026-11-01&to=2026-11-02", "", 503, 503},
	{"GET", "audit?tenant=acme&deep=true", "", 403, 503},
	{"POST", "replay", `{"tenant":"acme"}`, 503, 503},
	{"POST", "replay", `{"tenant":"acme","table":"kernels_data","from":"2026-11-01","dry_run":true}`, 503, 503},
	{"POST", "replay", `{"tenant":"acme","table":"ledger"}`, 403, 503},
	{"GET", "tenants/acme/retain", "", 404, 404}, // nobody has asked
	{"POST", "tenants/acme/retain", `{"class":"short","dry_run":true}`, 403, 503},
	{"POST", "tenants/acme/retain", `{"class":"short"}`, 403, 202},
	{"GET", "tenants/acme/retain", "", 200, 200},
	{"DELETE", "tenants/acme/sessions/s", "", 503, 503},
	{"DELETE", "tenants/acme/sessions/s?force=true&wait_seconds=0", "", 202, 202}, // nothing runs here that carries it out
	{"POST", "tenants/acme/purge", `{}`, 403, 503},
	{"POST", "tenants/acme/purge", `{"force":true,"wait_seconds":0}`, 403, 202},
	{"POST", "tenants", `{"name":"fresh-NAME"}`, 403, 400},
	{"PATCH", "tenants/acme", `{"note":"changed"}`, 403, 200},
	{"POST", "tenants/acme/enable", "", 403, 200},
	{"POST", "tenants/acme/keys", `{"note":"made"}`, 201, 201},
	{"POST", "keys", `{"tenant":"acme","scope":"admin"}`, 201, 201},
	{"POST", "keys", `{"scope":"operator"}`, 403, 201},
	{"PATCH", "keys/{acme ingest}", `{"note":"changed"}`, 200, 200},
	{"POST", "keys/{acme ingest}/rotate", "", 201, 201},
	{"DELETE", "tenants/acme", "", 403, 409}, // it has keys
	{"DELETE", "keys/{acme ingest}", "", 200, 200},
}

// An operator may everything, an administrator what is its tenant's; for another administrator nothing of it is there, and no other scope
// opens anything.
func TestWhoMayWhat(t *testing.T) {
	r := start(t, nil)
	for _, c := range everything {
		r.want(401, "", c.method, c.path, c.body)
		r.want(401, "gpfl_guessed", c.method, c.path, c.body)
		for _, who := range []string{"dev", "acme ingest", "acme read", "globex read"} {
			if strings.Contains(c.path, "acme ingest") && who == "acme ingest" {
				continue // rotated and revoked in the end
			}
			a := r.want(403, who, c.method, c.path, c.body)
			if a.code() != "wrong_scope" || !strings.Contains(a.header.Get("WWW-Authenticate"), "insufficient_scope") {
				t.Errorf("%s: %s", who, a.raw)
			}
		}
		r.want(c.admin, "acme admin", c.method, c.path, c.body)
		r.want(c.operator, "operator", c.method, c.path, c.body)
	}
	r.want(200, "operator", "POST", "tenants/acme/disable", "")
	r.await(func() bool { return r.ask("acme admin", "GET", "status", "").code() == "tenant_disabled" })
	r.want(200, "operator", "GET", "tenants/acme", "")
	if a := r.ask("globex admin", "GET", "status", ""); a.fields["stores"] != nil || a.status != 200 {
		t.Errorf("an administrator sees the service's stores: %s", a.raw)
	}
}

// What another tenant has is not there: the answers are those to what does not exist, to the letter.
func TestAnotherTenantIsNotThere(t *testing.T) {
	r := start(t, nil)
	for _, c := range everything {
		path, body := strings.ReplaceAll(c.path, "acme", "globex"), strings.ReplaceAll(c.body, "acme", "globex")
		none := strings.NewReplacer("{globex read}", "zzzzzzzz", "{globex ingest}", "zzzzzzzz", "globex", "nobody")
		if none.Replace(path+body) == path+body {
			continue // it names nothing of anybody
		}
		theirs := r.ask("acme admin", c.method, path, body)
		nobodys := r.ask("acme admin", c.method, none.Replace(path), none.Replace(body))
		if theirs.status != 404 && !(theirs.status == 403 && theirs.code() == "operator_only") {
			t.Errorf("%s %s %s: %s", c.method, path, body, theirs.raw)
		}
		if strings.ReplaceAll(theirs.raw, "globex", "nobody") != nobodys.raw {
			t.Errorf("%s %s %s: %s\nand of what does not exist: %s", c.method, path, body, theirs.raw, nobodys.raw)
		}
	}
	for _, path := range []string{"tenants", "keys", "tenants/acme/keys", "tenants/acme", "status"} {
		if a := r.want(200, "acme admin", "GET", path, ""); strings.Contains(a.raw, "globex") || strings.Contains(a.raw, r.ids["operator"]) {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	for _, who := range []string{"globex admin", "operator"} {
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			r.want(404, "acme admin", method, "keys/{"+who+"}", "")
		}
		r.want(404, "acme admin", "POST", "keys/{"+who+"}/rotate", "")
	}
	for who, wanted := range map[string]bool{"globex admin": true, "globex read": true, "operator": true} {
		if a := r.want(200, "operator", "GET", "keys/{"+who+"}", ""); (a.fields["revoked"] == nil) != wanted || a.text("expires") != "" {
			t.Errorf("the key was touched: %s", a.raw)
		}
	}
	if a := r.want(200, "operator", "GET", "tenants/globex", ""); a.text("note") != "note of globex" || a.fields["valid_keys"] != 3.0 {
		t.Errorf("the tenant was touched: %s", a.raw)
	}
}

// Nobody makes a key that is stronger than themselves, on no way.
func TestNoStrongerKeys(t *testing.T) {
	r := start(t, nil)
	for name, body := range map[string]string{
		"an operator's": `{"scope":"operator"}`, "an operator's without a tenant": `{"scope":"operator","tenant":""}`,
		"an operator's, null": `{"scope":"operator","tenant":null}`, "wider": `{"limit-events-per-second":1001}`,
		"wider than the service": `{"limit-body":1000000000000}`, "kept for longer": `{"retention-days":8}`,
		"with more names than the service gives": `{"limit-names":1001}`,
	} {
		if a := r.want(403, "acme admin", "POST", "keys", body); a.code() != "stronger_key" {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	r.want(403, "acme admin", "POST", "tenants/acme/keys", `{"limit-burst-seconds":3}`)
	r.want(403, "acme admin", "PATCH", "keys/{acme ingest}", `{"limit-events-per-second":1e9}`)
	r.want(400, "acme admin", "PATCH", "keys/{acme ingest}", `{"scope":"admin"}`)
	r.want(400, "acme admin", "PATCH", "keys/{acme admin}", `{"limit-names":1}`)
	if a := r.want(201, "acme admin", "POST", "keys", `{"limit-events-per-second":1000}`); a.text("tenant") != "acme" {
		t.Error(a.raw)
	}
	// What the operator made wider stays so, and can be changed otherwise and rotated, but makes no others wide.
	wide := r.want(201, "operator", "POST", "tenants/acme/keys", `{"limit-events-per-second":9999}`).text("id")
	r.want(200, "acme admin", "PATCH", "keys/"+wide, `{"note":"ours"}`)
	r.want(403, "acme admin", "PATCH", "keys/"+wide, `{"limit-events-per-second":9998}`)
	r.want(201, "acme admin", "POST", "keys/"+wide+"/rotate", "")
	// A key of the tenant that was lowered is lower for the next.
	r.want(200, "operator", "PATCH", "tenants/acme", `{"limit-events-per-second":10}`)
	r.want(403, "acme admin", "POST", "keys", `{"limit-events-per-second":11}`)
}

package admin_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/admin"
)

// A body that is not what it should be is refused, says what is wrong, and changes nothing.
func TestHostileBodies(t *testing.T) {
	r := start(t, nil)
	deep := strings.Repeat(`{"limits":`, 20000) + "1" + strings.Repeat("}", 20000)
	for name, c := range map[string]struct{ path, body, says string }{
		"no JSON":               {"tenants/acme", `note=x`, "no JSON"},
		"half":                  {"tenants/acme", `{"note":"x"`, "no JSON"},
		"two":                   {"tenants/acme", `{"note":"x"}{}`, "something follows"},
		"a list":                {"tenants/acme", `[{"note":"x"}]`, "use an object"},
		"text":                  {"tenants/acme", `"x"`, "use an object"},
		"an unknown field":      {"tenants/acme", `{"nota":"x"}`, `"nota" is no field here: use note, limit-events-per-second`},
		"another case":          {"tenants/acme", `{"Note":"x"}`, `"Note" is no field`},
		"a field of the record": {"tenants/acme", `{"declared":true}`, `"declared" is no field`},
		"the name":              {"tenants/acme", `{"name":"globex"}`, `"name" is no field`},
		"a long unknown field":  {"tenants/acme", `{"` + strings.Repeat("x", 5000) + `":1}`, "is no field"},
		"an unknown limit":      {"tenants/acme", `{"limits":{"event_per_second":1}}`, `limits."event_per_second" is no field`},
		"twice":                 {"tenants/acme", `{"note":"x","note":"y"}`, "note stands twice"},
		"a limit twice":         {"tenants/acme", `{"limits":{"names":1,"names":2}}`, "limits.names stands twice"},
		"text for a number":     {"tenants/acme", `{"limit-names":"1"}`, "limit-names: use a whole number"},
		"half a name":           {"tenants/acme", `{"limit-names":1.5}`, "limit-names: use a whole number"},
		"too many days":         {"tenants/acme", `{"retention-days":70000}`, "retention-days: use a whole number"},
		"below zero":            {"tenants/acme", `{"limit-body":-1}`, "limit-body: -1"},
		"no number":             {"tenants/acme", `{"limit-events-per-second":NaN}`, "no JSON"},
		"endless":               {"tenants/acme", `{"limit-events-per-second":1e999}`, "limit-events-per-second: use a number"},
		"a policy":              {"tenants/acme", `{"quota-policy":"never"}`, "use hold or drop"},
		"limits of a list":      {"tenants/acme", `{"limits":[]}`, "limits: use an object"},
		"a terminal":            {"tenants/acme", `{"note":"\u001b[2J"}`, "cannot be printed"},
		"a long note":           {"tenants/acme", `{"note":"` + strings.Repeat("x", 501) + `"}`, "at most 500"},
		"deep":                  {"tenants/acme", deep[:60000], "no JSON"},
		"a time":                {"keys/{acme ingest}", `{"expires":"tomorrow"}`, "expires: use a time"},
		"no UTF-8":              {"keys/{acme ingest}", "{\"note\":\"\xff\"}", "not UTF-8"},
		"revoked":               {"keys/{acme ingest}", `{"revoked":null}`, `"revoked" is no field`},
	} {
		a := r.ask("operator", "PATCH", c.path, c.body)
		if a.status != 400 || !strings.Contains(a.text("detail"), c.says) || len(a.raw) > 1000 {
			t.Errorf("%s: %.300s, want 400 and %q", name, a.raw, c.says)
		}
	}
	for name, body := range map[string]string{"a scope": `{"scope":"root"}`, "an old expiry": `{"expires":"2020-01-01T00:00:00Z"}`,
		"another tenant": `{"tenant":"globex"}`, "an id": `{"id":"mine"}`, "a secret": `{"secret":"gpfl_mine"}`} {
		if a := r.want(400, "operator", "POST", "tenants/acme/keys", body); len(a.list("keys")) > 0 {
			t.Error(name)
		}
	}
	for _, name := range []string{"", "A", "a.b", "a>", "*", "a/b", "-a", strings.Repeat("a", 64), "ä"} {
		r.want(400, "operator", "POST", "tenants", fmt.Sprintf(`{"name":%q}`, name))
	}
	r.want(400, "operator", "POST", "keys/{acme ingest}/rotate", `{"overlap_seconds":-1}`)
	r.want(400, "operator", "POST", "keys/{acme ingest}/rotate", `{"overlap_seconds":99999999999}`)
	r.want(400, "operator", "DELETE", "keys/{acme ingest}", `{}`)
	r.want(413, "operator", "PATCH", "tenants/acme", `{"note":"`+strings.Repeat("x", 100<<10)+`"}`)
	r.want(415, "operator", "PATCH", "tenants/acme", `{}`, "Content-Encoding", "gzip")
	if a := r.want(200, "operator", "GET", "tenants/acme", ""); a.text("note") != "note of acme" ||
		!strings.Contains(a.raw, `"limit-events-per-second":1000`) {
		t.Errorf("it changed: %s", a.raw)
	}
	if n := len(r.want(200, "operator", "GET", "tenants", "").list("tenants")); n != 2 {
		t.Errorf("%d tenants, want 2", n)
	}
}

// A body without an announced length is not read beyond the bound, and one that does not come holds nothing.
func TestBodiesAreBounded(t *testing.T) {
	r := start(t, nil)
	conn, err := net.Dial("tcp", r.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "PATCH %stenants/acme HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nTransfer-Encoding: chunked\r\n\r\n", admin.Path,
		r.secrets["operator"])
	go func() {
		for range 1000 { // 64 MiB, if somebody read it
			if _, err := fmt.Fprintf(conn, "10000\r\n%s\r\n", strings.Repeat(" ", 64<<10)); err != nil {
				return
			}
		}
	}()
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || res.StatusCode != 413 {
		t.Errorf("%v %v", res, err)
	}
}

// Paths that are nearly one of the API's are none, and none leads elsewhere.
func TestOddPaths(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"", "tenants/", "tenants//keys", "tenants/acme/", "tenants/acme/keys/", "keys/", "tenants/../keys",
		"./tenants", "tenants/acme%2Fkeys/x", "keys/%2e%2e/tenants", "rejects/replay/x", "nothing", "tenants/acme/usage/x"} {
		a := r.want(404, "operator", "GET", path, "")
		if a.header.Get("Content-Type") != "application/problem+json" || a.code() == "" {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	for _, path := range []string{"tenants/%00", "tenants/%C3%A4", "tenants/*", "tenants/%3E", "keys/*", "keys/" + strings.Repeat("x", 4000),
		"tenants/ACME", "keys/%20", "tenants/acme%00"} {
		r.want(404, "operator", "GET", path, "")
		r.want(404, "acme admin", "GET", path, "")
	}
	a := r.want(405, "operator", "PUT", "tenants/acme", "{}")
	if a.header.Get("Allow") != "GET, PATCH, DELETE" {
		t.Error(a.header)
	}
	r.want(405, "operator", "GET", "rejects/replay", "")
	if a := r.want(200, "operator", "HEAD", "tenants/acme", ""); a.header.Get("ETag") == "" || len(a.fields) > 0 {
		t.Error(a.raw)
	}
	// A page of another origin gets no leave to ask.
	if a := r.ask("operator", "OPTIONS", "tenants", "", "Origin", "http://evil.example"); a.status != 405 ||
		a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Error(a.raw, a.header)
	}
	for _, with := range []string{"Basic YWRtaW46YWRtaW4=", "Bearer", "Bearer " + strings.Repeat("x", 8000), "bearer\t"} {
		r.want(401, "", "GET", "tenants", "", "Authorization", with)
	}
}

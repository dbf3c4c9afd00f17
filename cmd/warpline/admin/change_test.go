package admin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/proto/tenant"
)

// Who changes what is not as they saw it any more is told so, and changes nothing; without If-Match the last one wins, and no change
// undoes another.
func TestLostRaces(t *testing.T) {
	r := start(t, nil)
	for _, path := range []string{"tenants/acme", "keys/{acme ingest}"} {
		etag := r.want(200, "operator", "GET", path, "").header.Get("ETag")
		first := r.want(200, "operator", "PATCH", path, `{"note":"first"}`, "If-Match", etag)
		late := r.want(412, "operator", "PATCH", path, `{"note":"late"}`, "If-Match", etag)
		if late.code() != "changed" || first.header.Get("ETag") == etag || first.header.Get("ETag") == "" {
			t.Errorf("%s: %s with ETag %s, then %s", path, first.raw, first.header.Get("ETag"), late.raw)
		}
		for _, bad := range []string{`W/` + first.header.Get("ETag"), "7", `"0"`, `"x"`, `"1", "2"`, `"99999999999999999999"`} {
			r.want(412, "operator", "PATCH", path, `{"note":"bad"}`, "If-Match", bad)
			r.want(412, "operator", "DELETE", path, "", "If-Match", bad)
		}
		r.want(412, "operator", "DELETE", path, "", "If-Match", etag)
		if a := r.want(200, "operator", "GET", path, ""); a.text("note") != "first" || a.header.Get("ETag") != first.header.Get("ETag") {
			t.Error(a.raw)
		}
		same := r.want(200, "operator", "PATCH", path, `{"note":"first"}`, "If-Match", first.header.Get("ETag"))
		if same.header.Get("ETag") != first.header.Get("ETag") {
			t.Error("what changes nothing makes a new revision")
		}
		r.want(200, "operator", "PATCH", path, `{"note":"any"}`, "If-Match", "*")
	}
	for _, path := range []string{"tenants/acme/disable", "tenants/acme/enable", "keys/{acme ingest}/rotate"} {
		r.want(412, "operator", "POST", path, "", "If-Match", `"1000000"`)
	}
	if n := len(r.want(200, "operator", "GET", "tenants/acme/keys", "").list("keys")); n != 3 {
		t.Errorf("%d keys after a rotation that lost a race, want 3", n)
	}
	var all sync.WaitGroup
	fields := []string{"limit-names", "limit-open-scopes", "limit-uploads-at-once", "limit-name-length", "limit-line", "limit-body"}
	for i, field := range fields {
		all.Go(func() {
			r.want(200, "operator", "PATCH", "tenants/acme", fmt.Sprintf(`{%q:%d}`, field, i+1))
		})
	}
	all.Wait()
	limits := r.want(200, "operator", "GET", "tenants/acme", "").fields
	for i, field := range fields {
		if limits[field] != float64(i+1) {
			t.Errorf("%s is %v, want %d", field, limits[field], i+1)
		}
	}
	if limits["limit-events-per-second"] != 1000.0 {
		t.Errorf("what was left out changed: %v", limits)
	}
	// A key that is rotated by two at one revision has one successor.
	etag := r.want(200, "operator", "GET", "keys/{acme read}", "").header.Get("ETag")
	made := make([]int, 8)
	for i := range made {
		all.Go(func() { made[i] = r.ask("operator", "POST", "keys/{acme read}/rotate", "", "If-Match", etag).status })
	}
	all.Wait()
	if n := strings.Count(fmt.Sprint(made), "201"); n != 1 || strings.Count(fmt.Sprint(made), "412") != len(made)-1 {
		t.Errorf("answers %v, want one 201 and else 412", made)
	}
	if n := len(r.want(200, "operator", "GET", "tenants/acme/keys", "").list("keys")); n != 4 {
		t.Errorf("%d keys, want 4", n)
	}
}

// A tenant is made, changed, disabled and deleted; a key is made, works, is changed, rotated and ended. Secrets are told once.
func TestLifeOfTenantsAndKeys(t *testing.T) {
	r := start(t, nil)
	made := r.want(201, "operator", "POST", "tenants", `{"name":"initech","note":"third floor","limit-names":5,"quota-policy":"drop"}`)
	if made.header.Get("Location") != admin.Path+"tenants/initech" || made.header.Get("Cache-Control") != "no-store" {
		t.Error(made.header)
	}
	if a := r.want(409, "operator", "POST", "tenants", `{"name":"initech"}`); a.code() != "tenant_exists" {
		t.Error(a.raw)
	}
	back := r.want(200, "operator", "PATCH", "tenants/initech", `{"note":null,"limit-names":null,"quota-policy":"hold"}`)
	if !strings.Contains(back.raw, `"quota-policy":"hold"`) || back.text("note") != "" {
		t.Error(back.raw)
	}
	first := r.want(200, "operator", "POST", "tenants/initech/disable", "").text("disabled")
	if again := r.want(200, "operator", "POST", "tenants/initech/disable", "").text("disabled"); first == "" || again != first {
		t.Errorf("disabled at %q and again at %q", first, again)
	}
	r.want(200, "operator", "POST", "tenants/initech/enable", "")

	const soon = "2030-01-01T00:00:00Z"
	key := r.want(201, "operator", "POST", "tenants/initech/keys", `{"expires":"`+soon+`","note":"n"}`)
	id, secret := key.text("id"), key.text("secret")
	if key.text("expires") != soon || tenant.ID(secret) != id || key.header.Get("Location") != admin.Path+"keys/"+id {
		t.Error(key.raw)
	}
	send := func(secret string) int {
		req, _ := http.NewRequest("POST", "/api/v1/events/stream", strings.NewReader("{}\n"))
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("X-GpuFlight-Session-Id", "s")
		w := &recorder{header: http.Header{}}
		r.gateway.Handler().ServeHTTP(w, req)
		return w.status
	}
	if got := send(secret); got != 200 {
		t.Errorf("an upload with the new key: %d", got)
	}
	if a := r.want(409, "operator", "DELETE", "tenants/initech", ""); a.code() != "has_keys" {
		t.Error(a.raw)
	}
	if a := r.want(200, "operator", "PATCH", "keys/"+id, `{"expires":null}`); a.fields["expires"] != nil {
		t.Error(a.raw)
	}
	next := r.want(201, "operator", "POST", "keys/"+id+"/rotate", `{"overlap_seconds":0}`)
	if next.text("note") != "n" || next.text("secret") == secret || !strings.Contains(next.raw, `"replaces":{"id":"`+id) {
		t.Error(next.raw)
	}
	r.await(func() bool { return send(secret) == 401 && send(next.text("secret")) == 200 })
	if a := r.want(409, "operator", "POST", "keys/"+id+"/rotate", ""); a.code() != "key_ended" {
		t.Error(a.raw)
	}
	ended := r.want(200, "operator", "DELETE", "keys/"+next.text("id"), "").text("revoked")
	if again := r.want(200, "operator", "DELETE", "keys/"+next.text("id"), "").text("revoked"); ended == "" || again != ended {
		t.Errorf("revoked at %q and again at %q", ended, again)
	}
	r.want(409, "operator", "PATCH", "keys/"+next.text("id"), `{"note":"x"}`)
	r.await(func() bool { return send(next.text("secret")) == 401 })
	for _, path := range []string{"keys", "keys/" + id, "tenants", "status"} {
		if a := r.ask("operator", "GET", path, ""); strings.Contains(a.raw, secret) || strings.Contains(a.raw, tenant.Hash(secret)) {
			t.Errorf("%s tells a secret or its hash", path)
		}
	}
	r.want(204, "operator", "DELETE", "tenants/initech", "")
	r.want(404, "operator", "DELETE", "tenants/initech", "")
	r.want(404, "operator", "PATCH", "tenants/initech", `{}`)
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { r.status = max(r.status, 200); return len(p), nil }

// A tenant that a file declares is the file's.
func TestDeclaredTenants(t *testing.T) {
	r := start(t, nil)
	if _, err := r.desk.Tenants.Change(t.Context(), "acme", func(r *tenant.Record) { r.Declared = true }); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{"PATCH", ""}, {"DELETE", ""}, {"POST", "/disable"}, {"POST", "/enable"}} {
		if a := r.want(409, "operator", c[0], "tenants/acme"+c[1], ""); a.code() != "declared" {
			t.Error(a.raw)
		}
	}
	r.want(201, "acme admin", "POST", "tenants/acme/keys", "")
}

// Lists come in pages, of which each entry is on one, whatever is added meanwhile.
func TestPages(t *testing.T) {
	r := start(t, nil)
	want := map[string]bool{}
	for i := range 25 {
		name := fmt.Sprintf("t%02d", i)
		r.want(201, "operator", "POST", "tenants", `{"name":"`+name+`"}`)
		want[name] = true
	}
	got := map[string]int{}
	for after, pages := "", 0; ; pages++ {
		a := r.want(200, "operator", "GET", "tenants?limit=4&after="+after, "")
		for _, one := range a.list("tenants") {
			got[fmt.Sprint(one["name"])]++
		}
		if n := len(a.list("tenants")); n > 4 || pages > 20 {
			t.Fatalf("page %d has %d entries", pages, n)
		}
		if after = a.text("next"); after == "" {
			break
		}
	}
	for name, n := range got {
		if n != 1 {
			t.Errorf("%s is there %d times", name, n)
		}
	}
	for name := range want {
		if got[name] != 1 {
			t.Errorf("%s is there %d times", name, got[name])
		}
	}
	// Keys of one id, which people chose and which is before all others, are on one page, and cannot be told apart by it.
	for i := range 3 {
		if _, err := r.desk.Keys.Put(t.Context(), fmt.Sprintf("0-chosen-one-%d", i), "acme", "", tenant.Limits{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if a := r.want(200, "acme admin", "GET", "keys?limit=1", ""); len(a.list("keys")) != 3 || a.text("next") == "" {
		t.Error(a.raw)
	}
	if a := r.want(409, "acme admin", "DELETE", "keys/0-chosen", ""); a.code() != "ambiguous_key" {
		t.Error(a.raw)
	}
	for _, bad := range []string{"limit=0", "limit=-1", "limit=1001", "limit=x", "limit=1e3"} {
		r.want(400, "operator", "GET", "tenants?"+bad, "")
		r.want(400, "operator", "GET", "keys?"+bad, "")
	}
}

// An administrator that asks too often is told so, and does not slow another down.
func TestTooManyRequests(t *testing.T) {
	r := start(t, nil)
	slow := admin.NewAPI(admin.Config{Desk: r.desk, Gateway: r.gateway.Handler(), Authorize: r.authorize, TenantRate: 2})
	r.server = httptest.NewServer(slow)
	t.Cleanup(r.server.Close)
	refused := 0
	for range 50 {
		a := r.ask("acme admin", "GET", "status", "")
		if a.status == 429 && a.code() == "too_many_requests" && a.header.Get("Retry-After") != "" {
			refused++
		}
	}
	if refused == 0 {
		t.Error("none of 50 requests was refused, where 2 a second may come")
	}
	began := time.Now()
	r.want(200, "globex admin", "GET", "status", "")
	r.want(200, "operator", "GET", "status", "")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("another waited for %v", took)
	}
}

package ingest_test

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// Whoever is shut out while an upload comes does not get it in: a body may take minutes.
func TestShutOutAmidAnUpload(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys, tenants := ingest.NewKeys(r.streams.Keys), ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "disabled", "", tenant.Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		end    func(id string) error
		status int
	}{
		"revoked": {func(id string) error { _, err := keys.Revoke(t.Context(), id); return err }, 401},
		"disabled": {func(string) error {
			_, err := tenants.Change(t.Context(), "disabled", func(r *tenant.Record) { r.Disabled = time.Now() })
			return err
		}, 403},
		"as-before": {func(string) error { return nil }, 200},
	} {
		secret, key, err := keys.Create(t.Context(), name, "", tenant.Limits{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		body, w := io.Pipe()
		done := make(chan answer, 1)
		go func() {
			done <- r.do("POST", "/api/v1/events/stream", body, "Authorization", "Bearer "+secret, "X-GpuFlight-Session-Id", "s")
		}()
		if _, err := w.Write(ndjson("s", 5)); err != nil {
			t.Fatal(err)
		}
		eventually(t, soon, "the upload is under way", func() bool { return r.metric("active_requests") >= 1 })
		if err := c.end(key.ID); err != nil {
			t.Fatal(err)
		}
		if c.status != 200 {
			eventually(t, soon, "the next one is refused", func() bool {
				return r.post("t", nil, "Authorization", "Bearer "+secret).status == c.status
			})
		}
		w.Close()
		if a := <-done; a.status != c.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.raw, c.status)
		}
	}
	if all := r.published(); len(all) != 1 || all[0].Tenant != "as-before" {
		t.Errorf("%d parts are stored", len(all))
	}
}

// Each scope opens its own doors, of its own tenant; what does not open a door is told so, and nothing is taken.
func TestScopes(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys := ingest.NewKeys(r.streams.Keys)
	secret := map[tenant.Scope]string{}
	ids := map[tenant.Scope]string{}
	for _, scope := range []tenant.Scope{tenant.ScopeIngest, tenant.ScopeRead, tenant.ScopeAdmin, tenant.ScopeOperator} {
		like := tenant.Key{Tenant: "acme", Scope: scope}
		if scope == tenant.ScopeOperator {
			like.Tenant = ""
		}
		s, key, err := keys.Make(t.Context(), like, 0)
		if err != nil {
			t.Fatal(err)
		}
		secret[scope], ids[scope] = s, key.ID
	}
	for scope, s := range secret {
		a := r.do("POST", "/api/v1/events/stream", strings.NewReader("{}\n"), "Authorization", "Bearer "+s, "X-GpuFlight-Session-Id", "s")
		wanted, code := 200, ""
		if scope != tenant.ScopeIngest {
			wanted, code = 403, "wrong_scope"
		}
		if a.status != wanted || !strings.Contains(a.raw, code) {
			t.Errorf("an upload with scope %s: %d %s, want %d", scope, a.status, a.raw, wanted)
		}
	}
	if n := len(r.published()); n != 1 {
		t.Errorf("%d parts were stored, want 1", n)
	}
	for _, c := range []struct {
		scope, door tenant.Scope
		of          string
		status      int
	}{
		{tenant.ScopeIngest, tenant.ScopeRead, "acme", 403},
		{tenant.ScopeIngest, tenant.ScopeAdmin, "acme", 403},
		{tenant.ScopeRead, tenant.ScopeRead, "acme", 0},
		{tenant.ScopeRead, tenant.ScopeRead, "", 0},
		{tenant.ScopeRead, tenant.ScopeRead, "globex", 403},
		{tenant.ScopeRead, tenant.ScopeAdmin, "acme", 403},
		{tenant.ScopeRead, tenant.ScopeOperator, "", 403},
		{tenant.ScopeAdmin, tenant.ScopeRead, "acme", 403},
		{tenant.ScopeAdmin, tenant.ScopeAdmin, "acme", 0},
		{tenant.ScopeAdmin, tenant.ScopeAdmin, "globex", 403},
		{tenant.ScopeAdmin, tenant.ScopeOperator, "", 403},
		{tenant.ScopeOperator, tenant.ScopeRead, "acme", 0},
		{tenant.ScopeOperator, tenant.ScopeAdmin, "globex", 0},
		{tenant.ScopeOperator, tenant.ScopeOperator, "", 0},
	} {
		status := 0
		if _, no := r.gateway.Authorize(t.Context(), secret[c.scope], c.door, c.of); no != nil {
			status = no.Status
			if c.scope == c.door && !strings.Contains(no.Detail, "is not of the tenant that is asked for") {
				t.Errorf("scope %s of %q: %s", c.scope, c.of, no.Detail)
			}
		}
		if status != c.status {
			t.Errorf("scope %s at a door of scope %s of %q: %d, want %d", c.scope, c.door, c.of, status, c.status)
		}
	}
	for _, wrong := range []string{"", "wrong", ids[tenant.ScopeRead]} {
		if _, no := r.gateway.Authorize(t.Context(), wrong, tenant.ScopeRead, "acme"); no == nil || no.Status != 401 {
			t.Errorf("secret %q: %v, want 401", wrong, no)
		}
	}

	// A rotated key keeps its scope, and a revoked one opens nothing.
	next, made, _, err := keys.Rotate(t.Context(), ids[tenant.ScopeRead], time.Hour)
	if err != nil || made.Scope != tenant.ScopeRead {
		t.Fatalf("rotated to scope %q: %v", made.Scope, err)
	}
	if _, no := r.gateway.Authorize(t.Context(), next, tenant.ScopeRead, "acme"); no != nil {
		t.Error(no)
	}
	if _, err := keys.Revoke(t.Context(), made.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a revoked key opens nothing", func() bool {
		_, no := r.gateway.Authorize(t.Context(), next, tenant.ScopeRead, "acme")
		return no != nil && no.Status == 401
	})

	// Of a disabled tenant nothing is read, save by the operator.
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Create(t.Context(), "acme", "", tenant.Limits{}); err != nil {
		t.Fatal(err)
	}
	if _, err := tenants.Change(t.Context(), "acme", func(r *tenant.Record) { r.Disabled = time.Now() }); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a disabled tenant reads nothing", func() bool {
		_, no := r.gateway.Authorize(t.Context(), secret[tenant.ScopeRead], tenant.ScopeRead, "acme")
		return no != nil && no.Status == 403
	})
	if _, no := r.gateway.Authorize(t.Context(), secret[tenant.ScopeOperator], tenant.ScopeRead, "acme"); no != nil {
		t.Error(no)
	}
}

// A key whose record lost its scope, as an older command would store it, opens nothing; nor does one that a hand gave another name.
func TestScopeIsNotLost(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	hash := tenant.Hash("gpfl_written-by-hand")
	for name, value := range map[string]string{
		"scoped." + hash: `{"id":"written","tenant":"acme","limits":{}}`,
		hash:             `{"id":"written","tenant":"acme","scope":"read","limits":{}}`,
	} {
		if _, err := r.streams.Keys.PutString(t.Context(), name, value); err != nil {
			t.Fatal(err)
		}
	}
	for _, door := range []tenant.Scope{tenant.ScopeRead, tenant.ScopeAdmin} {
		if _, no := r.gateway.Authorize(t.Context(), "gpfl_written-by-hand", door, "acme"); no == nil || no.Status != 401 {
			t.Errorf("at a door of scope %s: %v, want 401", door, no)
		}
	}
	a := r.do("POST", "/api/v1/events/stream", strings.NewReader("{}\n"), "Authorization", "Bearer gpfl_written-by-hand",
		"X-GpuFlight-Session-Id", "s")
	if a.status != 401 {
		t.Errorf("an upload: %d %s", a.status, a.raw)
	}
}

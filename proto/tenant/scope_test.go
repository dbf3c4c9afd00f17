package tenant_test

import (
	"testing"

	"github.com/warpline/warpline/proto/tenant"
)

// Nobody makes a key that is stronger than their own.
func TestWhoMayMakeWhichKey(t *testing.T) {
	all := map[string]tenant.Key{
		"ingest": {Tenant: "acme"}, "read": {Tenant: "acme", Scope: tenant.ScopeRead}, "admin": {Tenant: "acme", Scope: tenant.ScopeAdmin},
		"other": {Tenant: "globex"}, "other admin": {Tenant: "globex", Scope: tenant.ScopeAdmin}, "operator": {Scope: tenant.ScopeOperator},
	}
	may := map[string][]string{
		"admin": {"ingest", "read", "admin"}, "other admin": {"other", "other admin"},
		"operator": {"ingest", "read", "admin", "other", "other admin", "operator"},
	}
	for who, key := range all {
		wanted := map[string]bool{}
		for _, what := range may[who] {
			wanted[what] = true
		}
		for what, other := range all {
			if got := key.MayMake(other); got != wanted[what] {
				t.Errorf("%s makes %s: %v, want %v", who, what, got, wanted[what])
			}
		}
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	for name, key := range map[string]tenant.Key{
		"no tenant": {}, "a bad tenant": {Tenant: "No Such"}, "an operator with a tenant": {Tenant: "acme", Scope: tenant.ScopeOperator},
		"an unknown scope": {Tenant: "acme", Scope: "root"}, "reads for nobody": {Scope: tenant.ScopeRead},
	} {
		if key.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, text := range []string{"", "Read", "root", "ingest,read"} {
		if s, err := tenant.ParseScope(text); err == nil {
			t.Errorf("%q is scope %s", text, s)
		}
	}
}

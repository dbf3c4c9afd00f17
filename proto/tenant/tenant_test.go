package tenant_test

import (
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// A tenant's name becomes a subject token and a column value.
func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "acme": true, "team-7": true, strings.Repeat("x", 63): true,
		"": false, "-a": false, "a-": false, "A": false, "a.b": false, "a b": false, "*": false,
		">": false, "ä": false, strings.Repeat("x", 64): false,
	} {
		if err := tenant.CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestKeyValidity(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		key tenant.Key
		ok  bool
	}{
		"for ever":     {tenant.Key{}, true},
		"until later":  {tenant.Key{Expires: now.Add(time.Second)}, true},
		"until now":    {tenant.Key{Expires: now}, false},
		"revoked":      {tenant.Key{Revoked: now.Add(-time.Hour)}, false},
		"revoked now":  {tenant.Key{Revoked: now}, false},
		"to be ended ": {tenant.Key{Revoked: now.Add(time.Second)}, true},
	} {
		if ok, why := c.key.Valid(now); ok != c.ok || ok != (why == "") {
			t.Errorf("%s: %v %q", name, ok, why)
		}
	}
}

// What is stored of a secret neither holds it nor tells two secrets as one.
func TestSecrets(t *testing.T) {
	a, b := tenant.NewSecret(), tenant.NewSecret()
	if a == b || !strings.HasPrefix(a, tenant.Prefix) || len(a) < len(tenant.Prefix)+32 {
		t.Errorf("secrets %q and %q", a, b)
	}
	if tenant.Hash(a) == tenant.Hash(b) || strings.Contains(tenant.Hash(a), a) || len(tenant.ID(a)) != 8 || tenant.ID("") != "" {
		t.Error("hash or id of a secret")
	}
}

func TestLimitsOr(t *testing.T) {
	d := tenant.DefaultLimits()
	got := tenant.Limits{EventsPerSecond: 5, RetentionDays: 1}.Or(d)
	want := d
	want.EventsPerSecond, want.RetentionDays = 5, 1
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

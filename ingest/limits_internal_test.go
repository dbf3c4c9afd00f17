package ingest

import (
	"reflect"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// A key comes back as it was, with every field that it has.
func TestKeptKeysAreWhole(t *testing.T) {
	day := time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)
	key := tenant.Key{ID: "gpfl_ab", Tenant: "acme", Scope: tenant.ScopeRead, Note: "a note", Created: day, Expires: day.AddDate(0, 0, 1),
		LastsSeconds: 60, Revoked: day.AddDate(0, 0, 2), Limits: tenant.Limits{EventsPerSecond: 5, QuotaPolicy: tenant.QuotaDrop}}
	for i := range reflect.ValueOf(key).NumField() {
		if reflect.ValueOf(key).Field(i).IsZero() {
			t.Fatalf("the test gives no %s", reflect.TypeOf(key).Field(i).Name)
		}
	}
	kept := keep(key)
	if got := kept.whole(); got != key {
		t.Errorf("%+v, want %+v", got, key)
	}
}

package cost_test

import (
	"testing"

	"github.com/warpline/warpline/cmd/warpline/cost"
	"github.com/warpline/warpline/proto/tenant"
)

// The days are those that gateways give to what a tenant sends: of its class as it is now, of its own, or of class default.
func TestDaysOf(t *testing.T) {
	classes := tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 1, Rollup: 30}}
	of := func(l tenant.Limits) *tenant.Record { return &tenant.Record{Name: "acme", Limits: l} }
	for _, c := range []struct {
		what    string
		record  *tenant.Record
		classes tenant.Classes
		want    cost.Days
	}{
		{"nobody's, of an old service", nil, nil, cost.Days{Raw: 7, Rollup: 395, Of: "the program's own"}},
		{"all tenants", nil, classes, cost.Days{Raw: 7, Rollup: 395, Of: "class default"}},
		{"without a class", of(tenant.Limits{}), classes, cost.Days{Raw: 7, Rollup: 395, Of: "class default"}},
		{"of a class whose days were changed", of(tenant.Limits{RetentionClass: "short", RetentionDays: 2, RollupDays: 60}), classes,
			cost.Days{Raw: 1, Rollup: 30, Of: "class short of tenant acme"}},
		{"of a class that is gone", of(tenant.Limits{RetentionClass: "gone", RetentionDays: 2, RollupDays: 60}), classes,
			cost.Days{Raw: 2, Rollup: 60, Of: "class gone of tenant acme"}},
		{"with days of its own", of(tenant.Limits{RollupDays: 500}), classes, cost.Days{Raw: 7, Rollup: 500, Of: "tenant acme"}},
		{"with the days of a class", of(tenant.Limits{RetentionDays: 1, RollupDays: 30}), classes,
			cost.Days{Raw: 1, Rollup: 30, Of: "tenant acme, which are those of class short"}},
	} {
		if got := cost.DaysOf(c.record, c.classes); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
	if got := cost.DaysOf(nil, classes).Or(0, 9); got != (cost.Days{Raw: 7, Rollup: 9, Of: "as given"}) {
		t.Errorf("%+v", got)
	}
}

package tenant_test

import (
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/tenant"
)

func TestParseClasses(t *testing.T) {
	got, err := tenant.ParseClasses([]string{"short=1d/30d", "long=30/800", "a-1=1d/1d"}, tenant.Limits{RetentionDays: 5})
	if want := "default=5d/395d, short=1d/30d, long=30d/800d, a-1=1d/1d"; err != nil || got.String() != want {
		t.Errorf("%s, %v, want %s", got, err, want)
	}
	eight := strings.Fields("a=1/1 b=1/2 c=1/3 d=1/4 e=1/5 f=1/6 g=1/7 h=1/8")
	if _, err := tenant.ParseClasses(eight[:7], tenant.Limits{}); err != nil {
		t.Error(err)
	}
	for says, bad := range map[string][]string{
		"at most 8": eight, "given twice": {"a=1/2", "a=1/3"}, "--rollup-days": {"default=1/2"}, "at least a day": {"a=0/2"},
		"at least as long": {"a=3/2"}, "longer than 18250": {"a=1/18251"}, "write NAME": {"a"},
	} {
		if _, err := tenant.ParseClasses(bad, tenant.Limits{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: %v, want %q", bad, err, says)
		}
	}
	for _, bad := range []string{"", "=", "=1/2", "a=1", "a=1h/2h", "a=-1/2", "a=1/2/3",
		"A=1/2", "a b=1/2", "1=1/2", "a=99999999/1", "a=1d/2d,b=1/2",
		strings.Repeat("a", 33) + "=1/2"} {
		if c, err := tenant.ParseClass(bad); err == nil {
			t.Errorf("%q is %s", bad, c)
		}
	}
}

// A class says the days, as it is now; where it is not known, those count that it had.
func TestClassesOfLimits(t *testing.T) {
	classes := tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 1, Rollup: 30}}
	var l tenant.Limits
	if err := classes.Give(&l, "none"); err == nil || !strings.Contains(err.Error(), "default=7d/395d, short=1d/30d") ||
		l != (tenant.Limits{}) {
		t.Errorf("%+v %v", l, err)
	}
	if err := classes.Give(&l, "short"); err != nil || l.RetentionDays != 1 || l.RollupDays != 30 {
		t.Errorf("%+v %v", l, err)
	}
	longer := tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 2, Rollup: 60}}
	if got := longer.Days(l); got.RetentionDays != 2 || got.RollupDays != 60 {
		t.Errorf("%+v", got)
	}
	if got := classes.Days(tenant.Limits{RetentionDays: 65535, RollupDays: 65535}); got.RetentionDays != tenant.MaxDays ||
		got.RollupDays != tenant.MaxDays {
		t.Errorf("days of an older build, which would end before they begin: %+v", got)
	}
	if got := classes[:1].Days(l); got.RetentionDays != 1 || got.RollupDays != 30 {
		t.Errorf("%+v", got)
	}
	if got := classes.Days(tenant.Limits{RetentionDays: 3}); got != (tenant.Limits{RetentionDays: 3}) {
		t.Errorf("%+v", got)
	}
	if err := classes.Give(&l, ""); err != nil || l != (tenant.Limits{}) {
		t.Errorf("%+v %v", l, err)
	}
}

// Days that no class has become those of the shortest class that keeps all for as long.
func TestNearestClass(t *testing.T) {
	classes := tenant.Classes{{Name: "default", Raw: 7, Rollup: 395}, {Name: "short", Raw: 1, Rollup: 30}, {Name: "raw", Raw: 90, Rollup: 90},
		{Name: "long", Raw: 30, Rollup: 800}}
	for _, c := range []struct {
		raw, rollup uint16
		want        string
	}{
		{1, 30, "short"}, {1, 29, "short"}, {2, 30, "default"}, {1, 31, "default"}, {7, 395, "default"}, {8, 80, "long"}, {7, 396, "long"},
		{31, 90, "raw"}, {91, 1, "raw"}, {31, 91, "raw"}, {1, 900, "raw"},
	} {
		if got := classes.Nearest(tenant.Class{Raw: c.raw, Rollup: c.rollup}); got.Name != c.want {
			t.Errorf("%d/%d is %s, want %s", c.raw, c.rollup, got, c.want)
		}
	}
}

package tenant_test

import (
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/warpline/warpline/proto/tenant"
)

// Every limit that is a number is checked, and compared with the tenant's, by one name that no other has. Which name that is, the tests of
// the admin API say.
func TestLimitsAreChecked(t *testing.T) {
	of := reflect.TypeFor[tenant.Limits]()
	names := map[string]string{} // of fields
	for i := range of.NumField() {
		field := of.Field(i).Name
		var few, many, bad tenant.Limits
		put := func(l *tenant.Limits, n float64) bool {
			switch v := reflect.ValueOf(l).Elem().Field(i); {
			case v.CanFloat():
				v.SetFloat(n)
			case v.CanInt():
				v.SetInt(int64(n))
			case v.CanUint():
				v.SetUint(uint64(max(n, 0)))
				return n >= 0
			default:
				return false
			}
			return true
		}
		if !put(&few, 1) {
			continue
		}
		put(&many, 2)
		var why *tenant.LimitError
		if err := many.Above(few); !errors.As(err, &why) || names[why.Field] != "" {
			t.Errorf("%s 2 of a tenant that has 1: %v", field, err)
		}
		names[why.Field] = field
		if err := errors.Join(few.Above(few), few.Above(many), few.Above(tenant.Limits{}), tenant.Limits{}.Above(few)); err != nil {
			t.Error(err)
		}
		if !put(&bad, -1) {
			continue
		}
		if err := bad.Check(); !errors.As(err, &why) || names[why.Field] != field {
			t.Errorf("%s -1: %v", field, err)
		}
	}
	for name, l := range map[string]tenant.Limits{
		"not a number": {EventsPerSecond: math.NaN()}, "endless": {BurstSeconds: math.Inf(1)},
		"days beyond those of ClickHouse": {RetentionDays: tenant.MaxDays + 1},
		"rollups beyond them":             {RollupDays: math.MaxUint16}, "raw rows": {RawRows: "maybe"},
		"a share over 1": {QuotaTrickle: 1.5},
		"a policy":       {QuotaPolicy: "maybe"}, "a cubin": {MaxCubinBytes: 1 << 40},
	} {
		if l.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := tenant.DefaultLimits().Check(); err != nil {
		t.Error(err)
	}
}

// A note is shown in other people's terminals.
func TestNotes(t *testing.T) {
	for text, ok := range map[string]bool{
		"": true, "build farm, Zürich – 2. floor": true, strings.Repeat("x", tenant.MaxNoteBytes): true,
		strings.Repeat("x", tenant.MaxNoteBytes+1): false, "\x1b[2J": false, "a\nb": false, "\xff": false, "\u202e": false,
	} {
		if (tenant.CheckNote(text) == nil) != ok {
			t.Errorf("%q: %v", text, tenant.CheckNote(text))
		}
	}
}

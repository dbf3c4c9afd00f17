package tenant_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/tenant"
)

// So many tenants have series; others share a name until one is silent. Tenants that only have a key leave room for those that send.
func TestSeries(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	s := tenant.NewSeries()
	s.Bound(10)
	met := 0
	for i := range 100 {
		if s.Meet(fmt.Sprint("key", i), now) {
			met++
		}
	}
	if met != 5 {
		t.Errorf("%d tenants that send nothing have series, want half of 10", met)
	}
	for i := range 20 {
		want := fmt.Sprint("busy", i)
		if i >= 5 {
			want = tenant.OtherSeries
		}
		if got := s.Label(fmt.Sprint("busy", i), now); got != want {
			t.Errorf("tenant %d is called %s, want %s", i, got, want)
		}
	}
	if s.Label("", now) != "" || s.Label("key0", now.Add(time.Minute)) != "key0" {
		t.Error("nobody, or a tenant that was met, is called otherwise")
	}
	if err := tenant.CheckName(tenant.OtherSeries); err == nil {
		t.Error("a tenant can be called as the others together")
	}
	ended := s.Silent(now.Add(tenant.SeriesSilence))
	slices.Sort(ended)
	if len(ended) != 9 || slices.Contains(ended, "key0") {
		t.Errorf("%v have ended", ended)
	}
	if got := s.Label("busy19", now.Add(tenant.SeriesSilence)); got != "busy19" {
		t.Errorf("after others have ended it is called %s", got)
	}
}

package ingest

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// However many tenants there are, their series at 0 are bounded.
func TestTenantsHaveSeriesAtOnce(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, nil)
	count := func() (n int) {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.GetMetric())
		}
		return n
	}
	g := guests{met: m.meet}
	none := count()
	g.of("a")
	one := count() - none
	if one < 20 {
		t.Errorf("a tenant has %d series", one)
	}
	g.of("a")
	for i := range 10_000 {
		g.of(strings.Repeat("t", i%200) + string(rune('a'+i%26)) + strings.Repeat("u", i/200))
	}
	if n := count() - none; n != one*tenantSeries {
		t.Errorf("10 000 tenants have %d series, want %d", n, one*tenantSeries)
	}
}

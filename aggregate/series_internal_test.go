package aggregate

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/tenant"
)

// A worker's series of tenants are bounded and end as a gateway's do, and nothing is missing in their sums.
func TestSeriesOfTenantsAreBoundedAndEnd(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := newCounters(reg)
	c.tenants.Bound(3)
	read := func() (series int, sum, other float64) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			series += len(f.GetMetric())
			for _, one := range f.GetMetric() {
				if f.GetName() != "warpline_worker_events_total" {
					continue
				}
				sum += one.GetCounter().GetValue()
				for _, l := range one.GetLabel() {
					if l.GetValue() == tenant.OtherSeries {
						other += one.GetCounter().GetValue()
					}
				}
			}
		}
		return series, sum, other
	}
	none, _, _ := read()
	for i := range 1000 {
		name := fmt.Sprint("tenant", i)
		c.meet(name)
		c.events.WithLabelValues(name, "stored").Add(2)
	}
	if series, sum, other := read(); sum != 2000 || other != 2*997 || series > none+200 {
		t.Errorf("%v of 2000 events, %v of others, %d series more", sum, other, series-none)
	}
	c.endSilent(time.Now().Add(tenant.SeriesSilence + time.Second))
	if series, _, other := read(); series != none || other != 2*997 {
		t.Errorf("%d series more than at first after the silence, %v of others", series-none, other)
	}
	c.meet("tenant5")
	if series, _, _ := read(); series <= none {
		t.Error("who comes back has no series at 0")
	}
}

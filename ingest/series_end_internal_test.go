package ingest

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/tenant"
)

// Tenants beyond the bound are counted together, so that nothing is missing in sums; series of one that is silent end, and make room.
func TestSeriesOfTenantsAreBoundedAndEnd(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, nil)
	m.tenants.Bound(3)
	read := func() (by map[string]float64, series int) {
		t.Helper()
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		by = map[string]float64{}
		for _, f := range families {
			series += len(f.GetMetric())
			for _, one := range f.GetMetric() {
				if f.GetName() == "warpline_gateway_events_received_total" {
					by[one.GetLabel()[0].GetValue()] = one.GetCounter().GetValue()
				}
			}
		}
		return by, series
	}
	_, none := read()
	for i := range 1000 {
		name := fmt.Sprint("tenant", i)
		m.receivedEvents.WithLabelValues(name).Add(1)
		m.rejectedEvents.WithLabelValues(name, "line_too_long").Add(1)
		m.windows.WithLabelValues(name, "new").Inc()
	}
	by, series := read()
	if by["tenant0"] != 1 || by["tenant2"] != 1 || by[tenant.OtherSeries] != 997 || len(by) != 5 {
		t.Errorf("%v", by)
	}
	if series > none+3*3 {
		t.Errorf("a thousand tenants have %d series", series-none)
	}
	m.endSilent(time.Now().Add(tenant.SeriesSilence / 2))
	if by, _ := read(); len(by) != 5 {
		t.Errorf("after half of the time there are %v", by)
	}
	m.endSilent(time.Now().Add(tenant.SeriesSilence + time.Second))
	if by, series := read(); len(by) != 2 || by[tenant.OtherSeries] != 997 || series != none {
		t.Errorf("after the silence there are %v, and %d series more than at first", by, series-none)
	}
	m.receivedEvents.WithLabelValues("tenant999").Add(1)
	if by, _ := read(); by["tenant999"] != 1 {
		t.Errorf("there is no room again: %v", by)
	}
}

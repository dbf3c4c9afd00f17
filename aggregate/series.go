package aggregate

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/table"
)

// Series start at 0 before their first failure, since Prometheus sees a counter change but not appear: for all label values that are known,
// and for the first tenantSeries tenants that send. Tenant "" stands for one that is yet to come.
const tenantSeries = 64

var (
	partOutcomes = []string{"folded", "duplicate", "bad", "deleted", "poison", "lost"}
	retryReasons = []string{"rows_full", "rows_lost", "timeout", "dictionary", "dictionary_full", "dictionary_bad", "object", "state_full",
		"lost_parts"}
	foldReasons = []string{"panic", "time", "memory", "stuck"}
)

// begin makes the series whose labels are known from the start.
func (c *counters) begin() {
	for _, outcome := range partOutcomes {
		c.parts.WithLabelValues(outcome)
	}
	for _, reason := range retryReasons {
		c.retries.WithLabelValues(reason)
	}
	for _, reason := range foldReasons {
		c.foldFailures.WithLabelValues(reason)
	}
	c.meet("")
	c.meet(tenant.OtherSeries)
}

// beginRows makes the series of tables.
func (c *counters) beginRows(tables []*table.Table) {
	for _, t := range tables {
		c.rows.WithLabelValues(t.Name)
		c.mended.WithLabelValues(t.Name)
	}
}

// perTenant is a counter whose first label is the tenant. Tenants beyond the bound of series share one of tenant.OtherSeries.
type perTenant struct {
	*prometheus.CounterVec
	of *tenant.Series
}

// WithLabelValues returns the counter of a tenant and another label.
func (p perTenant) WithLabelValues(name, other string) prometheus.Counter {
	return p.CounterVec.WithLabelValues(p.of.Label(name, time.Now()), other)
}

// endSilent removes the series of tenants of which nothing was counted for long.
func (c *counters) endSilent(now time.Time) {
	for _, name := range c.tenants.Silent(now) {
		c.mu.Lock()
		delete(c.met, name)
		c.mu.Unlock()
		for _, of := range []perTenant{c.events, c.rejects} {
			of.DeletePartialMatch(prometheus.Labels{"tenant": name})
		}
	}
}

// meet makes the series of a tenant. It is called for every part.
func (c *counters) meet(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.met[name]; known || len(c.met) > 1+tenantSeries || !c.tenants.Meet(name, time.Now()) {
		return
	}
	if c.met == nil {
		c.met = map[string]struct{}{}
	}
	c.met[name] = struct{}{}
	for _, outcome := range []string{"stored", "rejected", "duplicate"} {
		c.events.WithLabelValues(name, outcome)
	}
	for _, reason := range slices.Concat(reject.Reasons(), gpuflight.Reasons()) {
		c.rejects.WithLabelValues(name, reason)
	}
	for _, reason := range c.reasons {
		c.rejects.WithLabelValues(name, reason)
	}
}

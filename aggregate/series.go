package aggregate

import (
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/sink/table"
)

// Series start at 0 before their first failure, since Prometheus sees a counter change but not appear: for all label values that are known,
// and for the first tenantSeries tenants that send. Tenant "" stands for one that is yet to come.
const tenantSeries = 64

var (
	partOutcomes = []string{"folded", "duplicate", "bad", "deleted", "poison"}
	retryReasons = []string{"rows_full", "rows_lost", "timeout", "dictionary", "dictionary_full", "dictionary_bad", "object", "state_full"}
	foldReasons  = []string{"panic", "time", "memory", "stuck"}
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
}

// beginRows makes the series of tables.
func (c *counters) beginRows(tables []*table.Table) {
	for _, t := range tables {
		c.rows.WithLabelValues(t.Name)
		c.mended.WithLabelValues(t.Name)
	}
}

// meet makes the series of a tenant. It is called for every part.
func (c *counters) meet(tenant string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.met[tenant]; known || len(c.met) > tenantSeries {
		return
	}
	if c.met == nil {
		c.met = map[string]struct{}{}
	}
	c.met[tenant] = struct{}{}
	for _, outcome := range []string{"stored", "rejected", "duplicate"} {
		c.events.WithLabelValues(tenant, outcome)
	}
	for _, reason := range slices.Concat(reject.Reasons(), gpuflight.Reasons()) {
		c.rejects.WithLabelValues(tenant, reason)
	}
	for _, reason := range c.reasons {
		c.rejects.WithLabelValues(tenant, reason)
	}
}

// Package shares shows in the metrics what each tenant has of what it may have: of limits, quotas of the day, and its shares of the stores
// that all tenants fill.
package shares

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/tenant"
)

// What a tenant can have of something: limits and quotas by their flags, and its shares of stores.
const (
	EventsPerSecond = "limit-events-per-second"
	BytesPerSecond  = "limit-bytes-per-second"
	ActiveSessions  = "limit-active-sessions"
	PendingBytes    = "limit-pending-bytes"
	UploadsAtOnce   = "limit-uploads-at-once"
	EventsPerDay    = "quota-events-per-day"
	BytesPerDay     = "quota-bytes-per-day"
	// Spool is bytes of uploads that are being received, UploadRecord of the record of accepted uploads, and LargeLines of lines over 1 MiB
	// that wait for a worker.
	Spool        = "share-spool"
	UploadRecord = "share-upload-record"
	LargeLines   = "share-large-lines"
	// Ingest is bytes of INGEST that parts take which are not in SQL yet, Rows bytes of ROWS that wait for ClickHouse. Names is memory of
	// workers for names, NameRecord bytes of names that workers have stored for their successors.
	Ingest     = "share-ingest"
	Rows       = "share-rows"
	Names      = "share-names"
	NameRecord = "share-name-record"
)

// Share is what a tenant has of something.
type Share struct {
	Tenant, Of string
	// Used is what it has; below 0: that is counted elsewhere. Limit is the most that it may have now, 0 for no limit.
	Used, Limit float64
}

// nearer reports whether s is nearer to its limit than o; where neither has one, whether it is more.
func (s Share) nearer(o Share) bool {
	switch {
	case s.Limit > 0 && o.Limit > 0:
		return s.Used/s.Limit > o.Used/o.Limit
	case s.Limit > 0 || o.Limit > 0:
		return s.Limit > 0
	}
	return s.Used > o.Used
}

var (
	used = prometheus.NewDesc("warpline_gateway_tenant_used", "What a tenant has of what it may have, by the flag of the limit or the store. "+
		"Sessions, bytes on their way, quotas and the stores of NATS are of all gateways together. Tenant (other): of the one that is nearest "+
		"to its limit.", []string{"tenant", "of"}, nil)
	limit = prometheus.NewDesc("warpline_gateway_tenant_limit", "The most that a tenant may have of it now, where there is a limit. What a "+
		"store leaves to a tenant depends on what the others have in it.", []string{"tenant", "of"}, nil)
)

// Collector gives the shares of tenants to Prometheus. Make it with New.
type Collector struct {
	read  func() []Share
	shown func(name string) string
}

// New returns a collector of what read returns at each scrape. shown is what a tenant is called in metrics.
func New(read func() []Share, shown func(name string) string) *Collector {
	return &Collector{read, shown}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) { out <- used; out <- limit }

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	others := map[string]Share{} // by what it is of
	show := func(s Share) {
		if s.Used >= 0 {
			out <- prometheus.MustNewConstMetric(used, prometheus.GaugeValue, s.Used, s.Tenant, s.Of)
		}
		if s.Limit > 0 {
			out <- prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, s.Limit, s.Tenant, s.Of)
		}
	}
	for _, s := range c.read() {
		if s.Tenant = c.shown(s.Tenant); s.Tenant != tenant.OtherSeries {
			show(s)
		} else if o, ok := others[s.Of]; !ok || s.nearer(o) {
			others[s.Of] = s
		}
	}
	for _, s := range others {
		if s.Used >= 0 { // of what is counted elsewhere nothing is nearest
			show(s)
		}
	}
}

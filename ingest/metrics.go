package ingest

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warpline/warpline/proto/tenant"
)

// metrics are the gateway's books. For each tenant, received = published + rejected + repeated in events. In bytes (uncompressed) it is the
// same without repeated, since repeats are not unpacked. An upload is entered once all of it is acknowledged, so a failed try is not
// counted.
type metrics struct {
	handler  http.Handler
	registry prometheus.Registerer
	storing  storing // what became of the last uploads
	met      atomic.Int64
	known    labels

	tenants  *tenant.Series
	byTenant []perTenant // all that have the label

	receivedEvents, receivedBytes    perTenant
	publishedEvents, publishedBytes  perTenant
	repeatedEvents                   perTenant
	droppedRejects                   perTenant
	forgotten                        perTenant
	rejectedEvents, rejectedBytes    perTenant // and reason
	bodyBytes, backlogWait           perTenant
	parts                            perTenant              // and kind
	windows                          perTenant              // and outcome
	refused                          *prometheus.CounterVec // reason
	failures                         *prometheus.CounterVec // reason
	requests                         *prometheus.CounterVec // route, code
	seconds                          *prometheus.HistogramVec
	ackSeconds                       prometheus.Histogram
	inFlight, spooled, active        prometheus.Gauge
	replicas, ingestBytes, ingestMax prometheus.Gauge
	uploadBytes, uploadMax, horizon  prometheus.Gauge
	unshared                         prometheus.Counter
}

func newMetrics(reg prometheus.Registerer, sources []Source) *metrics {
	if reg == nil {
		reg = prometheus.NewRegistry()
	}
	gatherer, ok := reg.(prometheus.Gatherer)
	if !ok {
		gatherer = prometheus.DefaultGatherer
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "gateway", Name: name, Help: help}, labels)
		reg.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "warpline", Subsystem: "gateway", Name: name, Help: help})
		reg.MustRegister(g)
		return g
	}
	all := tenant.NewSeries()
	var byTenant []perTenant
	ofTenant := func(name, help string, labels ...string) perTenant {
		c := perTenant{counter(name, help, append([]string{"tenant"}, labels...)...), all}
		byTenant = append(byTenant, c)
		return c
	}
	m := &metrics{
		tenants: all, registry: reg,
		handler:        promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true, MaxRequestsInFlight: scrapes}),
		receivedEvents: ofTenant("events_received_total", "Events of uploads that were answered with success."),
		receivedBytes: ofTenant("bytes_received_total",
			"Uncompressed bytes of uploads that were answered with success, without those that were stored before."),
		publishedEvents: ofTenant("events_published_total", "Events acknowledged by JetStream as parts."),
		publishedBytes:  ofTenant("bytes_published_total", "Uncompressed bytes acknowledged by JetStream as parts."),
		rejectedEvents:  ofTenant("events_rejected_total", "Events refused by the gateway and kept as rejects.", "reason"),
		rejectedBytes:   ofTenant("bytes_rejected_total", "Bytes refused by the gateway.", "reason"),
		repeatedEvents: ofTenant("events_repeated_total",
			"Events of uploads that were answered with success because they were stored before."),
		forgotten: ofTenant("uploads_forgotten_total",
			"Uploads that are not recognised any more, or were not recorded, because the record of accepted uploads was full."),
		droppedRejects: ofTenant("reject_bytes_dropped_total",
			"Bytes of refused lines over 1 MiB that were dropped before they were a week old, to make room for others."),
		bodyBytes: ofTenant("body_bytes_total", "Bytes of request bodies as received."),
		backlogWait: ofTenant("backlog_wait_seconds_total",
			"Time that parts waited because much of their tenant's was on its way into SQL while other tenants sent."),
		parts: ofTenant("parts_total", "INGEST messages acknowledged.", "kind"),
		windows: ofTenant("windows_total",
			"Uploads by outcome: new, repeat, resumed, conflict, lost_and_resent (stored before and gone from INGEST); line in legacy "+
				"mode; incomplete_headers, counted beside, for window headers that were not used.", "outcome"),
		refused:     counter("refused_total", "Requests that were answered with a problem document.", "reason"),
		failures:    counter("publish_failures_total", "Uploads that could not be stored, by cause.", "reason"),
		requests:    counter("requests_total", "Requests.", "route", "code"),
		inFlight:    gauge("in_flight_bytes", "Bytes published and not yet acknowledged."),
		spooled:     gauge("spool_bytes", "Bytes reserved for request bodies being spooled."),
		active:      gauge("active_requests", "Uploads being handled."),
		replicas:    gauge("replicas", "Live gateways."),
		ingestBytes: gauge("ingest_stream_bytes", "Bytes in the INGEST stream."),
		ingestMax:   gauge("ingest_stream_max_bytes", "Bytes that the INGEST stream may hold."),
		uploadBytes: gauge("upload_record_bytes", "Bytes in the record of accepted uploads."),
		uploadMax:   gauge("upload_record_max_bytes", "Bytes that the record of accepted uploads may hold."),
		horizon: gauge("upload_horizon_seconds",
			"How far back uploads that come again are recognised, of the tenant for which that is shortest."),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "warpline", Subsystem: "gateway", Name: "request_seconds", Help: "Time to answer.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 18),
		}, []string{"route"}),
		ackSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "warpline", Subsystem: "gateway", Name: "part_ack_seconds",
			Help:    "Time from publishing a part to its acknowledgement.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}),
	}
	m.unshared = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "warpline", Subsystem: "gateway", Name: "unshared_total",
		Help: "Messages between gateways on what they let in that could not be sent or read.",
	})
	reg.MustRegister(m.seconds, m.ackSeconds, m.unshared)
	m.known, m.byTenant = labelsOf(sources), byTenant
	m.begin()
	return m
}

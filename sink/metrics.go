package sink

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/sink/table"
)

type metrics struct {
	rows, bytes, inserts, retries, repairs *prometheus.CounterVec
	visible, insertSeconds, barrierSeconds prometheus.Histogram
	missing, aside, purges, deletions      prometheus.Counter
	damaged                                prometheus.Gauge
}

func newMetrics(k *Sink, r prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_sink_" + name, Help: help}, labels)
	}
	m := &metrics{
		rows:    counter("rows_total", "Rows that are in ClickHouse, by table.", "table"),
		bytes:   counter("bytes_total", "Arrow bytes sent to ClickHouse and answered OK, by table.", "table"),
		inserts: counter("inserts_total", "Inserts answered OK, by table; repeated ones included.", "table"),
		retries: counter("retries_total", "Tries that failed and are made again, by reason.", "reason"),
		repairs: counter("repairs_total", "ClickHouse partitions of a span that were sent under a new token because ClickHouse had lost the "+
			"rows.", "table"),
		visible: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "warpline_sink_visible_seconds",
			Help:    "From the gateway's stamp on the oldest event of a chunk until all of the chunk is visible in SQL.",
			Buckets: []float64{.1, .25, .5, .75, 1, 1.5, 2, 3, 5, 10, 30, 60, 300, 1800, 7200, 86400}}),
		insertSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "warpline_sink_insert_seconds",
			Help: "Time of one insert that was answered OK.", Buckets: prometheus.ExponentialBuckets(.005, 2, 14)}),
		barrierSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "warpline_sink_barrier_seconds",
			Help:    "Time to sync the embedded NATS's chunks and marks before a span is inserted.",
			Buckets: prometheus.ExponentialBuckets(.001, 2, 14)}),
		missing: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_sink_missing_chunks_total",
			Help: "Chunks that ROWS no longer had when they were due. Not 0 means loss outside Warpline's control."}),
		aside: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_sink_set_aside_total",
			Help: "Messages in ROWS that no worker published, set aside; the audit names them."}),
		damaged: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_sink_damaged_streams",
			Help: "Streams and buckets of which the NATS server says that it dropped damaged bytes since it was started."}),
		purges: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_sink_purges_total",
			Help: "Purges of inserted messages from ROWS."}),
		deletions: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_sink_deletions_total",
			Help: "Tombstones carried out: sessions deleted, and partitions of tenants purged."}),
	}
	m.begin(k.cfg.Schema)
	if r != nil {
		r.MustRegister(m.rows, m.bytes, m.inserts, m.retries, m.repairs, m.visible, m.insertSeconds, m.barrierSeconds, m.missing, m.aside,
			m.damaged, m.purges, m.deletions, laneMetrics{k})
	}
	return m
}

// begin makes the series at 0, since Prometheus sees a counter change but not appear.
func (m *metrics) begin(schema *table.Schema) {
	for _, t := range schema.Tables() {
		for _, c := range []*prometheus.CounterVec{m.rows, m.bytes, m.inserts, m.repairs} {
			c.WithLabelValues(t.Name)
		}
	}
	for _, reason := range []string{reasonRefused, reasonUnreachable, reasonTimeout, reasonRunning, reasonBusy, reasonOrphan, reasonNATS,
		reasonInternal} {
		m.retries.WithLabelValues(reason)
	}
}

// laneMetrics reads the lanes that this process runs at the moment.
type laneMetrics struct{ k *Sink }

var (
	laneLag = prometheus.NewDesc("warpline_sink_lag_seconds", "Age of the oldest chunk that is not in ClickHouse, by lane.",
		[]string{"lane"}, nil)
	laneMark = prometheus.NewDesc("warpline_sink_mark", "ROWS sequence up to which everything of the lane is in ClickHouse.",
		[]string{"lane"}, nil)
	lanePending = prometheus.NewDesc("warpline_sink_pending_messages", "Messages of the lane that are not in ClickHouse.", []string{"lane"},
		nil)
	laneBlocked = prometheus.NewDesc("warpline_sink_blocked", "1 while ClickHouse refuses an insert of the lane and a person has to act; "+
		"lane \"schema\" while it refuses the tables.", []string{"lane"}, nil)
	rowsBytes   = prometheus.NewDesc("warpline_sink_rows_stream_bytes", "Bytes in the ROWS stream.", nil, nil)
	rowsMax     = prometheus.NewDesc("warpline_sink_rows_stream_max_bytes", "Bytes that the ROWS stream may hold.", nil, nil)
	unreachable = prometheus.NewDesc("warpline_sink_clickhouse_up", "0 while ClickHouse does not answer.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l laneMetrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{laneLag, laneMark, lanePending, laneBlocked, unreachable, rowsBytes, rowsMax, brokenDataParts} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (l laneMetrics) Collect(out chan<- prometheus.Metric) {
	s := l.k.Status()
	problems := l.k.health.snapshot(&Status{})
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	blocked := func(lane int) float64 {
		if problems[lane].reason == reasonRefused {
			return 1
		}
		return 0
	}
	for _, lane := range s.Lanes {
		n := strconv.Itoa(lane.Lane)
		gauge(laneLag, lane.Lag.Seconds(), n)
		gauge(laneMark, float64(lane.Mark), n)
		gauge(lanePending, float64(lane.Pending), n)
		gauge(laneBlocked, blocked(lane.Lane), n)
	}
	// Without its tables a sink does not run lanes, so no lane could show that a person has to act.
	gauge(laneBlocked, blocked(schemaLane), "schema")
	if s.RowsMaxBytes > 0 {
		gauge(rowsBytes, float64(s.RowsBytes))
		gauge(rowsMax, float64(s.RowsMaxBytes))
	}
	up := 1.0
	if !s.Unreachable.IsZero() {
		up = 0
	}
	gauge(unreachable, up)
	gauge(brokenDataParts, float64(len(l.k.Broken())))
}

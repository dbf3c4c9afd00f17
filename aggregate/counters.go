package aggregate

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// counters are the worker's metrics. Events balance: what the gateway published is stored + rejected + duplicate + what still
// waits in INGEST. The tenant label is on the series that billing and limits need, and on no others.
type counters struct {
	events                     perTenant              // and outcome
	rejects                    perTenant              // and reason
	parts                      *prometheus.CounterVec // outcome
	chunks                     prometheus.Counter
	chunkBytes                 prometheus.Counter
	rows, mended               *prometheus.CounterVec // table
	retries                    *prometheus.CounterVec // reason
	takeovers                  prometheus.Counter
	fenced                     prometheus.Counter
	aside                      prometheus.Counter
	snapshots                  prometheus.Counter
	foldFailures               *prometheus.CounterVec // reason
	notUnderstood              prometheus.Gauge
	namesBytes                 prometheus.Gauge
	stateBytes                 prometheus.Gauge
	forgottenEarly             prometheus.Counter
	gaveUp                     prometheus.Counter
	namesRefused, namesDropped prometheus.Counter
	unknownColumns             prometheus.Counter
	badFields                  prometheus.Counter
	lost                       *prometheus.CounterVec // stream
	brokenAt                   prometheus.Gauge
	lag                        prometheus.Histogram
	partitions                 prometheus.Gauge
	sessions                   prometheus.Gauge

	reasons []string // of sources
	tenants *tenant.Series

	mu  sync.Mutex
	met map[string]struct{} // tenants that have series of their own at 0
}

func newCounters(reg prometheus.Registerer, sources ...Source) *counters {
	tenants := tenant.NewSeries()
	c := &counters{
		tenants: tenants,
		events: perTenant{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_events_total",
			Help: "Events folded, by tenant and outcome: stored, rejected or duplicate."}, []string{"tenant", "outcome"}), tenants},
		rejects: perTenant{prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_rejects_total",
			Help: "Events refused, by tenant and reason; their bytes are in the table rejects."}, []string{"tenant", "reason"}), tenants},
		parts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_parts_total",
			Help: "INGEST messages, by outcome: folded, duplicate, bad, or poison (kept as a reject after its fold failed 3 times)."},
			[]string{"outcome"}),
		chunks: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_chunks_total", Help: "Chunks published to ROWS."}),
		chunkBytes: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_chunk_bytes_total",
			Help: "Bytes of chunks published, compressed."}),
		rows: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_rows_total", Help: "Rows published, by table."},
			[]string{"table"}),
		mended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_rows_mended_total",
			Help: "Rows that lacked a value in a column, which is empty in them, by table; not 0 is a bug of Warpline."},
			[]string{"table"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_retries_total",
			Help: "Publishes and reads tried again, by reason: rows_full, timeout, dictionary, object, state_full."}, []string{"reason"}),
		takeovers: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_takeovers_total", Help: "Partitions taken over."}),
		fenced: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_fenced_total",
			Help: "Partitions given up because another owner published first."}),
		aside: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_set_aside_total",
			Help: "Messages in ROWS that no worker published, set aside; the audit names them."}),
		snapshots: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_snapshots_total", Help: "State snapshots written."}),
		foldFailures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_fold_failures_total",
			Help: "Folds of a part that failed and are tried again, by reason: panic, time, memory, stuck."}, []string{"reason"}),
		notUnderstood: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_not_understood",
			Help: "Partitions that are not folded because this version cannot read their state."}),
		stateBytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_state_bytes",
			Help: "Size of the last snapshots of the state of this process's partitions."}),
		forgottenEarly: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_sessions_forgotten_early_total",
			Help: "Silent sessions whose state was forgotten before its time because WL_STATE had no room; only the gateway's " +
				"record recognises what they send again later."}),
		gaveUp: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_pending_given_up_total",
			Help: "Times that a session's kernels, details and scopes were written without their other half because more waited in the partition " +
				"than may."}),
		namesBytes: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_names_bytes",
			Help: "Memory of sessions' names and what is kept beside them, as charged to its budget."}),
		namesRefused: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_names_refused_total",
			Help: "Names that are not kept in memory because their session has its share; they are stored, and their ids are resolved at read."}),
		namesDropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_names_dropped_total",
			Help: "Sessions whose names were dropped from memory because there was no room; they are loaded again when the session sends."}),
		unknownColumns: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_unknown_columns_total",
			Help: "Columns and keys that this version does not know; they are kept in the table extra_fields."}),
		badFields: prometheus.NewCounter(prometheus.CounterOpts{Name: "warpline_worker_bad_fields_total",
			Help: "Fields of lifecycle and other rare lines whose value did not fit; the line is stored without them, they are kept in the table " +
				"extra_fields."}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "warpline_worker_lost_total",
			Help: "Times that a stream (INGEST or ROWS) was found to have lost messages, its tail or all of it, by stream; counted per partition."},
			[]string{"stream"}),
		brokenAt: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_lost_timestamp_seconds",
			Help: "When this process last found that a stream had lost messages, as Unix time; 0: never."}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "warpline_worker_lag_seconds",
			Help:    "Age of a part, since the gateway received it, when its chunk is published.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14)}),
		partitions: prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_partitions", Help: "Partitions that this process owns."}),
		sessions:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "warpline_worker_sessions", Help: "Sessions whose state this process holds."}),
	}
	for i := range sources {
		c.reasons = append(c.reasons, sources[i].Reasons...)
	}
	c.begin()
	for _, name := range []string{stream.IngestStream, stream.RowsStream} {
		c.lost.WithLabelValues(name)
	}
	if reg != nil {
		reg.MustRegister(c.lost, c.brokenAt, c.events, c.rejects, c.parts, c.chunks, c.chunkBytes, c.rows, c.mended, c.retries, c.takeovers,
			c.fenced,
			c.aside, c.snapshots, c.foldFailures, c.notUnderstood, c.namesBytes, c.stateBytes, c.forgottenEarly, c.gaveUp, c.namesRefused,
			c.namesDropped, c.unknownColumns, c.badFields, c.lag, c.partitions, c.sessions)
	}
	return c
}

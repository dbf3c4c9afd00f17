package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/hist"
)

// TraceName adds up the slices of one name and category.
type TraceName struct {
	Category string  `json:"category"`
	Name     string  `json:"name"`
	Calls    uint64  `json:"calls"`
	TotalNS  uint64  `json:"total_ns"`
	MeanNS   float64 `json:"mean_ns"`
	P50NS    uint64  `json:"p50_ns"`
	P90NS    uint64  `json:"p90_ns"`
	P99NS    uint64  `json:"p99_ns"`
	MaxNS    uint64  `json:"max_ns"`
}

// TraceChange is a name in these traces and in the base. Where it is in one of them only the other's numbers are 0.
type TraceChange struct {
	Category    string  `json:"category"`
	Name        string  `json:"name"`
	State       string  `json:"state"` // new, gone, or "" where it is in both
	ChangeNS    int64   `json:"change_ns"`
	Calls       uint64  `json:"calls"`
	BaseCalls   uint64  `json:"base_calls"`
	TotalNS     uint64  `json:"total_ns"`
	BaseTotalNS uint64  `json:"base_total_ns"`
	MeanNS      float64 `json:"mean_ns"`
	BaseMeanNS  float64 `json:"base_mean_ns"`
	P50NS       uint64  `json:"p50_ns"`
	BaseP50NS   uint64  `json:"base_p50_ns"`
	P99NS       uint64  `json:"p99_ns"`
	BaseP99NS   uint64  `json:"base_p99_ns"`
}

// gpuCategories are those of what GPUs do; the names of 2021 begin with capitals.
const gpuCategories = "('kernel', 'Kernel', 'gpu_memcpy', 'Memcpy', 'gpu_memset', 'Memset')"

// asideCategories hold nothing of the host's own: the annotations of others as GPUs show them, and the profiler's whole run.
const asideCategories = "('gpu_user_annotation', 'Trace')"

// sums is a query of the rollup by category and name. Views that read raw rows know more, but not for as long.
func (in *traceReader) sums(of []TraceSession, more ...string) (sql string, args []any) {
	from, args := in.only("trace_stats", of, more...)
	return "SELECT toString(category) AS c, toString(name) AS title, sum(calls) AS n, sum(total_ns) AS total, min(min_ns) AS low, " +
		"max(max_ns) AS high, sumMap(duration_hist) AS h FROM " + from + " GROUP BY c, title", args
}

func quantileOf(prefix string, q float64) string {
	return hist.QuantileSQL(prefix+"h", prefix+"n", prefix+"low", prefix+"high", q)
}

func readTraceKernels(in *traceReader) error {
	return in.names("category IN "+gpuCategories, &in.r.Kernels, &in.r.KernelNS)
}

func readTraceNames(in *traceReader) error {
	var all uint64
	return in.names("category NOT IN "+gpuCategories+" AND category NOT IN "+asideCategories, &in.r.Names, &all)
}

func (in *traceReader) names(condition string, into *[]TraceName, whole *uint64) error {
	sums, args := in.sums(in.r.Traces, condition)
	return in.each(fmt.Sprintf("SELECT c, title, n, total, total / greatest(n, 1), %s, %s, %s, high, sum(total) OVER () FROM (%s) "+
		"ORDER BY total DESC, c, title LIMIT %d", quantileOf("", 0.5), quantileOf("", 0.9), quantileOf("", 0.99), sums, in.r.Query.Top), args,
		func(rows driver.Rows) error {
			var x TraceName
			err := rows.Scan(&x.Category, &x.Name, &x.Calls, &x.TotalNS, &x.MeanNS, &x.P50NS, &x.P90NS, &x.P99NS, &x.MaxNS, whole)
			*into = append(*into, x)
			return err
		})
}

// readTraceChanged compares rollups, so that traces can be compared whose slices have expired.
func readTraceChanged(in *traceReader) error {
	if len(in.r.base) == 0 {
		return nil
	}
	now, args := in.sums(in.r.Traces)
	base, more := in.sums(in.r.base)
	return in.each(fmt.Sprintf("SELECT if(n.n > 0, n.c, b.c) AS c, if(n.n > 0, n.title, b.title) AS title, "+
		"multiIf(b.n = 0, 'new', n.n = 0, 'gone', '') AS state, toInt64(n.total) - toInt64(b.total) AS change, n.n, b.n, n.total, b.total, "+
		"n.total / greatest(n.n, 1), b.total / greatest(b.n, 1), %s, %s, %s, %s FROM (%s) AS n FULL OUTER JOIN (%s) AS b "+
		"ON n.c = b.c AND n.title = b.title WHERE n.total != b.total OR n.n != b.n ORDER BY abs(change) DESC, c, title LIMIT %d",
		quantileOf("n.", 0.5), quantileOf("b.", 0.5), quantileOf("n.", 0.99), quantileOf("b.", 0.99), now, base, in.r.Query.Top),
		append(args, more...), func(rows driver.Rows) error {
			var x TraceChange
			err := rows.Scan(&x.Category, &x.Name, &x.State, &x.ChangeNS, &x.Calls, &x.BaseCalls, &x.TotalNS, &x.BaseTotalNS, &x.MeanNS,
				&x.BaseMeanNS, &x.P50NS, &x.BaseP50NS, &x.P99NS, &x.BaseP99NS)
			in.r.Changed = append(in.r.Changed, x)
			return err
		})
}

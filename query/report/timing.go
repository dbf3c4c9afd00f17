package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/hist"
)

// merged is the SQL that adds up the rows of a statistics view by name and takes percentiles of the whole: percentiles of the buckets
// cannot be averaged.
func (in *reader) merged(view, name, extra string) (string, []any) {
	from, args := in.from(view)
	quantile := func(q float64) string { return hist.QuantileSQL("h", "n", "lo", "hi", q) }
	return fmt.Sprintf(`SELECT name, n, total, %s, %s, %s, hi, odd FROM (
		SELECT toString(%s) AS name, sum(calls) AS n, sum(total_ns) AS total, minIf(min_ns, calls > 0) AS lo, max(max_ns) AS hi,
			sumMap(duration_hist) AS h, %s AS odd
		FROM %s GROUP BY name) WHERE n > 0 OR odd > 0 ORDER BY total DESC, name LIMIT %d`, quantile(.5),
		quantile(.9), quantile(.99), name, extra, from, in.q.Top), args
}

func (in *reader) timings(sql string, args []any) (out []Timing, err error) {
	err = in.each(sql, args, func(rows driver.Rows) error {
		var t Timing
		if err := rows.Scan(&t.Name, &t.Calls, &t.TotalNS, &t.P50NS, &t.P90NS, &t.P99NS, &t.MaxNS, &t.Unmatched); err != nil {
			return err
		}
		out = append(out, t)
		return nil
	})
	return out, err
}

func readKernels(in *reader, r *Report) (err error) {
	sql, args := in.merged("kernel_stats", "kernel", "toUInt64(0)")
	r.Kernels, err = in.timings(sql, args)
	if err != nil {
		return err
	}
	from, args := in.from("kernel_stats")
	return in.conn.QueryRow(in.ctx, "SELECT sum(calls), sum(total_ns), uniqExactIf(toString(kernel), calls > 0), sum(synthetic_calls), "+
		"sum(disturbed_calls), sumIf(calls, bucket_s >= 3600 AND disturbed = 1) FROM "+from, args...).
		Scan(&r.KernelCalls, &r.KernelNS, &r.KernelNames, &r.SyntheticCalls, &r.DisturbedCalls, &r.DoubtfulCalls)
}

func readScopes(in *reader, r *Report) (err error) {
	sql, args := in.merged("scope_stats", "scope", "sum(unmatched_begin) + sum(unmatched_end)")
	r.Scopes, err = in.timings(sql, args)
	return err
}

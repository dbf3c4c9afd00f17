package report

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/proto/hist"
)

// percentiles are those of what an inner SELECT adds up by name: percentiles of the buckets cannot be averaged.
var percentiles = func() string {
	quantile := func(q float64) string { return hist.QuantileSQL("h", "n", "lo", "hi", q) }
	return quantile(.5) + ", " + quantile(.9) + ", " + quantile(.99)
}()

// readKernels reads the kernels with the longest total and, in the same question, what all of them add up to: planning the view takes
// longer than adding up a session.
func readKernels(in *reader, r *Report) error {
	from, args := in.from("kernel_sums")
	return in.each(fmt.Sprintf(`SELECT name, n, total, %s, hi, all_calls, all_ns, names, all_synthetic, all_disturbed, all_doubtful
		FROM (
			SELECT name, n, total, lo, hi, h, synthetic, disturbed, sum(n) OVER () AS all_calls, sum(total) OVER () AS all_ns,
				countIf(n > 0) OVER () AS names, sum(synthetic) OVER () AS all_synthetic, sum(disturbed) OVER () AS all_disturbed,
				sum(doubtful) OVER () AS all_doubtful
			FROM (
				SELECT toString(kernel) AS name, sum(calls) AS n, sum(total_ns) AS total, minIf(min_ns, calls > 0) AS lo, max(max_ns) AS hi,
					sumMap(duration_hist) AS h, sum(synthetic_calls) AS synthetic, sum(disturbed_calls) AS disturbed,
					sumIf(calls, bucket_s >= 3600 AND kernel_sums.disturbed = 1) AS doubtful
				FROM %s GROUP BY name)
			ORDER BY n = 0, total DESC, name LIMIT %d)`, percentiles, from, in.q.Top), args,
		func(rows driver.Rows) error {
			var t Timing
			if err := rows.Scan(&t.Name, &t.Calls, &t.TotalNS, &t.P50NS, &t.P90NS, &t.P99NS, &t.MaxNS, &r.KernelCalls, &r.KernelNS,
				&r.KernelNames, &r.SyntheticCalls, &r.DisturbedCalls, &r.DoubtfulCalls); err != nil {
				return err
			}
			if t.Calls > 0 {
				r.Kernels = append(r.Kernels, t)
			}
			return nil
		})
}

func readScopes(in *reader, r *Report) error {
	from, args := in.from("scope_sums")
	return in.each(fmt.Sprintf(`SELECT name, n, total, %s, hi, odd FROM (
		SELECT toString(scope) AS name, sum(calls) AS n, sum(total_ns) AS total, minIf(min_ns, calls > 0) AS lo, max(max_ns) AS hi,
			sumMap(duration_hist) AS h, sum(unmatched_begin) + sum(unmatched_end) AS odd
		FROM %s GROUP BY name) WHERE n > 0 OR odd > 0 ORDER BY total DESC, name LIMIT %d`, percentiles, from, in.q.Top), args,
		func(rows driver.Rows) error {
			var t Timing
			if err := rows.Scan(&t.Name, &t.Calls, &t.TotalNS, &t.P50NS, &t.P90NS, &t.P99NS, &t.MaxNS, &t.Unmatched); err != nil {
				return err
			}
			r.Scopes = append(r.Scopes, t)
			return nil
		})
}

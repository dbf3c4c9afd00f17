package table_test

import "testing"

// What leaving untrue durations out costs: questions to a million rollup rows and three million kernels, without deep windows, with some,
// and with a million of other tenants.
func BenchmarkHonestDurations(b *testing.B) {
	s := newStore(b, true)
	s.Exec(`INSERT INTO {db}.kernel_stats_data (tenant, session_id, bucket, bucket_s, kernel_id, kernel, calls, total_ns, min_ns,
    max_ns, duration_hist, received_day, retention_days)
		SELECT 'acme', concat('session-', toString(number % 100)),
    toDateTime64('2026-11-20 10:00:00', 9, 'UTC') + toIntervalMinute(intDiv(number, 50000)), 60, intDiv(number, 100) % 500 + 1,
			concat('void kernel_', toString(intDiv(number, 100) % 500)), 10, 100000, 1000, 20000,
mapFromArrays(arrayMap(x -> toInt16(400 + number % 50 + x), range(8)), [1, 1, 1, 1, 1, 1, 2, 2]::Array(UInt64)), today(), 365
    FROM numbers(1000000)`)
	s.Exec(`INSERT INTO {db}.kernels_data (tenant, session_id, started_at, duration_ns, launch_id, corr_id, received_at, retention_days)
		SELECT 'acme', concat('session-', toString(number % 10)),
    toDateTime64('2026-11-20 10:00:00', 9, 'UTC') + toIntervalNanosecond(toInt64(number) * 400000), 1000 + number % 10000, 1, number,
    now(), 30 FROM numbers(3000000)`)
	for _, windows := range []string{"none", "15", "fleet"} {
		switch windows {
		case "fleet":
			s.Exec(`INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at, received_day, retention_days)
				SELECT concat('tenant-', toString(number % 100)), concat('session-', toString(number % 10000)),
    toDateTime64('2026-11-20 00:00:00', 9, 'UTC') + toIntervalSecond(100 * intDiv(number, 10000)) AS at, at + 3, today(), 365
    FROM numbers(1000000)`)
		case "15":
			s.Exec(`INSERT INTO {db}.deep_windows_data (tenant, session_id, started_at, ended_at, received_day, retention_days)
				SELECT 'acme', concat('session-', toString(number % 3)),
    toDateTime64('2026-11-20 10:01:00', 9, 'UTC') + toIntervalSecond(100 * intDiv(number, 3)) AS at, at + 3, today(), 365 FROM numbers(15)`)
		}
		for name, sql := range map[string]string{
			"stats/sums": "SELECT sum(calls), sum(total_ns) FROM {db}.kernel_stats",
			"stats/p99": "SELECT kernel, sum(calls), max(p99_ns) FROM {db}.kernel_stats WHERE tenant = 'acme' GROUP BY kernel " +
				"ORDER BY kernel LIMIT 1",
			"stats/session":   "SELECT sum(calls), max(p99_ns) FROM {db}.kernel_stats WHERE tenant = 'acme' AND session_id = 'session-7'",
			"kernels/sum":     "SELECT count(), sum(duration_ns) FROM {db}.kernels",
			"kernels/flagged": "SELECT count(), sum(disturbed), sum(synthetic) FROM {db}.kernels",
		} {
			b.Run("windows="+windows+"/"+name, func(b *testing.B) {
				for b.Loop() {
					s.Query(sql)
				}
			})
		}
	}
}

package telemetry_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table/tabletest"
)

// BenchmarkMemoryFindings asks each view for all it finds in a million events, half of them samples: a job of eight ranks over three and a
// half hours.
func BenchmarkMemoryFindings(b *testing.B) {
	s := newStore(b, true)
	s.Exec(`INSERT INTO {db}.memory_events_data (tenant, session_id, at, timestamp_ns, event_type, sampling_interval_ms, host,
    job_id, rank, world_size, device_id, allocator_allocated_bytes, allocator_reserved_bytes,
			allocator_change_bytes, device_used_bytes, device_total_bytes, metadata, present, origin, upload_index, retention_days,
received_at)
		SELECT 'acme', concat('s', toString(r)), fromUnixTimestamp64Nano(1795168800000000000 + (number % 125000) * 100000000, 'UTC') AS t,
    toUnixTimestamp64Nano(t), ['sample', 'allocation', 'peak', 'sample'][1 + number % 4], 100,
			concat('h', toString(intDiv(r, 4))), 'job', intDiv(number, 125000) AS r, 8, r % 4,
toInt64(2e10 + 1e9 * sin(number / 1000) + rand(1) % 100000000) AS a, a + 1000000000 + rand(2) % 100000000 AS v,
			rand(3) % 1000000, v + if(number % 5000 = 0, 5000000000, rand(4) % 1000000), 85899345920,
'{"backend":"cuda","supports_device_total":true}', 511, 'json', number % 125000, 30, now()
		FROM numbers(1000000)`)
	for _, v := range tabletest.Schema().Views(s.Opts) {
		for _, name := range memoryViews {
			if v.Name != name {
				continue
			}
			b.Run(name, func(b *testing.B) {
				for b.Loop() {
					s.Query("SELECT * FROM {db}." + name + " WHERE tenant = 'acme' FORMAT Null")
				}
			})
		}
	}
}

package telemetry_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// Every view of memory answers for numbers at the edges of what the validator lets through.
func TestMemoryViewsAtTheEdges(t *testing.T) {
	s := newStore(t, true)
	s.Exec(`INSERT INTO {db}.memory_events_data (tenant, session_id, at, timestamp_ns, event_type, collector, host, job_id,
    present, pid, rank, local_rank, world_size, device_id, sampling_interval_ms,
		allocator_allocated_bytes, allocator_reserved_bytes, allocator_change_bytes, device_used_bytes, device_total_bytes, context, metadata,
upload_index, origin, received_at, retention_days)
	WITH [toInt64(0), 1, 1000000, 4611686018427387904, 9223372036854775807] AS sizes,
    [toInt64(0), 1, 1795175929972803352, 1795175929972803353, 9223372036854775807] AS times
	SELECT 'a', concat('s\'', toString(n % 3)), fromUnixTimestamp64Nano(ts), times[1 + h % 5] AS ts,
    ['sample', 'allocation', 'error', 'peak', '\0'][1 + n % 5], 'c', 'h', ['', 'job\'', '\xff'][1 + n % 3],
		63, 1, world - 1, 0, [toInt64(1), 3, 70000, 9223372036854775807][1 + intDiv(h, 5) % 4] AS world,
[toInt64(-1), 0, 9223372036854775807][1 + intDiv(h, 20) % 3], sizes[1 + intDiv(h, 60) % 5],
		sizes[1 + intDiv(h, 300) % 5], sizes[1 + intDiv(h, 1500) % 5],
[toInt64(-9223372036854775808), -1, 0, 104857601, 9223372036854775807][1 + intDiv(h, 7500) % 5],
		sizes[1 + intDiv(h, 37500) % 5], sizes[1 + intDiv(h, 187500) % 5], 'all_reduce', '{"a":"\'nccl', n, ['json', 'oom'][1 + n % 2], now(),
30
	FROM (SELECT number AS n, sipHash64(number) AS h FROM numbers(3000))`)
	s.Want("SELECT count() > 1 FROM {db}.memory_runs", "1")
	for _, v := range tabletest.Schema().Views(table.Options{}) {
		if len(v.Name) > 6 && v.Name[:7] == "memory_" {
			s.Exec("SELECT * FROM {db}." + v.From() + " FORMAT Null")
		}
	}
}

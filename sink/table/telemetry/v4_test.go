package telemetry_test

import (
	"testing"

	"github.com/warpline/warpline/sink/table/tabletest"
	"github.com/warpline/warpline/sink/table/telemetry"
)

// A counter that nobody measured is null, not 0; what a collector can measure and how it feels are columns; of two copies of an event
// the richer stands.
func TestMemoryEventsOfVersion4(t *testing.T) {
	s := newStore(t, true)
	s.Exec(`INSERT INTO {db}.memory_events_data (tenant, session_id, timestamp_ns, event_type, present, sent_version, record_session_id,
		capabilities, capability_backend, sampling_source,
		health_present, health_status, telemetry_partial, partial_fields, consecutive_failures, event_hash, richness, metadata, legacy) VALUES
		('t', 'mem:a', 1, 'old', 0, 0, '', 0, '', '', 0, '', 0, '', 0, 0, 0, '{}', 0),
		('t', 'mem:a', 2, 'null', 7680, 4, '', 2048, 'cuda', 'nvml', 0, '', 0, '', 0, 11, 1, '{}', 0),
		('t', 'mem:a', 3, 'ill', 24576, 3, 'a', 4095, 'cpu', 'legacy', 31, 'degraded', 1, '["x","y"]', 3, 12, 4, '{}', 0),
		('t', 'mem:a', 4, 'poor', 0, 4, 'a', 0, '', '', 0, '', 0, '', 0, 13, 1, '{}', 0),
		('t', 'mem:a', 4, 'rich', 0, 4, 'a', 0, '', '', 0, '', 0, '', 0, 13, 2, '{}', 0)`)
	s.Exec(`INSERT INTO {db}.memory_replaced_data (tenant, session_id, timestamp_ns, event_hash, richness) VALUES
		('t', 'mem:a', 4, 13, 1), ('t', 'mem:b', 3, 12, 4)`)
	for query, want := range map[string]string{
		"groupArray(event_type)": "['null','ill','rich','old']",
		"groupArray(event_type) FILTER (WHERE isNull(allocator_allocated_bytes) AND isNull(allocator_reserved_bytes) AND " +
			"isNull(allocator_change_bytes) AND isNull(device_used_bytes))": "['null']",
		"groupArray(allocator_allocated_bytes)":                                "[0,0,0]",
		"groupArray(event_type) FILTER (WHERE isNull(supports_device_used))":   "['rich','old']",
		"groupArray(event_type) FILTER (WHERE supports_bounded_profiling = 1)": "['ill']",
		"groupArray(event_type) FILTER (WHERE supports_bounded_profiling = 0)": "['null']",
		"groupArray(sent_schema_version)":                                      "[4,3,4,2]",
		"groupArray(schema_version)":                                           "[4,4,4,4]",
		"groupArray(record_session_id)":                                        "['a']",
		"groupArray(event_type) FILTER (WHERE capabilities_inferred = 1)":      "['ill']",
		"groupArray((collector_health_status, telemetry_partial, collector_consecutive_failures)) " +
			"FILTER (WHERE event_type = 'ill')": "[('degraded',1,3)]",
		"groupArray(collector_partial_fields) FILTER (WHERE event_type = 'ill')": "[['x','y']]",
	} {
		s.Want("SELECT "+query+" FROM (SELECT * FROM {db}.memory_events ORDER BY event_type = 'old', timestamp_ns)", want)
	}
	s.Exec(`INSERT INTO {db}.memory_stats_data (tenant, session_id, rank, events, no_allocated, allocated_sum, allocated_peak, no_used,
		used_sum, used_peak, reserved_sum, reserved_peak) VALUES
		('t', 'mem:a', 0, 4, 1, 30, 20, 4, 0, 0, 40, 10)`)
	s.Want("SELECT peak_allocated_bytes, mean_allocated_bytes, peak_used_bytes, mean_used_bytes, mean_reserved_bytes FROM {db}.memory_stats",
		"20\t10\t\\N\t\\N\t10")
}

// What a tracker does not measure gives no finding: null is not 0 bytes, against which every other number would be a jump.
func TestMemoryFindingsOfNullCounters(t *testing.T) {
	s := newStore(t, true)
	// Twelve samples of three ranks: one that says all, with a gap, one that does not say what is used, one that does not say what is
	// reserved.
	s.Exec(`INSERT INTO {db}.memory_events_data (tenant, session_id, at, timestamp_ns, event_type, host, job_id, rank, world_size, device_id,
		sampling_interval_ms,
		allocator_allocated_bytes, allocator_reserved_bytes, device_used_bytes, device_total_bytes, present, sent_version, capabilities)
	SELECT 't', concat('mem:', toString(r)), fromUnixTimestamp64Nano(ts), 1795000000000000000 + i * 100000000 AS ts, 'sample', 'h', 'job',
		r, 3, 0, 100,
		1000000000, if(r = 2, 0, 1000000000), if(r = 1, 0, 9000000000), 16000000000, 40 + multiIf(r = 1, 4096, r = 2, 1024, 0), 4, 2048
	FROM (SELECT number % 3 AS r, intDiv(number, 3) AS i FROM numbers(36))`)
	s.Want("SELECT groupUniqArray(rank) FROM {db}.memory_anomalies WHERE signal = 'gap_ratio_breach'", "[0]")
	s.Want("SELECT countIf(rank != 0) FROM {db}.memory_gaps", "0")
	s.Want("SELECT countIf(rank != 0) FROM {db}.memory_collectives", "0")
	s.Want("SELECT countIf(used_known), countIf(gap_known) FROM {db}.memory_samples", "24\t12")
}

func TestEveryViewShowsSomething(t *testing.T) {
	s := newStore(t, true)
	s.SeedAll()
	s.addMemory(memoryOdd(t)...) // of what is all the same there is nothing to find
	for _, v := range tabletest.Schema().Views(s.Opts) {
		if v.Source != telemetry.Source.Name {
			continue
		}
		if n := s.Query("SELECT count() FROM (SELECT * FROM {db}." + v.From() + ")"); n == "0" {
			t.Errorf("view %s shows nothing", v.Name)
		}
	}
}

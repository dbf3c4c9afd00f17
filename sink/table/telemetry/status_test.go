package telemetry_test

import (
	"fmt"
	"strings"
	"testing"
)

// A tracker's summary says more of how its session ended than its events do.
func TestMemorySessionsHaveTheStatusOfTheirSummary(t *testing.T) {
	s := newStore(t, true)
	for session, ranks := range map[string][]int{"completed": {9, 10}, "interrupted": {9, 8}, "incomplete": {7, 6}, "running": {6},
		"stopped": {8}, "silent": nil} {
		s.addMemory(looks(2, func(i int, e *memoryEvent) { e.Session = session })...)
		for _, rank := range ranks {
			s.Exec(fmt.Sprintf("INSERT INTO {db}.session_ends_data (tenant, session_id, rank, at, received_day, retention_days) "+
				"SELECT any(tenant), '%s', %d, fromUnixTimestamp64Nano(toInt64(1795000000000000000)), today(), 30 FROM "+
				"{db}.memory_events_data", session, rank))
		}
	}
	s.Want("SELECT session_id, status, ended_at > toDateTime64(0, 9) FROM {db}.memory_sessions ORDER BY session_id", strings.Join([]string{
		"completed\tcompleted\t1", "incomplete\tincomplete\t0", "interrupted\tinterrupted\t1", "running\trunning\t0",
		"silent\tincomplete\t0", "stopped\tcompleted\t1",
	}, "\n"))
	s.Want("SELECT status, value FROM {db}.memory_summaries WHERE metric = 'session_count_by_status' ORDER BY status",
		"completed\t2\nincomplete\t2\ninterrupted\t1\nrunning\t1")
	s.Want("SELECT DISTINCT status FROM {db}.memory_summaries WHERE metric = 'peak_device_used_bytes' AND group_by = 'status' ORDER "+
		"BY status", "completed\nincomplete\ninterrupted\nrunning")
}

package telemetry

import "fmt"

// summedSQL adds up the ranks of sessions for memory_summaries, by groups: a row for each group and metric. session, rank and status are
// the columns that make a group, or what is shown in place of a column that does not.
func summedSQL(group, session, rank, status string) string {
	return fmt.Sprintf(`SELECT tenant, m.1 AS metric, '%[1]s' AS group_by, g_session AS session_id, g_rank AS rank, g_status AS
    status, m.2 AS value, m.3 AS details
FROM (
    SELECT
        tenant, %[2]s AS g_session, CAST(%[3]s, 'Nullable(Int64)') AS g_rank, %[4]s AS g_status,
        maxIf(allocated, allocated_events > 0) AS a, maxIf(reserved, reserved_events > 0) AS r, maxIf(used, used_events > 0) AS u,
        sum(alerts) AS alert_count, sum(transitions) AS transition_count, sum(gap_samples) AS samples,
        minIf(first_gap, gap_samples > 0) AS f, maxIf(last_gap, gap_samples > 0) AS l, maxIf(peak_gap, gap_samples > 0) AS peak,
        arrayFilter(m -> m.4, [
            ('peak_allocator_allocated_bytes', a.1, map('timestamp_ns', -a.2), sum(allocated_events) > 0),
            ('peak_allocator_reserved_bytes', r.1, map('timestamp_ns', -r.2), sum(reserved_events) > 0),
            ('peak_device_used_bytes', u.1, map('timestamp_ns', -u.2), sum(used_events) > 0),
            ('alert_count', toInt64(alert_count), map(), alert_count > 0),
            ('collector_degradation_transitions', toInt64(transition_count), map(), transition_count > 0),
            ('hidden_memory_gap_growth', l.4 - f.4, map('first_gap_bytes', f.4, 'latest_gap_bytes', l.4, 'peak_gap_bytes', peak,
                'sample_count', toInt64(samples)), samples > 0)
        ]) AS metrics
    FROM parts
    GROUP BY tenant, g_session, g_rank, g_status
)
ARRAY JOIN metrics AS m`, group, session, rank, status)
}

// statusSQL is a session's status as the trackers' tools name it: that of its summary, or else what its events say.
func statusSQL(telling, stops string) string {
	return fmt.Sprintf("multiIf(%[1]s = 'stop' OR %[1]s = '' AND %[2]s > 0, 'completed', %[1]s = '', 'incomplete', %[1]s)", telling, stops)
}

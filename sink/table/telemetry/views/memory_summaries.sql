-- A row is one summary of a session, of a rank of it, of a rank, or of a status. They are the summaries of a query with the trackers' own
-- tools, by session, session-rank, rank and status: the largest value of each counter and when it was first reached, alerts, changes of a
-- collector's health, how the hidden gap grew over events of type sample, sessions by status, and interrupted sessions with OOM bundles. A
-- group has no rows for what it does not say.
WITH parts AS (
    SELECT
        s.tenant AS tenant, s.session_id AS session_id, rank,
        {{status "telling" "sum(stops) OVER (PARTITION BY s.tenant, s.session_id)"}} AS status,
        allocated, reserved, used, allocated_events, reserved_events, used_events, alerts, transitions, gap_samples, first_gap, last_gap,
        peak_gap
    FROM (
        SELECT
            tenant, session_id, rank, countIf(e.event_type = 'stop') AS stops,
            max((ifNull(e.allocator_allocated_bytes, -1), -e.timestamp_ns)) AS allocated,
            count(e.allocator_allocated_bytes) AS allocated_events,
            max((ifNull(e.allocator_reserved_bytes, -1), -e.timestamp_ns)) AS reserved,
            count(e.allocator_reserved_bytes) AS reserved_events,
            max((ifNull(e.device_used_bytes, -1), -e.timestamp_ns)) AS used, count(e.device_used_bytes) AS used_events,
            countIf(e.alert) AS alerts, countIf(e.event_type IN ('collector_degraded', 'collector_recovered')) AS transitions,
            countIf(e.gap IS NOT NULL) AS gap_samples,
            minIf((e.timestamp_ns, e.session_id, e.upload_index, assumeNotNull(e.gap)), e.gap IS NOT NULL) AS first_gap,
            maxIf((e.timestamp_ns, e.session_id, e.upload_index, assumeNotNull(e.gap)), e.gap IS NOT NULL) AS last_gap,
            maxIf(assumeNotNull(e.gap), e.gap IS NOT NULL) AS peak_gap
        FROM (
            SELECT
                toString(tenant) AS tenant, toString(session_id) AS session_id, rank, timestamp_ns, upload_index,
                toString(event_type) AS event_type,
                allocator_allocated_bytes, allocator_reserved_bytes, device_used_bytes, {{warns "event_type" "metadata"}} AS alert,
                if(event_type = 'sample', device_used_bytes - allocator_reserved_bytes, NULL) AS gap
            FROM {{db}}.memory_events
        ) AS e
        GROUP BY tenant, session_id, rank
    ) AS s
    ANY LEFT JOIN {{db}}.memory_told AS t ON s.tenant = t.tenant AND s.session_id = t.session_id
)
{{summed "session" "session_id" "NULL" "''"}}
UNION ALL
{{summed "session-rank" "session_id" "rank" "''"}}
UNION ALL
{{summed "rank" "''" "rank" "''"}}
UNION ALL
{{summed "status" "''" "NULL" "status"}}
UNION ALL
SELECT tenant, 'session_count_by_status', 'status', '', NULL, status, toInt64(count()), map()
FROM {{db}}.memory_sessions
GROUP BY tenant, status
UNION ALL
SELECT tenant, 'interrupted_sessions_with_oom_bundles', 'session', session_id, NULL, status, toInt64(oom_bundles), map()
FROM {{db}}.memory_sessions
WHERE status = 'interrupted' AND oom_bundles > 0

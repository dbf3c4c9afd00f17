-- A row is a change of how fast a GPU moves memory in a trace: from its time on, copies of this name together move so many GB/s.
-- A copy counts with its bytes over its length; one without bytes or length does not count.
SELECT
    tenant, session_id, device_id, name, fromUnixTimestamp64Nano(at, 'UTC') AS at,
    round(greatest(sum(step) OVER (PARTITION BY tenant, session_id, device_id, name ORDER BY q.at
        ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 0), 6) AS gb_per_s
FROM (
    SELECT tenant, session_id, device_id, name, at, sum(edge.2) AS step
    FROM (
        SELECT
            tenant, session_id, device_id, name, JSONExtractUInt(args, 'bytes') / duration_ns AS speed,
            arrayJoin([(toUnixTimestamp64Nano(started_at), speed), (toUnixTimestamp64Nano(ended_at), -speed)]) AS edge, edge.1 AS at
        FROM {{db}}.trace_gpu
        WHERE astray = 0 AND work = 'memory' AND duration_ns > 0 AND JSONExtractUInt(args, 'bytes') > 0
    )
    GROUP BY tenant, session_id, device_id, name, at
) AS q

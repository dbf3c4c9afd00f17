-- A row is a combination of works of a GPU in a trace, and for how long these and no others ran at once, in ns.
-- kinds lists them: communication, compute and memory, with + between them.
SELECT
    tenant, session_id, device_id,
    arrayStringConcat(arrayFilter((k, n) -> n > 0, ['communication', 'compute', 'memory'], [communicating, computing, moving]), '+')
        AS kinds,
    sum(toUInt64(next - at)) AS ns
FROM (
    SELECT
        tenant, session_id, device_id, at,
        sum(communication) OVER w AS communicating, sum(compute) OVER w AS computing, sum(memory) OVER w AS moving,
        any(at) OVER (PARTITION BY tenant, session_id, device_id ORDER BY at ROWS BETWEEN 1 FOLLOWING AND 1 FOLLOWING) AS next
    FROM (
        SELECT
            tenant, session_id, device_id, at,
            sumIf(step, work = 'communication') AS communication, sumIf(step, work = 'compute') AS compute,
            sumIf(step, work = 'memory') AS memory
        FROM (
            SELECT
                tenant, session_id, device_id, work,
                arrayJoin([(toUnixTimestamp64Nano(started_at), 1), (toUnixTimestamp64Nano(ended_at), -1)]) AS edge,
                edge.1 AS at, edge.2 AS step
            FROM {{db}}.trace_gpu
            WHERE astray = 0 AND duration_ns > 0
        )
        GROUP BY tenant, session_id, device_id, at
    )
    WINDOW w AS (PARTITION BY tenant, session_id, device_id ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE communicating + computing + moving > 0
GROUP BY tenant, session_id, device_id, kinds

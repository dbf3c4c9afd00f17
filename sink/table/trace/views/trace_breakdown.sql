-- A row is a GPU in a trace: how long it was busy and with what, in ns.
-- busy_ns is the time in which any work ran, compute_ns, communication_ns and memory_ns that in which such work ran, overlap_ns that in
-- which communication and computation ran both. summed_ns adds up all work, however much of it ran at once.
SELECT
    tenant, session_id, device_id,
    maxIf(span, works = 'all') AS span_ns,
    sumIf(covered, works = 'all') AS busy_ns,
    toUInt64(span_ns - busy_ns) AS idle_ns,
    sumIf(covered, works = 'compute') AS compute_ns,
    sumIf(covered, works = 'communication') AS communication_ns,
    sumIf(covered, works = 'memory') AS memory_ns,
    toUInt64(compute_ns + communication_ns - sumIf(covered, works = 'both')) AS overlap_ns,
    sumIf(summed, works = 'all') AS summed_ns
FROM (
    SELECT
        tenant, session_id, device_id, works, toUInt64(max(till) - min(at)) AS span, sum(took) AS summed,
        sum(toUInt64(greatest(till - greatest(at, before), 0))) AS covered
    FROM (
        SELECT
            tenant, session_id, device_id, works, toUnixTimestamp64Nano(started_at) AS at, at + toInt64(duration_ns) AS till,
            duration_ns AS took,
            max(till) OVER (PARTITION BY tenant, session_id, device_id, works ORDER BY at, till
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (
            SELECT
                tenant, session_id, device_id, started_at, duration_ns,
                arrayJoin(if(work = 'memory', ['all', 'memory'], ['all', work, 'both'])) AS works
            FROM {{db}}.trace_gpu
            WHERE astray = 0
        )
    )
    GROUP BY tenant, session_id, device_id, works
)
GROUP BY tenant, session_id, device_id

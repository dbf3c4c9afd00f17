-- A row is a step of a trace, as ProfilerStep#N marks it, and a GPU: how long the step took on the host, and how long of that the GPU was
-- busy.
-- device_id is -1 in a trace without work of GPUs.
SELECT
    tenant, session_id, step, started_at, duration_ns, device_id,
    toUInt64(intDiv(sum(sign * busy), arrayJoin(arrayResize([countIf(sign = 1)], countIf(sign = 1), countIf(sign = 1))))) AS busy_ns
FROM (
    -- How long the GPU had been busy until each end of a step: in all work that had begun, without what of it was still to come.
    SELECT
        tenant, session_id, device_id, sign, step, started_at, duration_ns,
        sum(covered) OVER w - greatest(max(till) OVER w - at, 0) AS busy
    FROM (
        SELECT
            tenant, session_id, device_id, at, till, sign, step, started_at, duration_ns,
            if(sign = 0, greatest(till - greatest(at, max(till) OVER (PARTITION BY tenant, session_id, device_id ORDER BY at, till, sign
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)), 0), 0) AS covered
        FROM (
            SELECT
                tenant, session_id, device_id, toUnixTimestamp64Nano(k.started_at) AS at, at + toInt64(k.duration_ns) AS till, 0 AS sign,
                toUInt64(0) AS step, toDateTime64(0, 9, 'UTC') AS started_at, toUInt64(0) AS duration_ns
            FROM {{db}}.trace_gpu AS k
            WHERE astray = 0
            UNION ALL
            SELECT
                s.tenant, s.session_id, if(g.known = 0, -1, g.device_id), s.edge.1, toInt64(0), s.edge.2, s.step, s.started_at,
                s.duration_ns
            FROM (
                SELECT
                    tenant, session_id, toUInt64OrZero(substring(CAST(name, 'String'), 14)) AS step, started_at, duration_ns, edge
                FROM {{db}}.trace_slices_data
                ARRAY JOIN [
                    (toUnixTimestamp64Nano(started_at), -1), (toUnixTimestamp64Nano(started_at) + toInt64(duration_ns), 1)] AS edge
                WHERE kind IN ('annotation', 'op') AND startsWith(name, 'ProfilerStep#')
            ) AS s
            LEFT JOIN (
                SELECT tenant, session_id, device_id, 1 AS known
                FROM {{db}}.trace_gpu
                WHERE astray = 0
                GROUP BY tenant, session_id, device_id
            ) AS g
                ON s.tenant = g.tenant AND s.session_id = g.session_id
        )
    )
    WINDOW w AS (PARTITION BY tenant, session_id, device_id ORDER BY at, till, sign ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE sign != 0
GROUP BY tenant, session_id, step, started_at, duration_ns, device_id

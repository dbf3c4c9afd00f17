-- A row is a step of a trace, as ProfilerStep#N marks it, and a GPU: how long the step took on the host, and how long of that the GPU was
-- busy.
-- device_id is -1 in a trace without work of GPUs.
SELECT
    s.tenant AS tenant, s.session_id AS session_id, s.step AS step, s.started_at AS started_at, s.duration_ns AS duration_ns,
    if(empty(g.busy), -1, g.device_id) AS device_id,
    toUInt64(arraySum(b -> greatest(least(b.2, s.till) - greatest(b.1, s.at), 0), g.busy)) AS busy_ns
FROM (
    SELECT
        tenant, session_id, toUInt64OrZero(substring(CAST(name, 'String'), 14)) AS step, started_at, duration_ns,
        toUnixTimestamp64Nano(started_at) AS at, at + toInt64(duration_ns) AS till
    FROM {{db}}.trace_slices_data
    WHERE kind IN ('annotation', 'op') AND startsWith(name, 'ProfilerStep#')
) AS s
LEFT JOIN (
    SELECT tenant, session_id, device_id, groupArray((low, high)) AS busy
    FROM (
        SELECT tenant, session_id, device_id, island, min(at) AS low, max(till) AS high
        FROM (
            SELECT
                tenant, session_id, device_id, at, till,
                sum(fresh) OVER (PARTITION BY tenant, session_id, device_id ORDER BY at, till
                    ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS island
            FROM (
                SELECT
                    tenant, session_id, device_id, toUnixTimestamp64Nano(started_at) AS at, at + toInt64(duration_ns) AS till,
                    at > max(till) OVER (PARTITION BY tenant, session_id, device_id ORDER BY at, till
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS fresh
                FROM {{db}}.trace_gpu
                WHERE astray = 0
            )
        )
        GROUP BY tenant, session_id, device_id, island
    )
    GROUP BY tenant, session_id, device_id
) AS g
    ON s.tenant = g.tenant AND s.session_id = g.session_id

-- A row is a place in a program where the host seems to wait in each turn of a loop.
SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    'sync_loop' AS rule,
    'medium' AS severity,
    'synchronisation' AS category,
    {{callsite "r"}} AS subject,
    concat('Called ', toString(r.loops + 1),
        ' times with three kernels or more before each next call: it looks like a loop that waits every time round. Wait once{{" " -}}
        behind the loop, or let the GPU run a step ahead.') AS message,
    'syncs_in_loop' AS metric,
    toFloat64(r.loops + 1) AS value,
    3. AS threshold,
    CAST(NULL, 'Nullable(Float64)') AS share,
    map('calls', toFloat64(r.calls), 'total_ns', toFloat64(r.ns), 'kernels_between', r.between) AS numbers
FROM (
    SELECT
        tenant, session_id, stack_trace, id, any(type) AS type, count() AS calls, sum(ns) AS ns,
        arrayPopFront(arrayDifference(arrayMap(x -> toInt64(x.2), arraySort(groupArray((at, kernels)))))) AS gaps,
        arrayCount(x -> x >= 3, gaps) AS loops, if(empty(gaps), 0, arrayAvg(gaps)) AS between
    FROM (
        SELECT
            s.tenant AS tenant, s.session_id AS session_id, toString(s.stack_trace) AS stack_trace,
            if(stack_trace = '', s.function_id, 0) AS id,
            toString(s.sync_type) AS type, s.started_at AS at, s.duration_ns AS ns, k.n AS kernels
        FROM {{db}}.syncs AS s
        ASOF LEFT JOIN (
            SELECT tenant, session_id, at, n
            FROM (SELECT tenant, session_id, arraySort(groupArray(started_at)) AS starts FROM {{db}}.kernels_data
                WHERE (tenant, session_id) IN (SELECT tenant, session_id FROM {{db}}.syncs_data)
                GROUP BY tenant, session_id)
            ARRAY JOIN starts AS at, arrayEnumerate(starts) AS n
        ) AS k
            ON s.tenant = k.tenant AND s.session_id = k.session_id AND s.started_at >= k.at
    )
    GROUP BY tenant, session_id, stack_trace, id
    HAVING loops >= 2
) AS r

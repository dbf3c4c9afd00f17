-- A row is a minute (after 30 days an hour) of a scope's name: calls, durations, and the kernels in it.
SELECT
    tenant, session_id, bucket, scope, calls, total_ns,
    if(calls = 0, toUInt64(0), least_ns) AS min_ns,
    max_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.5}} AS p50_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.9}} AS p90_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.99}} AS p99_ns,
    unmatched_begin, unmatched_end,
    toUInt64(if(total_ns > child_ns, total_ns - child_ns, 0)) AS self_ns,
    kernels, kernel_ns, bucket_s, name_id, duration_hist, child_ns
FROM (
    SELECT
        tenant, session_id, bucket, scope,
        sum(calls) AS calls,
        sum(total_ns) AS total_ns,
        min(least_ns) AS least_ns,
        max(max_ns) AS max_ns,
        sum(unmatched_begin) AS unmatched_begin,
        sum(unmatched_end) AS unmatched_end,
        sum(child_ns) AS child_ns,
        sum(kernels) AS kernels,
        sum(kernel_ns) AS kernel_ns,
        max(bucket_s) AS bucket_s,
        max(name_id) AS name_id,
        sumMap(duration_hist) AS duration_hist
    FROM (
        SELECT
            r.tenant AS tenant,
            r.session_id AS session_id,
            r.bucket AS bucket,
            {{named "if(r.scope = '', n.value, r.scope)" "r" "r.name_id"}} AS scope,
            if(scope = '', r.name_id, 0) AS unnamed,
            r.calls AS calls,
            r.total_ns AS total_ns,
            r.min_ns AS least_ns,
            r.max_ns AS max_ns,
            r.unmatched_begin AS unmatched_begin,
            r.unmatched_end AS unmatched_end,
            r.child_ns AS child_ns,
            toUInt64(0) AS kernels,
            toUInt64(0) AS kernel_ns,
            CAST(r.bucket_s, 'UInt32') AS bucket_s,
            r.name_id AS name_id,
            r.duration_hist AS duration_hist
        FROM {{db}}.scope_stats_data AS r
        ANY LEFT JOIN {{late "scope_name_dict"}} AS n
            ON r.tenant = n.tenant AND r.session_id = n.session_id AND r.name_id = n.id AND r.scope = ''
        UNION ALL
        SELECT
            k.tenant, k.session_id, k.bucket, k.name, 0, 0, 0, 18446744073709551615, 0, 0, 0, 0, k.kernels, k.kernel_ns, k.bucket_s, 0,
            CAST(map(), 'Map(Int16, UInt64)')
        FROM (
            SELECT
                tenant, session_id, bucket, arrayJoin(arrayDistinct(splitByChar('|', toString(scope)))) AS name,
                sum(calls + synthetic_calls + disturbed_calls) AS kernels, sum(total_ns) AS kernel_ns, max(bucket_s) AS bucket_s
            FROM {{db}}.kernel_stats
            WHERE scope != ''
            GROUP BY tenant, session_id, bucket, name
        ) AS k
        SEMI LEFT JOIN (
            SELECT q.tenant AS tenant, q.session_id AS session_id, 
                {{named "if(q.scope = '', m.value, q.scope)" "q" "q.name_id"}} AS name
            FROM {{db}}.scope_stats_data AS q
            ANY LEFT JOIN {{late "scope_name_dict"}} AS m
                ON q.tenant = m.tenant AND q.session_id = m.session_id AND q.name_id = m.id AND q.scope = ''
            GROUP BY tenant, session_id, name
        ) AS w ON k.tenant = w.tenant AND k.session_id = w.session_id AND k.name = w.name
    )
    GROUP BY tenant, session_id, bucket, scope, unnamed
)

SELECT
    tenant, session_id, bucket, scope, calls, total_ns,
    if(calls = 0, toUInt64(0), least_ns) AS min_ns,
    max_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.5}} AS p50_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.9}} AS p90_ns,
    {{quantile "duration_hist" "calls" "least_ns" "max_ns" 0.99}} AS p99_ns,
    unmatched_begin, unmatched_end, bucket_s, name_id, duration_hist
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        if(r.scope = '', n.value, r.scope) AS scope,
        sum(r.calls) AS calls,
        sum(r.total_ns) AS total_ns,
        min(r.min_ns) AS least_ns,
        max(r.max_ns) AS max_ns,
        sum(r.unmatched_begin) AS unmatched_begin,
        sum(r.unmatched_end) AS unmatched_end,
        max(r.bucket_s) AS bucket_s,
        max(r.name_id) AS name_id,
        sumMap(r.duration_hist) AS duration_hist
    FROM {{db}}.scope_stats_data AS r
    ANY LEFT JOIN {{late "scope_name_dict"}} AS n
        ON r.tenant = n.tenant AND r.session_id = n.session_id AND r.name_id = n.id AND r.scope = ''
    GROUP BY tenant, session_id, bucket, scope, if(scope = '', r.name_id, 0)
)

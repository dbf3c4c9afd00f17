SELECT
    tenant, session_id, bucket, kernel, scope, calls, total_ns, min_ns, max_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.5}} AS p50_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.9}} AS p90_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.99}} AS p99_ns,
    bucket_s, kernel_id, duration_hist
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        if(r.kernel = '', n.value, r.kernel) AS kernel,
        r.scope AS scope,
        sum(r.calls) AS calls,
        sum(r.total_ns) AS total_ns,
        min(r.min_ns) AS min_ns,
        max(r.max_ns) AS max_ns,
        max(r.bucket_s) AS bucket_s,
        max(r.kernel_id) AS kernel_id,
        sumMap(r.duration_hist) AS duration_hist
    FROM {{db}}.kernel_stats_data AS r
    ANY LEFT JOIN {{late "kernel_dict"}} AS n
        ON r.tenant = n.tenant AND r.session_id = n.session_id AND r.kernel_id = n.id AND r.kernel = ''
    GROUP BY tenant, session_id, bucket, kernel, scope, if(kernel = '', r.kernel_id, 0)
)

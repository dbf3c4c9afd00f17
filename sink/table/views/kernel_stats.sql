-- A row is a minute (after 30 days an hour) of a kernel in a scope: calls and durations.
{{/* The rows as they are stored, as r, without what deep windows disturbed, and as n the name of a kernel that came late. */}}
{{define "kernel_rows"}}FROM (
    SELECT
        s.tenant AS tenant, s.session_id AS session_id, bucket, CAST(s.bucket_s, 'UInt32') AS bucket_s, kernel_id, scope,
        CAST(kernel, 'LowCardinality(String)') AS kernel,
        CAST(calls, 'UInt64') AS calls, CAST(total_ns, 'UInt64') AS total_ns, CAST(min_ns, 'UInt64') AS min_ns,
        CAST(max_ns, 'UInt64') AS max_ns,
        CAST(duration_hist, 'Map(Int16, UInt64)') AS duration_hist, toUInt64(0) AS left_out,
        t.touched AS hour_touched
    FROM {{db}}.kernel_stats_data AS s
    ANY LEFT JOIN (
        SELECT tenant, session_id, toUInt8(0) AS hour, minute, touched FROM {{touched 1}}
        UNION ALL
        SELECT DISTINCT tenant, session_id, toUInt8(1), toUInt32(60 * intDiv(minute, 60)), touched FROM {{touched 0}}
    ) AS t
        ON s.tenant = t.tenant AND s.session_id = t.session_id AND toUInt8(s.bucket_s >= 3600) = t.hour
            AND {{minute "s.bucket"}} = t.minute
    WHERE s.bucket_s >= 3600 OR t.touched = 0
    UNION ALL
    SELECT
        tenant, session_id, bucket, toUInt32(60) AS bucket_s, kernel_id, scope, kernel, calls, total_ns, min_ns, max_ns,
        duration_hist, left_out, toUInt8(0)
    FROM {{db}}.touched_minutes
) AS r
ANY LEFT JOIN (
    SELECT tenant, session_id, id, value FROM {{late "kernel_dict"}}
    UNION ALL
    SELECT tenant, session_id, id, value FROM {{db}}.dictionaries
        WHERE dict = 'kernel_dict' AND late = 0 AND (tenant, session_id) IN {{windowed}}
) AS n
    ON r.tenant = n.tenant AND r.session_id = n.session_id AND r.kernel_id = n.id AND r.kernel = ''{{end -}}
SELECT
    tenant, session_id, bucket, kernel, scope,
    if(synthetic, 0, honest) AS calls,
    if(synthetic, 0, sum_ns) AS total_ns,
    if(calls = 0, toUInt64(0), least_ns) AS min_ns,
    if(calls = 0, toUInt64(0), most_ns) AS max_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.5}} AS p50_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.9}} AS p90_ns,
    {{quantile "duration_hist" "calls" "min_ns" "max_ns" 0.99}} AS p99_ns,
    bucket_s, kernel_id,
    if(synthetic, CAST(map(), 'Map(Int16, UInt64)'), durations) AS duration_hist,
    if(synthetic, honest + left_out, 0) AS synthetic_calls,
    if(synthetic, 0, left_out) AS disturbed_calls,
    toUInt8(NOT synthetic AND (left_out > 0 OR coarse)) AS disturbed
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        {{named "if(r.kernel = '', n.value, r.kernel)" "r" "r.kernel_id"}} AS kernel,
        r.scope AS scope,
        sum(r.calls) AS honest,
        sum(r.total_ns) AS sum_ns,
        min(r.min_ns) AS least_ns,
        max(r.max_ns) AS most_ns,
        max(r.bucket_s) AS bucket_s,
        max(r.kernel_id) AS kernel_id,
        sumMap(r.duration_hist) AS durations,
        sum(r.left_out) AS left_out,
        {{synthetic "tenant" "session_id"}} AS synthetic,
        max(r.hour_touched) AS coarse
    {{template "kernel_rows"}}
    GROUP BY tenant, session_id, bucket, kernel, scope, if(kernel = '', r.kernel_id, 0)
)

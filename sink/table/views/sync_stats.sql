-- A row is a minute (after 30 days an hour) of waits of one type at one call stack.
SELECT
    a.tenant AS tenant,
    a.session_id AS session_id,
    a.bucket AS bucket,
    {{synctype "a.sync_type_id"}} AS sync_type,
    {{named "n.value" "a" "a.function_id"}} AS stack_trace,
    a.calls AS calls,
    a.total_ns AS total_ns,
    a.max_ns AS max_ns,
    a.bucket_s AS bucket_s,
    a.sync_type_id AS sync_type_id,
    a.function_id AS function_id
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        r.function_id AS function_id,
        r.sync_type_id AS sync_type_id,
        sum(r.calls) AS calls,
        sum(r.total_ns) AS total_ns,
        max(r.max_ns) AS max_ns,
        max(r.bucket_s) AS bucket_s
    FROM {{db}}.sync_stats_data AS r
    GROUP BY tenant, session_id, bucket, function_id, sync_type_id
) AS a
ANY LEFT JOIN {{names "function_dict"}} AS n
    ON a.tenant = n.tenant AND a.session_id = n.session_id AND a.function_id = n.id

-- A row is a minute (after 30 days an hour) of a sampled hardware counter in a scope.
SELECT
    a.tenant AS tenant,
    a.session_id AS session_id,
    a.bucket AS bucket,
    a.device_id AS device_id,
    {{named "m.value" "a" "a.metric_id"}} AS metric_name,
    {{named "n.value" "a" "a.scope_name_id"}} AS scope,
    a.samples AS samples,
    {{sumparts "a.sum_parts"}} AS sum_value,
    sum_value / a.samples AS mean_value,
    a.min_value AS min_value,
    a.max_value AS max_value,
    a.bucket_s AS bucket_s,
    a.metric_id AS metric_id,
    a.scope_name_id AS scope_name_id
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        r.device_id AS device_id,
        r.metric_id AS metric_id,
        r.scope_name_id AS scope_name_id,
        sum(r.samples) AS samples,
        sumMap(r.sum_parts) AS sum_parts,
        min(r.min_value) AS min_value,
        max(r.max_value) AS max_value,
        max(r.bucket_s) AS bucket_s
    FROM {{db}}.pm_stats_data AS r
    GROUP BY tenant, session_id, bucket, device_id, metric_id, scope_name_id
) AS a
ANY LEFT JOIN {{names "metric_dict"}} AS m
    ON a.tenant = m.tenant AND a.session_id = m.session_id AND a.metric_id = m.id
ANY LEFT JOIN {{names "scope_name_dict"}} AS n
    ON a.tenant = n.tenant AND a.session_id = n.session_id AND a.scope_name_id = n.id

-- A row is one value of a hardware counter that was sampled at a fixed interval.
SELECT
    p.tenant AS tenant,
    p.session_id AS session_id,
    p.at AS at,
    p.device_id AS device_id,
    {{named "m.value" "p" "p.metric_id"}} AS metric_name,
    p.value AS value,
    {{named "n.value" "p" "p.scope_name_id"}} AS scope,
    p.metric_id AS metric_id,
    p.scope_name_id AS scope_name_id,
    p.sample_index AS sample_index,
    p.batch_id AS batch_id,
    p.received_at AS received_at,
    p.retention_days AS retention_days
FROM {{db}}.pm_samples_data AS p
ANY LEFT JOIN {{names "metric_dict"}} AS m
    ON p.tenant = m.tenant AND p.session_id = m.session_id AND p.metric_id = m.id
ANY LEFT JOIN {{names "scope_name_dict"}} AS n
    ON p.tenant = n.tenant AND p.session_id = n.session_id AND p.scope_name_id = n.id

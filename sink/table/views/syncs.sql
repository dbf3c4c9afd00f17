-- A row is a time that the host waited for a device.
SELECT
    s.tenant AS tenant,
    s.session_id AS session_id,
    s.started_at AS started_at,
    s.duration_ns AS duration_ns,
    s.sync_type AS sync_type,
    s.stream_id AS stream_id,
    s.event_id AS event_id,
    s.context_id AS context_id,
    s.corr_id AS corr_id,
    {{named "n.value" "s" "s.function_id"}} AS stack_trace,
    s.sync_type_id AS sync_type_id,
    s.function_id AS function_id,
    s.received_at AS received_at,
    s.retention_days AS retention_days
FROM {{db}}.syncs_data AS s
ANY LEFT JOIN {{names "function_dict"}} AS n
    ON s.tenant = n.tenant AND s.session_id = n.session_id AND s.function_id = n.id

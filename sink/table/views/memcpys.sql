-- A row is a memory copy.
SELECT
    m.tenant AS tenant,
    m.session_id AS session_id,
    m.started_at AS started_at,
    m.duration_ns AS duration_ns,
    m.bytes AS bytes,
    if(m.copy_kind = '', {{copykind "v.vendor" "m.copy_kind_id"}}, m.copy_kind) AS copy_kind,
    m.stream_id AS stream_id,
    m.corr_id AS corr_id,
    m.copy_kind_id AS copy_kind_id,
    m.received_at AS received_at,
    m.retention_days AS retention_days
FROM {{db}}.memcpys_data AS m
ANY LEFT JOIN {{vendors}} AS v
    ON m.tenant = v.tenant AND m.session_id = v.session_id AND m.copy_kind = ''

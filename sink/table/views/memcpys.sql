SELECT tenant, session_id, started_at, duration_ns, bytes, copy_kind, stream_id, corr_id, copy_kind_id, received_at, retention_days
FROM {{db}}.memcpys_data

-- A row is a memset.
SELECT
    tenant, session_id, started_at, addNanoseconds(started_at, duration_ns) AS ended_at, duration_ns, bytes, name, device_id,
    stream_id, corr_id, scope, scope_depth, stack_trace, platform, api_start_ns, api_exit_ns, pid, app, received_at,
    retention_days
FROM {{db}}.memsets_data

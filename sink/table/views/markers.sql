-- A row is an NVTX range.
SELECT
    tenant, session_id, started_at, addNanoseconds(started_at, duration_ns) AS ended_at, duration_ns, name, domain, marker_id,
    pid, app, received_at, retention_days
FROM {{db}}.markers_data

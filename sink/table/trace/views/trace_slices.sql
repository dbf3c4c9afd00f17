-- A row is a slice of a thread or of a stream, or an instant.
-- Which kind it is, its category decides. A kernel's launch has the same correlation.
SELECT
    tenant, session_id, started_at, duration_ns, phase, category, name, pid, tid, track, device_id, stream_id, correlation, external_id,
    args, kind, received_at, retention_days
FROM {{db}}.trace_slices_data

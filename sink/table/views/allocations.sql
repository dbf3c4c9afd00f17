-- A row is an allocation of memory, or its release.
SELECT
    tenant, session_id, started_at, duration_ns, memory_op, memory_kind, address, bytes, device_id, stream_id, corr_id,
    memory_op_id, memory_kind_id, received_at, retention_days
FROM {{db}}.allocations_data

SELECT
    tenant, session_id, at, toUInt8(2) AS schema_version, timestamp_ns, event_type, collector, sampling_interval_ms, pid, host,
    if(bitTest(present, 5), toString(job_id), NULL) AS job_id,
    rank, local_rank, world_size, device_id,
    allocator_allocated_bytes, allocator_reserved_bytes,
    if(bitTest(present, 0), allocator_active_bytes, NULL) AS allocator_active_bytes,
    if(bitTest(present, 1), allocator_inactive_bytes, NULL) AS allocator_inactive_bytes,
    allocator_change_bytes, device_used_bytes,
    if(bitTest(present, 2), device_free_bytes, NULL) AS device_free_bytes,
    if(bitTest(present, 3), device_total_bytes, NULL) AS device_total_bytes,
    if(bitTest(present, 4), context, NULL) AS context,
    metadata, legacy, backend, framework, origin, upload_index, received_at, retention_days
FROM {{db}}.memory_events_data

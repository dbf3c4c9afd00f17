-- A row is one time that memory ran out. It is an event of type error that says so, or the end of an OOM bundle without one, with what came
-- before it on the same rank and device.
SELECT
    tenant, session_id, job_id, host, device_id, rank, at, reason, context, origin, events,
    allocated_bytes, reserved_bytes, device_used_bytes, device_total_bytes,
    peak.1 AS peak_allocated_bytes, fromUnixTimestamp64Nano(peak.2, 'UTC') AS peak_at,
    last_change.2 AS last_allocation_bytes, fromUnixTimestamp64Nano(last_change.1, 'UTC') AS last_allocation_at,
    last_change.3 AS last_allocation_context,
    largest.1 AS largest_allocation_bytes, fromUnixTimestamp64Nano(largest.2, 'UTC') AS largest_allocation_at,
    largest.3 AS largest_allocation_context,
    allocation_bytes, deallocation_bytes,
    -- How the part of the device that cannot be allocated divides: used by others, unused in the allocator, allocated.
    greatest(0, device_used_bytes - reserved_bytes) AS outside_bytes, greatest(0, reserved_bytes - allocated_bytes) AS unallocated_bytes,
    multiIf(
        outside_bytes >= unallocated_bytes AND outside_bytes >= allocated_bytes AND outside_bytes > 0, 'outside the allocator',
        reserved_bytes > 0 AND unallocated_bytes / reserved_bytes > 0.3, 'fragmentation',
        device_total_bytes > 0 AND allocated_bytes / device_total_bytes >= 0.8, 'allocations',
        'one large request') AS filled_by
FROM (
    SELECT
        *,
        count() OVER before AS events,
        max((allocated_bytes, -timestamp_ns)) OVER before AS highest,
        (highest.1, -highest.2) AS peak,
        max(if(grew, (timestamp_ns, change_bytes, context), (toInt64(0), toInt64(0), ''))) OVER before AS last_change,
        max(if(grew, (change_bytes, timestamp_ns, context), (toInt64(0), toInt64(0), ''))) OVER before AS largest,
        sum(if(grew, change_bytes, 0)) OVER before AS allocation_bytes,
        sum(if(kind = 'deallocation', -change_bytes, 0)) OVER before AS deallocation_bytes,
        max(says_so AND origin = 'oom') OVER (PARTITION BY tenant, session_id, device_id, rank) AS said,
        max(if(origin = 'oom', (timestamp_ns, toInt64(upload_index)), (toInt64(-1), toInt64(-1))))
            OVER (PARTITION BY tenant, session_id, device_id, rank) AS last_of_bundle
    FROM (
        SELECT
            toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, toString(host) AS host,
            device_id, rank, at, timestamp_ns, upload_index, toString(origin) AS origin,
            lower(event_type) AS kind, ifNull(context, '') AS context,
            ifNull(allocator_allocated_bytes, 0) AS allocated_bytes, ifNull(allocator_reserved_bytes, 0) AS reserved_bytes,
            ifNull(allocator_change_bytes, 0) AS change_bytes,
            ifNull(e.device_used_bytes, 0) AS device_used_bytes, ifNull(e.device_total_bytes, 0) AS device_total_bytes,
            if(kind = 'error', JSONExtractString(metadata, 'oom_reason'), '') AS reason,
            kind = 'error' AND reason != '' AS says_so,
            kind = 'allocation' AND change_bytes > 0 AS grew
        FROM {{db}}.memory_events AS e
    )
    WINDOW before AS (PARTITION BY tenant, session_id, device_id, rank
        ORDER BY timestamp_ns, upload_index ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE says_so OR (origin = 'oom' AND NOT said AND (timestamp_ns, toInt64(upload_index)) = last_of_bundle)

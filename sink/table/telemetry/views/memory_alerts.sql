-- A row is an alert at a sample. Alerts are computed from the samples, so that several events of one moment give one alert. Beside them are
-- those that trackers sent themselves: in events, or in the list of alerts of a track file (track_file; value in bytes). An alert repeats
-- while its reason lasts. How full a device is follows from what is allocated, or from what is used if the collector cannot measure that.
SELECT tenant, session_id, job_id, host, device_id, rank, at, severity, kind, value, threshold, source, allocated_bytes, reserved_bytes,
    total_bytes, change_bytes, context, timestamp_ns
FROM (
    SELECT
        tenant, session_id, job_id, host, device_id, rank, at, a.1 AS severity, a.2 AS kind, a.3 AS value, a.4 AS threshold,
        'sample' AS source,
        allocated_bytes, reserved_bytes, total_bytes, change_bytes, '' AS context, timestamp_ns
    FROM (
        SELECT
            *,
            if(if(supports_allocated = 1, allocated_known, used_known) AND total_bytes > 0,
                if(supports_allocated = 1, allocated_bytes, used_bytes) / total_bytes * 100, 0) AS usage,
            ifNull(fragmentation_ratio, 0) AS fragmentation
        FROM {{db}}.memory_samples
    )
    ARRAY JOIN arrayFilter(a -> a.1 != '', [
        multiIf(
            usage >= 95, ('critical', 'usage', usage, 95.),
            usage >= 80, ('warning', 'usage', usage, 80.),
            ('', '', 0., 0.)),
        if(supports_allocated = 1 AND change_known AND change_bytes > 104857600,
            ('warning', 'large_allocation', toFloat64(change_bytes), 104857600.), ('', '', 0., 0.)),
        if(fragmentation > 0.3, ('warning', 'fragmentation', fragmentation, 0.3), ('', '', 0., 0.))
    ]) AS a
    UNION ALL
    -- An alert that a file has both among its events and beside them is one alert.
    SELECT
        tenant, session_id, job_id, host, device_id, rank, at, severity, kind, value, threshold, source, allocated_bytes, reserved_bytes,
        total_bytes, change_bytes, context, timestamp_ns
    FROM (
        SELECT *, max(source = 'tracker') OVER (PARTITION BY tenant, session_id, device_id, rank, timestamp_ns) AS among_events
        FROM (
            SELECT
                toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, toString(host) AS host,
                device_id, rank, at, if(lower(event_type) = 'warning', 'warning', 'critical') AS severity, 'tracker' AS kind, 0. AS value,
                0. AS threshold, 'tracker' AS source, ifNull(allocator_allocated_bytes, 0) AS allocated_bytes,
                ifNull(allocator_reserved_bytes, 0) AS reserved_bytes, ifNull(device_total_bytes, 0) AS total_bytes,
                ifNull(allocator_change_bytes, 0) AS change_bytes, ifNull(context, '') AS context, timestamp_ns
            FROM {{db}}.memory_events
            WHERE lower(event_type) IN ('warning', 'critical', 'error')
            UNION ALL
            SELECT
                toString(tenant), toString(session_id), any(toString(job_id)), any(toString(host)), device_id, rank, at,
                'warning', 'threshold', memory_mb * 1048576, threshold_mb * 1048576, 'track_file', toInt64(memory_mb * 1048576), 0, 0, 0,
                message, timestamp_ns
            FROM {{db}}.memory_track_alerts_data
            GROUP BY tenant, session_id, device_id, rank, at, timestamp_ns, memory_mb, threshold_mb, message
        )
    )
    WHERE source = 'tracker' OR among_events = 0
)

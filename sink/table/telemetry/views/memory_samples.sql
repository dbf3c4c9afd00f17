-- A row is a moment at which a tracker looked at a device.
--
-- Trackers of today write events of type sample, one a moment; where a rank has any, only those count. Older ones wrote several events for
-- one moment, each a few microseconds after the one before, in the order start, peak, change, alerts, stop. An event begins a new moment
-- when it comes later than half the sampling interval (5 ms at most), or when that order begins again.
SELECT
    tenant, session_id, job_id, run, host, pid, device_id, rank, local_rank, world_size, at, timestamp_ns, event_type, origin,
    sampling_interval_ms,
    allocated_bytes, reserved_bytes, change_bytes, used_bytes, total_bytes, used_source, used_known, gap_known, sampled,
    allocated_known, reserved_known, change_known, fragmentation_ratio, upload_index, sent_event_type, sent_schema_version,
    supports_allocated, worked, old, others, mixed
FROM (
    SELECT
        *,
        lagInFrame(timestamp_ns, 1, -1) OVER before AS previous_ns,
        (timestamp_ns, allocated_bytes, reserved_bytes, used_bytes, change_bytes) AS seen,
        lagInFrame(seen, 1) OVER before AS previous_seen,
        lagInFrame(stage, 1, 0) OVER before AS previous_stage
    FROM (
        SELECT
            *,
            event_type = 'sample' AS is_sample,
            max(event_type = 'sample') OVER (PARTITION BY tenant, session_id, device_id, rank) AS sampled,
            max(sent_schema_version) OVER (PARTITION BY tenant, session_id, device_id, rank) < 3 AS old,
            countIf(lower(sent_event_type) != 'sample') OVER (PARTITION BY tenant, session_id, device_id, rank) AS others,
            countIf(event_type = 'sample' AND gap_known AND NOT allocated_known) OVER (PARTITION BY tenant, session_id, device_id, rank)
                > 0 AS mixed,
            -- A kind of event that trackers do not write by itself is a moment of its own.
            transform(event_type, ['start', 'peak', 'allocation', 'deallocation', 'warning', 'critical', 'error', 'cleanup', 'stop'],
                [1, 2, 3, 3, 4, 4, 4, 5, 6], 0) AS stage
        FROM {{db}}.memory_used
    )
    WHERE is_sample = sampled
    WINDOW before AS (PARTITION BY tenant, session_id, device_id, rank
        ORDER BY timestamp_ns, upload_index ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
-- Two samples of one moment that say the same are one that was stored twice; events of other types are one row in any case.
WHERE if(sampled, timestamp_ns != previous_ns OR seen != previous_seen, timestamp_ns != previous_ns)
    AND (sampled OR stage = 0 OR stage < previous_stage OR (stage = previous_stage AND stage != 4)
        OR timestamp_ns - previous_ns > if(sampling_interval_ms > 0, least(5000000, sampling_interval_ms * 500000), 5000000))

-- A row is a memory event with the bytes in use on its whole device.
--
-- Trackers that cannot ask the driver send max(allocated, reserved) as device_used_bytes, which hides memory that the allocator does not
-- know. If GPU Flight measured the same device of the same host in the same second or the one before, its latest number is taken instead.
-- Its rows are read only in minutes that have memory telemetry of the host.
SELECT
    e.tenant AS tenant, e.session_id AS session_id, e.job_id AS job_id,
    -- What belongs together: the job over all its sessions, or else the session.
    if(e.job_id = '', e.session_id, e.job_id) AS run,
    e.host AS host, e.pid AS pid, e.device_id AS device_id, e.rank AS rank, e.local_rank AS local_rank, e.world_size AS world_size,
    e.at AS at, e.timestamp_ns AS timestamp_ns, e.upload_index AS upload_index, e.event_type AS event_type, e.origin AS origin,
    e.sampling_interval_ms AS sampling_interval_ms,
    e.allocated_bytes AS allocated_bytes, e.reserved_bytes AS reserved_bytes, e.change_bytes AS change_bytes,
    if(e.derived AND m.found = 1, toInt64(m.measured_used), e.event_used) AS used_bytes,
    if(e.event_total = 0 AND m.found = 1, toInt64(m.measured_total), e.event_total) AS total_bytes,
    if(e.derived AND m.found = 1, 'device_metrics', 'event') AS used_source,
    -- An event that does not say how much is used or reserved does not have a gap.
    e.says_used OR (e.derived AND m.found = 1) AS used_known, used_known AND e.says_reserved AS gap_known,
    e.says_allocated AS allocated_known, e.says_reserved AS reserved_known, e.says_change AS change_known,
    e.fragmentation_ratio AS fragmentation_ratio,
    e.sent_event_type AS sent_event_type, e.sent_schema_version AS sent_schema_version, e.supports_allocated AS supports_allocated,
    e.worked AS worked
FROM (
    SELECT
        toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, toString(host) AS host, pid,
        device_id, rank, local_rank, world_size,
        at, timestamp_ns, upload_index, lower({{trimmed `w.event_type`}}) AS event_type, toString(origin) AS origin, sampling_interval_ms,
        ifNull(allocator_allocated_bytes, 0) AS allocated_bytes, ifNull(allocator_reserved_bytes, 0) AS reserved_bytes,
        ifNull(allocator_change_bytes, 0) AS change_bytes,
        ifNull(device_used_bytes, 0) AS event_used, ifNull(device_total_bytes, 0) AS event_total,
        device_used_bytes IS NOT NULL AS says_used, allocator_reserved_bytes IS NOT NULL AS says_reserved,
        allocator_allocated_bytes IS NOT NULL AS says_allocated, allocator_change_bytes IS NOT NULL AS says_change,
        fragmentation_ratio, toString(w.event_type) AS sent_event_type, sent_schema_version,
        ifNull(supports_allocator_allocated, 1) AS supports_allocated,
        -- The bytes of a collector that does not work are 0, and not a measurement.
        NOT (lower({{trimmed `ifNull(collector_health_status, '')`}}) IN ('degraded', 'unhealthy') AND allocated_bytes = 0
            AND reserved_bytes = 0 AND event_used = 0) AS worked,
        device_id >= 0 AND event_used = greatest(allocated_bytes, reserved_bytes) AS derived,
        lower(host) AS host_key, intDiv(timestamp_ns, 1000000000) AS second
    FROM {{db}}.memory_events AS w
) AS e
-- By whole seconds, since a join on nearness would read the metrics of all tenants: only equality reaches the other side.
ANY LEFT JOIN (
    SELECT tenant, host_key, device_id, second, argMax(used_bytes, at) AS measured_used, argMax(total_bytes, at) AS measured_total,
        1 AS found
    FROM (
        SELECT d.tenant AS tenant, lower(s.host) AS host_key, toInt64(d.device_id) AS device_id, d.at AS at, d.used_bytes AS used_bytes,
            d.total_bytes AS total_bytes,
            intDiv(toUnixTimestamp64Nano(d.at), 1000000000) + arrayJoin([0, 1]) AS second
        FROM {{db}}.device_metrics_data AS d
        INNER JOIN (SELECT tenant, session_id, host FROM {{db}}.sessions WHERE host != '') AS s
            ON s.tenant = d.tenant AND s.session_id = d.session_id
        WHERE (d.tenant, lower(s.host), toStartOfMinute(d.at)) IN (SELECT tenant, lower(host), toStartOfMinute(bucket)
            FROM {{db}}.memory_stats_data)
    )
    GROUP BY tenant, host_key, device_id, second
) AS m ON m.tenant = e.tenant AND m.host_key = e.host_key AND m.device_id = e.device_id AND m.second = e.second

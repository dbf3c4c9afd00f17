-- A row is a memory event with what stormlog's rollups make of it. That is whether it is an alert and how severe, whether memory ran out,
-- and the collector's health. Types count as they were sent. started_at and ended_at are the session's.
SELECT
    e.tenant AS tenant, e.session_id AS session_id, e.timestamp_ns AS timestamp_ns, e.upload_index AS upload_index,
    e.event_type AS event_type,
    e.rank AS rank, e.local_rank AS local_rank, e.world_size AS world_size, e.device_id AS device_id,
    e.allocator_allocated_bytes AS allocated_bytes, e.allocator_reserved_bytes AS reserved_bytes, e.device_used_bytes AS used_bytes,
    e.allocator_change_bytes AS change_bytes,
    -- The bytes of a collector that does not work are 0, and not a measurement.
    NOT (e.health IN ('degraded', 'unhealthy') AND ifNull(allocated_bytes, 0) = 0 AND ifNull(reserved_bytes, 0) = 0
        AND ifNull(used_bytes, 0) = 0) AS worked,
    event_type IN ('warning', 'critical', 'error') OR e.said IN ('warning', 'critical', 'error') AS alert,
    multiIf(e.said != '', e.said, event_type IN ('critical', 'error'), 'critical', event_type = 'warning', 'warning', 'info') AS severity,
    event_type IN ('collector_degraded', 'collector_recovered') AS transition,
    multiIf(event_type = 'collector_degraded', 'degraded', event_type = 'collector_recovered', 'healthy', e.health) AS health,
    event_type = 'error' AND (JSONHas(e.metadata, 'oom_reason') OR JSONHas(e.metadata, 'oom_dump_path')) AS oom,
    if(oom AND JSONType(e.metadata, 'oom_dump_path') = 'String' AND {{trimmed `JSONExtractString(e.metadata, 'oom_dump_path')`}} != '',
        JSONExtractString(e.metadata, 'oom_dump_path'), '') AS bundle,
    s.started_at AS started_at, s.ended_at AS ended_at
FROM (
    SELECT
        toString(tenant) AS tenant, toString(session_id) AS session_id, timestamp_ns, upload_index,
        CAST(event_type, 'String') AS event_type, rank, local_rank, world_size, device_id,
        allocator_allocated_bytes, allocator_reserved_bytes, device_used_bytes, allocator_change_bytes, metadata,
        CAST(lower({{trimmed `ifNull(collector_health_status, '')`}}), 'String') AS health,
        if(position(metadata, '"severity"') > 0 AND JSONType(metadata, 'severity') = 'String',
            lower({{trimmed `JSONExtractString(metadata, 'severity')`}}), '') AS said
    FROM {{db}}.memory_events
) AS e
ANY LEFT JOIN (SELECT tenant, session_id, started_at, ended_at FROM {{db}}.sessions) AS s
    ON s.tenant = e.tenant AND s.session_id = e.session_id

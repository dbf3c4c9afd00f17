-- A row is a mark on the timeline of a session. Marks are starts and stops, changes of a collector's health, alerts, out-of-memory errors,
-- and phases from beginning to end. A mark that is a moment has lasting = 0 and ended_at = started_at.
SELECT
    tenant, session_id, job_id, rank, local_rank, world_size, at AS started_at, at AS ended_at, toUInt8(0) AS lasting,
    multiIf(type IN ('start', 'stop'), 'lifecycle', startsWith(type, 'collector'), 'collector', oom, 'oom', 'alert') AS kind,
    'telemetry_event' AS source,
    multiIf(type IN ('critical', 'error'), 'critical', type IN ('warning', 'collector_degraded'), 'warning', 'info') AS severity,
    multiIf(words != '', words, oom, if(reason = '', 'OOM detected', concat('OOM detected: ', reason)),
        transform(type, ['start', 'stop', 'collector_degraded', 'collector_recovered', 'warning', 'critical'],
            ['Tracking started', 'Tracking stopped', 'Collector degraded', 'Collector recovered', 'Warning', 'Critical alert'], 'Error'))
                AS label,
    type AS event_type, metadata
FROM (
    SELECT
        toString(tenant) AS tenant, toString(session_id) AS session_id, ifNull(job_id, '') AS job_id, rank, local_rank, world_size, at,
        metadata,
        {{trimmed "toString(event_type)"}} AS type, {{trimmed "ifNull(context, '')"}} AS words,
        {{trimmed (string "metadata" "oom_reason")}} AS reason,
        type = 'error' AND (JSONHas(metadata, 'oom_reason') OR JSONHas(metadata, 'oom_dump_path')) AS oom
    FROM {{db}}.memory_events
    WHERE type IN ('start', 'stop', 'collector_degraded', 'collector_recovered', 'warning', 'critical', 'error')
)
UNION ALL
SELECT
    p.tenant, p.session_id, p.job_id, p.rank, i.identity.1, i.identity.2, p.started_at, p.ended_at, toUInt8(p.ended_at != p.started_at),
    'phase', 'phase_replay', 'info', concat('Phase: ', p.phase), 'phase',
    concat('{"phase_path":', toJSONString(p.path), ',"scope_id":', toJSONString(p.scope_id), ',"sequence":', toString(p.sequence),
        ',"synthetic_end":', if(p.synthetic_end, 'true', 'false'),
        ',"thread_id":', toString(p.thread_id), ',"thread_name":', toJSONString(p.thread_name), '}')
FROM {{db}}.memory_phases AS p
LEFT JOIN (
    SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, rank,
        argMin((local_rank, world_size), (timestamp_ns, upload_index)) AS identity
    FROM {{db}}.memory_events
    GROUP BY tenant, session_id, rank
) AS i ON i.tenant = p.tenant AND i.session_id = p.session_id AND i.rank = p.rank

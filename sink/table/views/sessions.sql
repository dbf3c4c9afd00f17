-- A row is a session.
SELECT
    s.tenant AS tenant,
    s.session_id AS session_id,
    source, app, host, pid, started_at,
    multiIf(e.end.1 > 0 AND e.end.2 > toDateTime64(0, 9, 'UTC'), e.end.2,
            e.end.1 = 0 AND told != 'session-complete' AND ended > toDateTime64(0, 9, 'UTC'), ended,
            state = 'open', toDateTime64(0, 9, 'UTC'),
            last_event_at) AS ended_at,
    multiIf(crashed = 1, 'crashed',
            {{ending "state" "e.end.1"}} != '', {{ending "state" "e.end.1"}},
            e.end.1 = 0 AND completed = 1, if(told = 'session-complete', 'crashed', 'complete'), -- from before session_ends_data
            last_received_at < now64(9, 'UTC') - toIntervalMinute(10), 'idle',
            'open') AS state,
    run_id, segment_index, kernels, samples, ip, first_event_at, last_event_at, last_received_at,
    multiIf({{ending "reason" "e.end.1"}} != '', {{ending "reason" "e.end.1"}},
            crashed = 1, 'crashed',
            state = 'idle', 'idle',
            told = 'session-complete', 'no_shutdown',
            told) AS end_reason,
    session_kind, profiling_engine, vendor, devices, events, bytes, rejects,
    e.end.3 AS synthetic,
    e.end.4 AS exit_code,
    e.end.5 AS signal,
    e.end.6 AS window_stopped,
    toUInt8({{synthetic "s.tenant" "s.session_id"}}) AS synthetic_durations,
    clock_offset_ns, system_rate_ms,
    toInt32(place) - 1 AS rank,
    world_size
FROM (
    SELECT
        s.tenant AS tenant,
        s.session_id AS session_id,
        max(s.source) AS source,
        max(s.app) AS app,
        max(s.host) AS host,
        max(s.pid) AS pid,
        multiIf(min(s.started_at) < toDateTime64('2262-01-01 00:00:00', 9, 'UTC'), min(s.started_at),
                min(s.first_event_at) < toDateTime64('2262-01-01 00:00:00', 9, 'UTC'), min(s.first_event_at),
                toDateTime64(0, 9, 'UTC')) AS started_at,
        max(s.ended_at) AS ended,
        max(s.crashed) AS crashed,
        max(s.completed) AS completed,
        max(s.end_reason) AS told,
        max(s.run_id) AS run_id,
        max(s.segment_index) AS segment_index,
        sum(s.kernels) AS kernels,
        sum(s.samples) AS samples,
        max(s.ip) AS ip,
        if(min(s.first_event_at) < toDateTime64('2262-01-01 00:00:00', 9, 'UTC'), min(s.first_event_at), toDateTime64(0, 9, 'UTC'))
            AS first_event_at,
        max(s.last_event_at) AS last_event_at,
        max(s.last_received_at) AS last_received_at,
        max(s.session_kind) AS session_kind,
        max(s.profiling_engine) AS profiling_engine,
        max(s.vendor) AS vendor,
        max(s.devices) AS devices,
        sum(s.events) AS events,
        sum(s.bytes) AS bytes,
        sum(s.rejects) AS rejects,
        max(s.clock_offset_ns) AS clock_offset_ns,
        max(s.system_rate_ms) AS system_rate_ms,
        max(s.place) AS place,
        max(s.world_size) AS world_size
    FROM {{db}}.sessions_data AS s
    GROUP BY s.tenant, s.session_id
) AS s
ANY LEFT JOIN (
    -- The time of session-complete does not say when the session ended.
    SELECT tenant, session_id, max(({{endweight "rank"}}, if(rank = 1, toDateTime64(0, 9, 'UTC'), at), synthetic, exit_code, signal,
        window_stopped)) AS end
    FROM {{db}}.session_ends_data
    GROUP BY tenant, session_id
) AS e ON s.tenant = e.tenant AND s.session_id = e.session_id

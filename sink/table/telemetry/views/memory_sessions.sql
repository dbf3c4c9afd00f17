-- A row is a session of memory telemetry as stormlog's own tools show it. The status is that of the session's summary; without one, a
-- session with an event of type stop is completed, any other incomplete. ended_at is 1970 when nothing says it. Columns that a session has
-- once are those of its first event.
SELECT
    s.tenant AS tenant, s.session_id AS session_id, {{status "telling" "stops"}} AS status,
    fromUnixTimestamp64Nano(started_ns, 'UTC') AS started_at,
    multiIf(telling IN ('stop', 'interrupted', 'completed'), t.at, telling = '', fromUnixTimestamp64Nano(stopped_ns, 'UTC'),
        toDateTime64(0, 9, 'UTC')) AS ended_at, fromUnixTimestamp64Nano(last_ns, 'UTC') AS last_event_at,
    first.1 AS host, first.2 AS pid, first.3 AS job_id, first.4 AS rank, first.5 AS local_rank, first.6 AS world_size, first.7 AS collector,
    ranks, devices, events, alerts, oom_events, toUInt64(length(bundle_names)) AS oom_bundles, bundle_names, record_session_id
FROM (
    SELECT
        tenant, session_id, countIf(e.event_type = 'stop') AS stops, min(e.timestamp_ns) AS started_ns, max(e.timestamp_ns) AS last_ns,
        maxIf(e.timestamp_ns, e.event_type = 'stop') AS stopped_ns, count() AS events,
        argMin((e.host, e.pid, e.job_id, e.rank, e.local_rank, e.world_size, e.collector), (e.timestamp_ns, e.upload_index)) AS first,
        arraySort(groupUniqArray(65536)(e.rank)) AS ranks, arraySort(groupUniqArray(65536)(e.device_id)) AS devices,
        countIf(e.alert) AS alerts, countIf(e.event_type = 'error' AND e.says_oom) AS oom_events,
        arraySort(groupUniqArrayIf(1000)(e.bundle, e.bundle != '')) AS bundle_names, max(e.record_session) AS record_session_id
    FROM (
        SELECT
            toString(tenant) AS tenant, toString(session_id) AS session_id, timestamp_ns, upload_index,
            toString(event_type) AS event_type, toString(host) AS host, pid, ifNull(job_id, '') AS job_id,
            rank, local_rank, world_size, device_id, toString(collector) AS collector, ifNull(record_session_id, '') AS record_session,
            {{warns "event_type" "metadata"}} AS alert,
            if(position(metadata, '"oom_') = 0, false, JSONHas(metadata, 'oom_reason') OR JSONHas(metadata, 'oom_dump_path')) AS says_oom,
            -- A bundle is known by its own events, and by the place that an error names for it.
            multiIf(position(metadata, '"oom_') = 0, if(origin = 'oom', 'events.json', ''),
                {{string "metadata" "oom_bundle"}} != '', {{string "metadata" "oom_bundle"}},
                arrayElement(splitByRegexp('[/\\\\]+', trimRight({{string "metadata" "oom_dump_path"}}, '/\\')), -1)) AS bundle
        FROM {{db}}.memory_events
    ) AS e
    GROUP BY tenant, session_id
) AS s
ANY LEFT JOIN {{db}}.memory_told AS t ON s.tenant = t.tenant AND s.session_id = t.session_id

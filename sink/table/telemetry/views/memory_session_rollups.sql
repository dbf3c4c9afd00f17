-- A row is a session in short. It is as the rollups of stormlog's sink have it: events, the highest value of each counter, alerts, the
-- health of the collector, how often memory ran out. least_… leave out values of a collector that did not work.
SELECT
    tenant, session_id, started_at, ended_at, events, samples, ranks, first_timestamp_ns, last_timestamp_ns,
    {{peaks}},
    alerts, alert_severities, alert_event_types,
    length(transitions) AS collector_transitions,
    arrayCount(t -> t.3 = 1, transitions) AS collector_degradations, arrayCount(t -> t.3 = 0, transitions) AS collector_recoveries,
    -- From each degradation to the next recovery; one that follows another begins again, and the last one lasts to the end.
    toUInt64(arraySum((t, next) -> if(t.3 = 1, multiIf(next.3 = 0, next.1 - t.1, next.3 = 2, greatest(0, terminal_ns - t.1), 0), 0),
        transitions, arrayPopFront(arrayPushBack(transitions, (toInt64(0), toUInt32(0), toUInt8(2)))))) AS degraded_ns,
    if(last_health = '', NULL, last_health) AS collector_health,
    ooms, oom_bundles, allocation_bytes, deallocation_bytes
FROM (
    SELECT
        tenant, session_id, any(e.started_at) AS started_at, any(e.ended_at) AS ended_at, uniqExact(e.rank) AS ranks,
        {{rolled}},
        if(ended_at > toDateTime64(0, 9, 'UTC'), toUnixTimestamp64Nano(ended_at), last_timestamp_ns) AS terminal_ns,
        sumMapIf(map(e.severity, toUInt64(1)), e.alert) AS alert_severities,
        sumMapIf(map(e.event_type, toUInt64(1)), e.alert) AS alert_event_types,
        arraySort(groupArrayIf((e.timestamp_ns, e.upload_index, toUInt8(e.event_type = 'collector_degraded')), e.transition))
            AS transitions,
        argMaxIf(e.health, (e.timestamp_ns, e.upload_index), e.health != '') AS last_health,
        uniqExactIf(e.bundle, e.bundle != '') AS oom_bundles
    FROM {{db}}.memory_marked AS e
    GROUP BY tenant, session_id
)

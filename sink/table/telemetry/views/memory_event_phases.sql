-- A row is an event in a phase. An event outside of all phases does not have a row. phase is the label to show.
{{attributed "tenant, session_id, rank, timestamp_ns, upload_index, device_id, event_type" (print `
    -- Phases are in slots of time, so wide that on average each is in two: so an event has to be compared only with those of its slot.
    SELECT m.tenant AS tenant, m.session_id AS session_id, m.rank AS rank, m.timestamp_ns AS timestamp_ns,
        m.upload_index AS upload_index, m.device_id AS device_id, m.event_type AS event_type,
        m.origin_scope AS origin_scope, m.origin_thread AS origin_thread,
        p.thread_id AS thread_id, p.thread_name AS thread_name, p.scope_id AS scope_id, p.phase AS phase, p.depth AS depth,
        p.sequence AS sequence, p.started_at AS started_at, p.ended_at AS ended_at, true AS inside
    FROM (
        SELECT m.*, intDiv(m.timestamp_ns, w.width) AS slot
        FROM (
            SELECT toString(tenant) AS tenant, toString(session_id) AS session_id, rank, timestamp_ns, upload_index, device_id,
                toString(event_type) AS event_type, ` (origin "metadata") `
            FROM ` db `.memory_events
        ) AS m
        INNER JOIN (
            SELECT tenant, session_id, rank, toInt64(1 + intDiv(sum(toInt128(duration_ns)), 2 * count())) AS width
            FROM ` db `.memory_phases
            GROUP BY tenant, session_id, rank
        ) AS w ON w.tenant = m.tenant AND w.session_id = m.session_id AND w.rank = m.rank
    ) AS m
    INNER JOIN (
        SELECT
            *, toInt64(1 + intDiv(sum(toInt128(duration_ns)) OVER ranks, 2 * count() OVER ranks)) AS width,
            arrayJoin(range(intDiv(toUnixTimestamp64Nano(started_at), width), intDiv(toUnixTimestamp64Nano(ended_at), width) + 1)) AS slot
        FROM ` db `.memory_phases
        WINDOW ranks AS (PARTITION BY tenant, session_id, rank)
    ) AS p ON p.tenant = m.tenant AND p.session_id = m.session_id AND p.rank = m.rank AND p.slot = m.slot
    WHERE m.timestamp_ns >= toUnixTimestamp64Nano(p.started_at) AND m.timestamp_ns <= toUnixTimestamp64Nano(p.ended_at)`)}}

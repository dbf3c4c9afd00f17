-- A row is a minute of a session in short. It is as the rollups of stormlog's sink have it: minutes with events, counted from when the
-- session began; what came before that is in the first one.
SELECT
    tenant, session_id, window_index, fromUnixTimestamp64Nano(start_timestamp_ns, 'UTC') AS started_at, start_timestamp_ns,
    start_timestamp_ns + 60000000000 AS end_timestamp_ns, events, samples, ranks,
    {{peaks}},
    alerts, collector_transitions, ooms, allocation_bytes, deallocation_bytes
FROM (
    SELECT
        tenant, session_id, window_index, any(e.origin_ns) + window_index * 60000000000 AS start_timestamp_ns,
        uniqExact(e.rank) AS ranks, countIf(e.transition) AS collector_transitions,
        {{rolled}}
    FROM (
        SELECT *, toUnixTimestamp64Nano(started_at) AS origin_ns, greatest(0, intDiv(timestamp_ns - origin_ns, 60000000000)) AS window_index
        FROM {{db}}.memory_marked
    ) AS e
    GROUP BY tenant, session_id, window_index
)

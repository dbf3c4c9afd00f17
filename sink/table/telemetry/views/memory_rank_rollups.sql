-- A row is a rank of a session in short. It is as the rollups of stormlog's sink have it: the highest value of each counter, and how the
-- gap between used and reserved bytes changed over the events of type sample that say both. least_… leave out values of a collector that
-- did not work.
SELECT
    tenant, session_id, rank, first_event.1 AS local_rank, first_event.2 AS world_size, events, samples, first_timestamp_ns,
    last_timestamp_ns,
    {{peaks}},
    if(gaps = 0, NULL, first_gap.2) AS hidden_gap_first_bytes, if(gaps = 0, NULL, last_gap.2) AS hidden_gap_latest_bytes,
    if(gaps = 0, NULL, peak_gap) AS hidden_gap_peak_bytes,
    hidden_gap_latest_bytes - hidden_gap_first_bytes AS hidden_gap_delta_bytes,
    if(last_gap.1 > first_gap.1, hidden_gap_delta_bytes / ((last_gap.1 - first_gap.1) / 1e9), NULL) AS hidden_gap_drift_bytes_per_second,
    alerts, ooms, allocation_bytes, deallocation_bytes
FROM (
    SELECT
        tenant, session_id, rank, argMin((e.local_rank, e.world_size), (e.timestamp_ns, e.upload_index)) AS first_event,
        {{rolled}},
        countIf(e.measured) AS gaps,
        argMinIf((e.timestamp_ns, e.gap), (e.timestamp_ns, e.upload_index), e.measured) AS first_gap,
        argMaxIf((e.timestamp_ns, e.gap), (e.timestamp_ns, e.upload_index), e.measured) AS last_gap,
        maxIf(e.gap, e.measured) AS peak_gap
    FROM (
        SELECT *, event_type = 'sample' AND used_bytes IS NOT NULL AND reserved_bytes IS NOT NULL AS measured,
            ifNull(used_bytes, 0) - ifNull(reserved_bytes, 0) AS gap
        FROM {{db}}.memory_marked
    ) AS e
    GROUP BY tenant, session_id, rank
)

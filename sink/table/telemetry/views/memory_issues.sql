-- A row is an issue, however often it was hit and in however many sessions. See memory_issue_hits.
SELECT
    tenant, fingerprint_id, any(h.kind) AS kind, any(h.severity) AS severity, argMin(h.title, (h.timestamp_ns, h.session_id)) AS title,
    'open' AS state, count() AS hits,
    min(h.at) AS first_seen_at, max(h.at) AS last_seen_at, arraySort(groupUniqArray(h.session_id)) AS session_ids,
    arraySort(groupUniqArray(h.rank)) AS ranks, uniqExact(h.job_id) AS jobs,
    any(h.dimensions) AS dimensions,
    argMin((h.session_id, h.rank, h.device_id, h.at, h.event_type, h.context, h.phase), (h.timestamp_ns, h.session_id)) AS first,
    first.1 AS first_session_id, first.2 AS first_rank, first.3 AS first_device_id, first.5 AS first_event_type,
    first.6 AS first_context, first.7 AS first_phase
FROM {{db}}.memory_issue_hits AS h
GROUP BY tenant, fingerprint_id

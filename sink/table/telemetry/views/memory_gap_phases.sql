-- A row is a finding of memory_gaps and the phase that it belongs to. The phase is '' when it does not belong to one. collector is the one
-- that saw it.
WITH
-- The events at the moment that a finding names: the first of the session gives the collector, the sample itself its origin.
found AS (
    SELECT
        g.tenant AS tenant, g.session_id AS session_id, g.job_id AS job_id, g.host AS host, g.device_id AS device_id, g.rank AS rank,
        g.classification AS classification, g.severity AS severity,
        g.confidence AS confidence, g.description AS description, g.evidence_timestamp_ns AS timestamp_ns, any(g.evidence) AS evidence,
        argMin((e.collector, e.metadata, e.event_type), e.upload_index) AS first,
        argMinIf(e.metadata, e.upload_index, e.rank = g.rank AND e.device_id = g.device_id AND e.is_sample) AS sample_metadata
    FROM (
        SELECT
            toString(tenant) AS tenant, toString(session_id) AS session_id, rank, device_id, timestamp_ns, upload_index,
            toString(collector) AS collector, metadata, toString(event_type) AS event_type,
            lower({{trimmed "event_type"}}) = 'sample' AS is_sample
        FROM {{db}}.memory_events
    ) AS e
    INNER JOIN {{db}}.memory_gaps AS g ON g.tenant = e.tenant AND g.session_id = e.session_id AND g.evidence_timestamp_ns = e.timestamp_ns
    GROUP BY tenant, session_id, job_id, host, device_id, rank, classification, severity, confidence, description, timestamp_ns
)
SELECT
    tenant, session_id, job_id, host, device_id, rank, fromUnixTimestamp64Nano(timestamp_ns, 'UTC') AS at, classification, severity,
    confidence, phase, phase_resolution, phase_source, phase_paths,
    phase_path, scope_id, thread_id, thread_name, details.1 AS description, details.2 AS evidence, first.1 AS collector,
    first.3 AS event_type, first.2 AS metadata, timestamp_ns
FROM ({{attributed
    "tenant, session_id, job_id, host, device_id, rank, timestamp_ns, classification, severity, confidence, first, details" (print `
    SELECT
        f.tenant AS tenant, f.session_id AS session_id, f.job_id AS job_id, f.host AS host, f.device_id AS device_id, f.rank AS rank,
        f.timestamp_ns AS timestamp_ns, f.classification AS classification,
        f.severity AS severity, f.confidence AS confidence, f.first AS first, (f.description, f.evidence) AS details,
        ` (origin "f.sample_metadata") `,
        p.thread_id AS thread_id, p.thread_name AS thread_name, p.scope_id AS scope_id, p.phase AS phase, p.depth AS depth,
        p.sequence AS sequence, p.started_at AS started_at, p.ended_at AS ended_at,
        p.depth > 0 AND f.timestamp_ns BETWEEN toUnixTimestamp64Nano(p.started_at) AND toUnixTimestamp64Nano(p.ended_at) AS inside
    FROM found AS f
    LEFT JOIN ` db `.memory_phases AS p ON p.tenant = f.tenant AND p.session_id = f.session_id AND p.rank = f.rank`)}})

-- Everything odd about the ranks of a run in one list: alerts of the trackers, gaps of 5 % of the device, what memory_gaps and
-- memory_collectives found. earliest and most_severe mark one row of each run.
WITH found AS (
    SELECT
        tenant, session_id, job_id, run, rank, device_id, timestamp_ns, if(event_type = 'warning', 'warning', 'critical') AS severity,
        concat('alert:', event_type) AS signal, 1 AS kind, CAST(NULL, 'Nullable(Float64)') AS confidence, CAST([], 'Array(String)') AS reason_codes, upload_index
    FROM {{db}}.memory_used
    WHERE event_type IN ('warning', 'critical', 'error')
    UNION ALL
    SELECT tenant, session_id, job_id, run, rank, device_id, timestamp_ns, 'warning', 'gap_ratio_breach', 2, NULL, [], upload_index
    FROM {{db}}.memory_used
    WHERE total_bytes > 0 AND gap_known AND abs(used_bytes - reserved_bytes) / total_bytes >= 0.05
    UNION ALL
    SELECT tenant, session_id, job_id, if(job_id = '', session_id, job_id), rank, device_id, toUnixTimestamp64Nano(breached_at), severity, concat('gap:', classification), 3, confidence, [], 0
    FROM {{db}}.memory_gaps
    UNION ALL
    SELECT tenant, session_id, job_id, run, rank, device_id, toUnixTimestamp64Nano(started_at), severity, concat('collective:', classification), 4, confidence, reason_codes, 0
    FROM {{db}}.memory_collectives
    WHERE preset = 'medium'
)
SELECT
    tenant, session_id, job_id, run, rank, device_id, fromUnixTimestamp64Nano(timestamp_ns, 'UTC') AS at, severity, signal, confidence, reason_codes,
    row_number() OVER (PARTITION BY tenant, job_id, run ORDER BY timestamp_ns, rank, kind, upload_index, signal) = 1 AS earliest,
    row_number() OVER (PARTITION BY tenant, job_id, run ORDER BY transform(severity, ['critical', 'warning', 'info'], [1, 2, 3], 4), timestamp_ns, rank, kind, upload_index, signal) = 1 AS most_severe
FROM found

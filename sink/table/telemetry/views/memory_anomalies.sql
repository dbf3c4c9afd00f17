-- A row is an anomaly of a rank of a run. Anomalies are alerts of the trackers, gaps of 5 % of the device, and what memory_gaps and
-- memory_collectives found. earliest and most_severe mark one row of each run.
WITH found AS (
    SELECT
        tenant, session_id, job_id, run, rank, device_id, timestamp_ns, if(sent_event_type = 'warning', 'warning', 'critical') AS severity,
        concat('alert:', sent_event_type) AS signal, 1 AS kind, CAST(NULL, 'Nullable(Float64)') AS confidence,
        CAST([], 'Array(String)') AS reason_codes, toInt64(upload_index) AS place
    FROM {{db}}.memory_used
    WHERE sent_event_type IN ('warning', 'critical', 'error')
    UNION ALL
    SELECT tenant, session_id, job_id, run, rank, device_id, timestamp_ns, 'warning', 'gap_ratio_breach', 2, NULL, [], toInt64(upload_index)
    FROM {{db}}.memory_used
    WHERE event_type = 'sample' AND total_bytes > 0 AND gap_known AND abs(used_bytes - reserved_bytes) / total_bytes >= 0.05
    UNION ALL
    -- Of equal times the worse, then the surer, then the first kind in the list.
    SELECT tenant, session_id, job_id, if(job_id = '', session_id, job_id), rank, device_id, evidence_timestamp_ns, severity,
        concat('gap:', classification), 3, confidence, [],
        (severity != 'critical') * 100000 + (1000 - toInt64(round(confidence * 1000))) * 10
            + indexOf(['transient_spike', 'persistent_drift', 'fragmentation_like'], classification)
    FROM {{db}}.memory_gap_parts
    WHERE part != 1 AND allocated_known
    UNION ALL
    SELECT tenant, session_id, job_id, run, rank, device_id, greatest(toUnixTimestamp64Nano(started_at), first_sample_timestamp_ns),
        severity, concat('collective:', classification), 4, confidence, reason_codes,
        toUnixTimestamp64Nano(started_at)
    FROM {{db}}.memory_collectives
    WHERE preset = 'medium' AND allocated_known
)
SELECT
    tenant, session_id, job_id, run, rank, device_id, fromUnixTimestamp64Nano(timestamp_ns, 'UTC') AS at, severity, signal, confidence,
    reason_codes,
    row_number() OVER (PARTITION BY tenant, job_id, run ORDER BY timestamp_ns, rank, kind, place, signal) = 1 AS earliest,
    row_number() OVER (PARTITION BY tenant, job_id, run
        ORDER BY transform(severity, ['critical', 'warning', 'info'], [1, 2, 3], 4), timestamp_ns, rank, kind, place, signal)
        = 1 AS most_severe,
    row_number() OVER (PARTITION BY tenant, job_id, run, rank ORDER BY timestamp_ns, kind, place, signal) AS place_of_rank
FROM found

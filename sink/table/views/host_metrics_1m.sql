-- A row is a minute of a host's samples; after 30 days an hour.
SELECT
    tenant,
    session_id,
    bucket,
    bucket_s,
    samples,
    {{gauge "sums" "cpu_pct_x100"}} / samples / 100 AS cpu_pct,
    {{gauge "lows" "cpu_pct_x100"}} / 100 AS cpu_pct_min,
    {{gauge "highs" "cpu_pct_x100"}} / 100 AS cpu_pct_max,
    {{gauge "sums" "ram_used_mib"}} / samples * 1048576 AS ram_used_bytes,
    {{gauge "lows" "ram_used_mib"}} * 1048576 AS ram_used_bytes_min,
    {{gauge "highs" "ram_used_mib"}} * 1048576 AS ram_used_bytes_max,
    {{gauge "sums" "ram_total_mib"}} / samples * 1048576 AS ram_total_bytes,
    {{gauge "lows" "ram_total_mib"}} * 1048576 AS ram_total_bytes_min,
    {{gauge "highs" "ram_total_mib"}} * 1048576 AS ram_total_bytes_max,
    hostname
FROM (
    SELECT
        r.tenant AS tenant,
        r.session_id AS session_id,
        r.bucket AS bucket,
        max(r.bucket_s) AS bucket_s,
        max(r.hostname) AS hostname,
        sum(r.samples) AS samples,
        sumMap(r.sums) AS sums,
        minMap(r.lows) AS lows,
        maxMap(r.highs) AS highs
    FROM {{db}}.host_metrics_1m_data AS r
    GROUP BY tenant, session_id, bucket
)

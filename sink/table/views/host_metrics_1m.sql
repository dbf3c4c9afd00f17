SELECT
    r.tenant AS tenant,
    r.session_id AS session_id,
    r.bucket AS bucket,
    max(r.bucket_s) AS bucket_s,
    sum(r.samples) AS samples,
    sum(r.cpu_pct_x100_sum) / samples / 100 AS cpu_pct,
    min(r.cpu_pct_x100_min) / 100 AS cpu_pct_min,
    max(r.cpu_pct_x100_max) / 100 AS cpu_pct_max,
    sum(r.ram_used_mib_sum) / samples * 1048576 AS ram_used_bytes,
    min(r.ram_used_mib_min) * 1048576 AS ram_used_bytes_min,
    max(r.ram_used_mib_max) * 1048576 AS ram_used_bytes_max,
    sum(r.ram_total_mib_sum) / samples * 1048576 AS ram_total_bytes,
    min(r.ram_total_mib_min) * 1048576 AS ram_total_bytes_min,
    max(r.ram_total_mib_max) * 1048576 AS ram_total_bytes_max,
    max(r.hostname) AS hostname
FROM {{db}}.host_metrics_1m_data AS r
GROUP BY tenant, session_id, bucket

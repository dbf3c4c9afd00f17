-- A row is a sample of a host.
SELECT tenant, session_id, at, cpu_pct, ram_used_bytes, ram_total_bytes, hostname, received_at, retention_days
FROM {{db}}.host_metrics_data

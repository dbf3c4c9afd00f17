-- A row is the begin or end of a sampler, with the host's load then.
SELECT
    tenant, session_id, at, name, kind, pid, app, cpu_pct, ram_used_bytes, ram_total_bytes
FROM {{db}}.system_events_data

-- A row is a value of a counter, from its time on.
SELECT
    tenant, session_id, at, category, name, pid, tid, series, value, received_at, retention_days
FROM {{db}}.trace_counters_data

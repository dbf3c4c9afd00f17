-- A row is a setting by which hardware counters were sampled.
SELECT tenant, session_id, at, device_id, interval_us, max_samples, preset, JSONExtract(c.metrics, 'Array(String)') AS metrics
FROM {{db}}.pm_configs_data AS c

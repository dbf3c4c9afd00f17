-- A row is a choice of instruction counters: those that were taken, and those that the device does not have.
SELECT
    tenant, session_id, at, device_id,
    JSONExtract(c.configured_metrics, 'Array(String)') AS configured_metrics,
    JSONExtract(c.skipped_metrics, 'Array(String)') AS skipped_metrics
FROM {{db}}.sass_configs_data AS c

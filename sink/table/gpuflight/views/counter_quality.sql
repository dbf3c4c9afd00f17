-- A row is a report of what became of the counters that a program publishes.
SELECT
    tenant, session_id, at, source, schema_version, tracked_counters, samples_observed, registration_rejected, unknown_id_samples,
    unavailable_samples, negative_delta_samples, rate_windows_discarded, pid, app
FROM {{db}}.counter_quality_data

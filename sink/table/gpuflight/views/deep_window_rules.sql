-- A row is a report of what became of a rule that opens deep windows.
SELECT
    tenant, session_id, at, rule_id, expression, state, outcome, reason, metric_state, samples_seen, windows_opened, truncated_samples,
    metric_quality_resets, last_quality_reason, state_sequence, if(d.has_last_value = 1, d.last_value, NULL) AS last_value,
    last_observed_at, pid, app
FROM {{db}}.deep_window_rules_data AS d

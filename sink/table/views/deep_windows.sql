-- A row is a deep window: a time in which a session was profiled deeply.
SELECT
    tenant, session_id, name, close_reason,
    if(engines = '', [], splitByChar('\n', toString(engines))) AS engines,
    started_at, ended_at, duration_ns, launches_covered, requested_duration_ms, requested_max_launches,
    trigger_rule_id, trigger_metric, trigger_op, threshold, rearm_threshold, observed, rate_window_ms, sustained_ms, first_true_at, fired_at
FROM {{db}}.deep_windows_data

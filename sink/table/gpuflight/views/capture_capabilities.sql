-- A row is a feature that a session was asked to record, and what became of it.
SELECT tenant, session_id, at, requested_engine, selected_engine, feature, requested, status, mode, reason_code, message
FROM {{db}}.capture_capabilities_data

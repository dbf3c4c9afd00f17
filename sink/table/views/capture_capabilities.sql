SELECT tenant, session_id, at, requested_engine, selected_engine, feature, requested, status, mode, reason_code, message
FROM {{db}}.capture_capabilities_data

SELECT
    tenant, session_id, at, type, batch_id, field, rows, `values`, received_at, retention_days
FROM {{db}}.extra_fields_data

-- A row is a field of lines for which there is no column, or whose values do not fit their column, with the values as JSON.
SELECT
    tenant, session_id, at, type, batch_id, field, rows, `values`,
    if(reason = '', 'unknown', reason) AS reason, received_at, retention_days
FROM {{db}}.extra_fields_data

-- A row is something that was refused, with its bytes.
SELECT tenant, at, source, reason, detail, payload_ref, payload, session_id, type, events, bytes, received_at, retention_days
FROM {{db}}.rejects_data

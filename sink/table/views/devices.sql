SELECT tenant, session_id, device_id, uuid, name, vendor, architecture, sm_count, total_bytes
FROM {{db}}.devices_data FINAL

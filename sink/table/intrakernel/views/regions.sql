-- A row is a time that a warp was in a region of a kernel.
-- started_at is from 1970 on where the sender does not say when the launch was, and the latest possible where it does not fit. duration_ns
-- is exact, before the scale of the capture.
SELECT
    tenant, session_id, kernel, region, name, block, warp, sm, started_at, duration_ns, received_at, retention_days
FROM {{db}}.regions_data

-- A row is a time that a warp passed a mark in a kernel.
SELECT
    tenant, session_id, kernel, region, name, block, warp, sm, at, received_at, retention_days
FROM {{db}}.region_marks_data

-- A row is a GPU of a session.
SELECT
    tenant, session_id, device_id, uuid, name, vendor, architecture, sm_count, total_bytes, compute_major, compute_minor,
    l2_cache_size_bytes, shared_mem_per_block_bytes, regs_per_block, warp_size
FROM {{db}}.devices_data FINAL

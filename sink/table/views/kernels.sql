-- A row is a launch of a kernel.
SELECT
    k.tenant AS tenant,
    k.session_id AS session_id,
    k.started_at AS started_at,
    k.duration_ns AS duration_ns,
    l.kernel AS kernel,
    l.kernel_id AS kernel_id,
    k.stream_id AS stream_id,
    k.corr_id AS corr_id,
    k.device_id AS device_id,
    {{scopepath "c.user_scope"}} AS scope,
    c.grid AS grid,
    c.block AS block,
    l.registers AS registers,
    toUInt8({{synthetic "k.tenant" "k.session_id"}}) AS synthetic,
    toUInt8({{disturbed "k" "w"}}) AS disturbed,
    l.dyn_shared_bytes AS dyn_shared_bytes,
    if(l.config_id = 0, d.config_id, l.config_id) AS config_id,
    c.static_shared_bytes AS static_shared_bytes,
    c.local_bytes AS local_bytes,
    c.const_bytes AS const_bytes,
    c.occupancy AS occupancy,
    c.reg_occupancy AS reg_occupancy,
    c.smem_occupancy AS smem_occupancy,
    c.warp_occupancy AS warp_occupancy,
    c.block_occupancy AS block_occupancy,
    c.limiting_resource AS limiting_resource,
    c.max_active_blocks AS max_active_blocks,
    c.local_mem_total_bytes AS local_mem_total_bytes,
    c.local_mem_per_thread_bytes AS local_mem_per_thread_bytes,
    c.cache_config_requested AS cache_config_requested,
    c.cache_config_executed AS cache_config_executed,
    c.shared_mem_executed_bytes AS shared_mem_executed_bytes,
    c.user_scope AS user_scope,
    c.stack_trace AS stack_trace,
    k.external_kind AS external_kind,
    k.external_id AS external_id,
    k.received_at AS received_at,
    k.retention_days AS retention_days,
    k.launch_id AS launch_id
FROM {{db}}.kernels_data AS k
ANY LEFT JOIN (
    SELECT
        u.tenant AS tenant, u.session_id AS session_id, u.launch_id AS launch_id, u.kernel_id AS kernel_id,
        {{named "n.value" "u" "u.kernel_id"}} AS kernel, u.config_id AS config_id, u.registers AS registers,
        u.dyn_shared_bytes AS dyn_shared_bytes
    FROM {{db}}.launches AS u
    ANY LEFT JOIN (SELECT tenant, session_id, id, value FROM {{db}}.dictionaries WHERE dict = 'kernel_dict') AS n
        ON u.tenant = n.tenant AND u.session_id = n.session_id AND u.kernel_id = n.id
) AS l
    ON k.tenant = l.tenant AND k.session_id = l.session_id AND k.launch_id = l.launch_id
ANY LEFT JOIN {{db}}.kernel_details_data AS d
    ON k.tenant = d.tenant AND k.session_id = d.session_id AND k.corr_id = d.corr_id AND l.config_id = 0
ANY LEFT JOIN {{db}}.launch_configs AS c
    ON k.tenant = c.tenant AND k.session_id = c.session_id AND if(l.config_id = 0, d.config_id, l.config_id) = c.config_id
ANY LEFT JOIN {{intervals}} AS w
    ON k.tenant = w.tenant AND k.session_id = w.session_id AND {{intervalkey "k"}} = w.minute

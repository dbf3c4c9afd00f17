SELECT
    k.tenant AS tenant,
    k.session_id AS session_id,
    k.started_at AS started_at,
    k.duration_ns AS duration_ns,
    if(k.kernel = '', n.value, k.kernel) AS kernel,
    k.kernel_id AS kernel_id,
    k.stream_id AS stream_id,
    k.corr_id AS corr_id,
    k.device_id AS device_id,
    if(k.scope = '', d.scope, k.scope) AS scope,
    c.grid AS grid,
    c.block AS block,
    k.registers AS registers,
    toUInt8(0) AS synthetic,
    toUInt8(0) AS disturbed,
    k.dyn_shared_bytes AS dyn_shared_bytes,
    if(k.config_id = 0, d.config_id, k.config_id) AS config_id,
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
    k.retention_days AS retention_days
FROM {{db}}.kernels_data AS k
ANY LEFT JOIN {{db}}.kernel_details_data AS d
    ON k.tenant = d.tenant AND k.session_id = d.session_id AND k.corr_id = d.corr_id AND k.config_id = 0
ANY LEFT JOIN {{db}}.launch_configs AS c
    ON k.tenant = c.tenant AND k.session_id = c.session_id AND if(k.config_id = 0, d.config_id, k.config_id) = c.config_id
ANY LEFT JOIN {{late "kernel_dict"}} AS n
    ON k.tenant = n.tenant AND k.session_id = n.session_id AND k.kernel_id = n.id AND k.kernel = ''

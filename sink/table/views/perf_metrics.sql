-- A row is a measurement of a scope, or of a replayed kernel, by hardware counters.
SELECT
    tenant, session_id, started_at, ended_at, kind, name, kernel_name, device_id, scope,
    nullIf(p.launch_ordinal, -1) AS launch_ordinal,
    nullIf(p.range_index, -1) AS range_index,
    nullIf(p.sm_throughput_pct, -1) AS sm_throughput_pct,
    nullIf(p.l1_hit_rate_pct, -1) AS l1_hit_rate_pct,
    nullIf(p.l2_hit_rate_pct, -1) AS l2_hit_rate_pct,
    nullIf(p.dram_read_bytes, -1) AS dram_read_bytes,
    nullIf(p.dram_write_bytes, -1) AS dram_write_bytes,
    nullIf(p.tensor_active_pct, -1) AS tensor_active_pct,
    nullIf(p.achieved_occupancy_pct, -1) AS achieved_occupancy_pct,
    nullIf(p.shared_load_bank_conflicts, -1) AS shared_load_bank_conflicts,
    nullIf(p.shared_store_bank_conflicts, -1) AS shared_store_bank_conflicts,
    nullIf(p.shared_bank_conflicts, -1) AS shared_bank_conflicts,
    nullIf(p.shared_wavefronts, -1) AS shared_wavefronts,
    nullIf(p.shared_bank_conflict_overhead_pct, -1) AS shared_bank_conflict_overhead_pct,
    nullIf(p.shared_bank_conflict_nway, -1) AS shared_bank_conflict_nway,
    scope_depth, pid, app, received_at, retention_days
FROM {{db}}.perf_metrics_data AS p

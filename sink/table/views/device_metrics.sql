-- A row is a sample of a GPU.
SELECT
    tenant, session_id, at, device_id, gpu_util_pct, mem_util_pct, temp_c, power_w, used_bytes, total_bytes, clock_sm_mhz,
    fan_speed_pct, temp_mem_c, temp_junction_c, voltage_mv, energy_uj, clock_mem_mhz, pcie_bw_bps, ecc_corrected, ecc_uncorrected,
    received_at, retention_days
FROM {{db}}.device_metrics_data

-- A row is the state of a GPU at a time.
SELECT
    tenant, session_id, at, kind, device_id, name, uuid, vendor, pci_bus, used_bytes, free_bytes, total_bytes, util_gpu_pct,
    util_mem_pct, temp_c, power_w, clk_gfx_mhz, clk_sm_mhz, clk_mem_mhz, throttle_pwr, throttle_therm, pcie_rx_bw_bps,
    pcie_tx_bw_bps
FROM {{db}}.device_snapshots_data

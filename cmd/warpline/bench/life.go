package bench

import "fmt"

// App, Host and DeviceName are the names that the generated sessions give.
const (
	App        = "train_llm"
	Host       = "bench-host"
	DeviceName = "Bench GPU 80GB"
	deviceUUID = "GPU-beac4000-0000-4000-8000-000000000001"
)

// jobStart returns the first line of every channel, in the client's order of keys.
func (s *session) jobStart() []byte {
	static := fmt.Sprintf(`[{"id":0,"name":"%s","uuid":"%s","vendor":"NVIDIA","architecture":"sm_90","compute_major":9,"compute_minor":0,`+
		`"l2_cache_size_bytes":52428800,"shared_mem_per_block_bytes":49152,"regs_per_block":65536,"multi_processor_count":132,"warp_size":32}]`,
		DeviceName, deviceUUID)
	engine := "nvidia.trace"
	if s.shape.pcRows > 0 {
		engine = "nvidia.pc_sampling"
	}
	return fmt.Appendf(nil, `{"version":1,"type":"job_start","pid":4711,"app":"%s","session_id":"%s","log_path":"/var/log/gpufl","ts_ns":%d,`+
		`"hostname":"%s","ip_addr":"192.0.2.10","host":{"cpu_pct":12.5,"ram_used_mib":51200,"ram_total_mib":262144},`+
		`"devices":[{"id":0,"name":"%s","uuid":"%s","vendor":"NVIDIA","pci_bus":27,"used_mib":4096,"free_mib":77463,"total_mib":81559,`+
		`"util_gpu_pct":7,"util_mem_pct":3,"temp_c":51,"power_mw":251000,"clk_gfx_mhz":1980,"clk_sm_mhz":1980,"clk_mem_mhz":2619,`+
		`"throttle_pwr":0,"throttle_therm":0,"pcie_rx_bw_bps":1048576,"pcie_tx_bw_bps":524288}],`+
		`"gpu_static_devices":%s,"cuda_static_devices":%s,"rocm_static_devices":[],"session_kind":"trace","profiling_engine":"%s"}`+"\n",
		App, s.id, s.cfg.Start.UnixNano(), Host, DeviceName, deviceUUID, static, static, engine)
}

// shutdown returns the last line of every channel.
func (s *session) shutdown() []byte {
	return fmt.Appendf(nil, `{"type":"shutdown","pid":4711,"app":"%s","session_id":"%s","ts_ns":%d}`+"\n", App, s.id, s.clock+1)
}

package table

type hostMetricsTable struct {
	*Table
	Head
	At            TimeCol
	CPUPct        F32Col
	RAMUsedBytes  U64Col
	RAMTotalBytes U64Col
	Hostname      DictCol
	RawTail
}

// HostMetrics holds samples of a host as a session took them.
var HostMetrics = func() hostMetricsTable {
	t := define("host_metrics_data", Raw, "tenant, session_id, at")
	return hostMetricsTable{
		Table:         t,
		Head:          t.head(),
		At:            t.time("at", codec(regular)),
		CPUPct:        t.f32("cpu_pct", codec("ZSTD(9)")),
		RAMUsedBytes:  t.u64("ram_used_bytes", codec(spread)),
		RAMTotalBytes: t.u64("ram_total_bytes"),
		Hostname:      t.dict("hostname"),
		RawTail:       t.rawTail(),
	}
}()

type deviceMetricsTable struct {
	*Table
	Head
	At             TimeCol
	DeviceID       I32Col
	GPUUtilPct     F32Col
	MemUtilPct     F32Col
	TempC          F32Col
	PowerW         F32Col
	UsedBytes      U64Col
	TotalBytes     U64Col
	ClockSMMHz     U32Col
	FanSpeedPct    F32Col
	TempMemC       F32Col
	TempJunctionC  F32Col
	VoltageMV      F32Col
	EnergyUJ       U64Col
	ClockMemMHz    U32Col
	PCIeBWBPS      U64Col
	ECCCorrected   U64Col
	ECCUncorrected U64Col
	RawTail
}

// DeviceMetrics holds samples of a GPU as a session took them.
var DeviceMetrics = func() deviceMetricsTable {
	t := define("device_metrics_data", Raw, "tenant, session_id, device_id, at")
	return deviceMetricsTable{
		Table:          t,
		Head:           t.head(),
		At:             t.time("at", codec(regular)),
		DeviceID:       t.i32("device_id"),
		GPUUtilPct:     t.f32("gpu_util_pct", codec(gauge)),
		MemUtilPct:     t.f32("mem_util_pct", codec(gauge)),
		TempC:          t.f32("temp_c", codec(gauge)),
		PowerW:         t.f32("power_w", codec("Delta, ZSTD(1)")),
		UsedBytes:      t.u64("used_bytes", codec(spread)),
		TotalBytes:     t.u64("total_bytes"),
		ClockSMMHz:     t.u32("clock_sm_mhz"),
		FanSpeedPct:    t.f32("fan_speed_pct", codec(gauge)),
		TempMemC:       t.f32("temp_mem_c", codec(gauge)),
		TempJunctionC:  t.f32("temp_junction_c", codec(gauge)),
		VoltageMV:      t.f32("voltage_mv", codec(gauge)),
		EnergyUJ:       t.u64("energy_uj", codec(spread), note("since the driver was loaded")),
		ClockMemMHz:    t.u32("clock_mem_mhz"),
		PCIeBWBPS:      t.u64("pcie_bw_bps", codec(spread), note("both directions, bytes a second")),
		ECCCorrected:   t.u64("ecc_corrected"),
		ECCUncorrected: t.u64("ecc_uncorrected"),
		RawTail:        t.rawTail(),
	}
}()

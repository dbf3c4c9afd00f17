package table

type hostMetrics1mTable struct {
	*Table
	Head
	BucketHead
	Hostname       DictCol
	Samples        U64Col
	CPUPctX100Sum  U64Col
	CPUPctX100Min  U64Col
	CPUPctX100Max  U64Col
	RAMUsedMiBSum  U64Col
	RAMUsedMiBMin  U64Col
	RAMUsedMiBMax  U64Col
	RAMTotalMiBSum U64Col
	RAMTotalMiBMin U64Col
	RAMTotalMiBMax U64Col
	FactTail
}

// HostMetrics1m adds up HostMetrics by minute, in the units of the wire, so that sums are exact.
var HostMetrics1m = func() hostMetrics1mTable {
	t := aggregate("host_metrics_1m_data", "tenant, session_id", true)
	return hostMetrics1mTable{
		Table:          t,
		Head:           t.head(),
		BucketHead:     t.bucketHead(),
		Hostname:       t.dict("hostname", most),
		Samples:        t.u64("samples", sum),
		CPUPctX100Sum:  t.u64("cpu_pct_x100_sum", sum),
		CPUPctX100Min:  t.u64("cpu_pct_x100_min", least),
		CPUPctX100Max:  t.u64("cpu_pct_x100_max", most),
		RAMUsedMiBSum:  t.u64("ram_used_mib_sum", sum),
		RAMUsedMiBMin:  t.u64("ram_used_mib_min", least),
		RAMUsedMiBMax:  t.u64("ram_used_mib_max", most),
		RAMTotalMiBSum: t.u64("ram_total_mib_sum", sum),
		RAMTotalMiBMin: t.u64("ram_total_mib_min", least),
		RAMTotalMiBMax: t.u64("ram_total_mib_max", most),
		FactTail:       t.factTail(),
	}
}()

type deviceMetrics1mTable struct {
	*Table
	Head
	BucketHead
	DeviceID          I32Col
	Samples           U64Col
	GPUUtilPctSum     U64Col
	GPUUtilPctMin     U64Col
	GPUUtilPctMax     U64Col
	MemUtilPctSum     U64Col
	MemUtilPctMin     U64Col
	MemUtilPctMax     U64Col
	TempCSum          U64Col
	TempCMin          U64Col
	TempCMax          U64Col
	PowerMWSum        U64Col
	PowerMWMin        U64Col
	PowerMWMax        U64Col
	UsedMiBSum        U64Col
	UsedMiBMin        U64Col
	UsedMiBMax        U64Col
	TotalMiBSum       U64Col
	TotalMiBMin       U64Col
	TotalMiBMax       U64Col
	ClockSMMHzSum     U64Col
	ClockSMMHzMin     U64Col
	ClockSMMHzMax     U64Col
	FanSpeedPctSum    U64Col
	FanSpeedPctMin    U64Col
	FanSpeedPctMax    U64Col
	TempMemCSum       U64Col
	TempMemCMin       U64Col
	TempMemCMax       U64Col
	TempJunctionCSum  U64Col
	TempJunctionCMin  U64Col
	TempJunctionCMax  U64Col
	VoltageMVSum      U64Col
	VoltageMVMin      U64Col
	VoltageMVMax      U64Col
	EnergyUJMin       U64Col
	EnergyUJMax       U64Col
	ClockMemMHzSum    U64Col
	ClockMemMHzMin    U64Col
	ClockMemMHzMax    U64Col
	PCIeBWBPSSum      U64Col
	PCIeBWBPSMin      U64Col
	PCIeBWBPSMax      U64Col
	ECCCorrectedSum   U64Col
	ECCCorrectedMin   U64Col
	ECCCorrectedMax   U64Col
	ECCUncorrectedSum U64Col
	ECCUncorrectedMin U64Col
	ECCUncorrectedMax U64Col
	FactTail
}

// DeviceMetrics1m adds up DeviceMetrics by minute, in the units of the wire, so that sums are exact.
var DeviceMetrics1m = func() deviceMetrics1mTable {
	t := aggregate("device_metrics_1m_data", "tenant, session_id, device_id", true)
	return deviceMetrics1mTable{
		Table:             t,
		Head:              t.head(),
		BucketHead:        t.bucketHead(),
		DeviceID:          t.i32("device_id"),
		Samples:           t.u64("samples", sum),
		GPUUtilPctSum:     t.u64("gpu_util_pct_sum", sum),
		GPUUtilPctMin:     t.u64("gpu_util_pct_min", least),
		GPUUtilPctMax:     t.u64("gpu_util_pct_max", most),
		MemUtilPctSum:     t.u64("mem_util_pct_sum", sum),
		MemUtilPctMin:     t.u64("mem_util_pct_min", least),
		MemUtilPctMax:     t.u64("mem_util_pct_max", most),
		TempCSum:          t.u64("temp_c_sum", sum),
		TempCMin:          t.u64("temp_c_min", least),
		TempCMax:          t.u64("temp_c_max", most),
		PowerMWSum:        t.u64("power_mw_sum", sum),
		PowerMWMin:        t.u64("power_mw_min", least),
		PowerMWMax:        t.u64("power_mw_max", most),
		UsedMiBSum:        t.u64("used_mib_sum", sum),
		UsedMiBMin:        t.u64("used_mib_min", least),
		UsedMiBMax:        t.u64("used_mib_max", most),
		TotalMiBSum:       t.u64("total_mib_sum", sum),
		TotalMiBMin:       t.u64("total_mib_min", least),
		TotalMiBMax:       t.u64("total_mib_max", most),
		ClockSMMHzSum:     t.u64("clock_sm_mhz_sum", sum),
		ClockSMMHzMin:     t.u64("clock_sm_mhz_min", least),
		ClockSMMHzMax:     t.u64("clock_sm_mhz_max", most),
		FanSpeedPctSum:    t.u64("fan_speed_pct_sum", sum),
		FanSpeedPctMin:    t.u64("fan_speed_pct_min", least),
		FanSpeedPctMax:    t.u64("fan_speed_pct_max", most),
		TempMemCSum:       t.u64("temp_mem_c_sum", sum),
		TempMemCMin:       t.u64("temp_mem_c_min", least),
		TempMemCMax:       t.u64("temp_mem_c_max", most),
		TempJunctionCSum:  t.u64("temp_junction_c_sum", sum),
		TempJunctionCMin:  t.u64("temp_junction_c_min", least),
		TempJunctionCMax:  t.u64("temp_junction_c_max", most),
		VoltageMVSum:      t.u64("voltage_mv_sum", sum),
		VoltageMVMin:      t.u64("voltage_mv_min", least),
		VoltageMVMax:      t.u64("voltage_mv_max", most),
		EnergyUJMin:       t.u64("energy_uj_min", least),
		EnergyUJMax:       t.u64("energy_uj_max", most),
		ClockMemMHzSum:    t.u64("clock_mem_mhz_sum", sum),
		ClockMemMHzMin:    t.u64("clock_mem_mhz_min", least),
		ClockMemMHzMax:    t.u64("clock_mem_mhz_max", most),
		PCIeBWBPSSum:      t.u64("pcie_bw_bps_sum", sum),
		PCIeBWBPSMin:      t.u64("pcie_bw_bps_min", least),
		PCIeBWBPSMax:      t.u64("pcie_bw_bps_max", most),
		ECCCorrectedSum:   t.u64("ecc_corrected_sum", sum),
		ECCCorrectedMin:   t.u64("ecc_corrected_min", least),
		ECCCorrectedMax:   t.u64("ecc_corrected_max", most),
		ECCUncorrectedSum: t.u64("ecc_uncorrected_sum", sum),
		ECCUncorrectedMin: t.u64("ecc_uncorrected_min", least),
		ECCUncorrectedMax: t.u64("ecc_uncorrected_max", most),
		FactTail:          t.factTail(),
	}
}()

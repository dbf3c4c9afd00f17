package table

type systemEventsTable struct {
	*Table
	Head
	At            TimeCol
	Name          DictCol
	Kind          DictCol
	PID           U32Col
	App           DictCol
	CPUPct        F32Col
	RAMUsedBytes  U64Col
	RAMTotalBytes U64Col
	FactTail
}

// SystemEvents holds when samplers began and ended, and the host's load then. The samples between are in HostMetrics.
var SystemEvents = func() systemEventsTable {
	t := define("system_events_data", Fact, "tenant, session_id, at")
	return systemEventsTable{
		Table:         t,
		Head:          t.head(),
		At:            t.time("at"),
		Name:          t.dict("name", note("sampling_start, sampling_end, or the user's text")),
		Kind:          t.dict("kind", note("start, stop")),
		PID:           t.u32("pid"),
		App:           t.dict("app"),
		CPUPct:        t.f32("cpu_pct"),
		RAMUsedBytes:  t.u64("ram_used_bytes"),
		RAMTotalBytes: t.u64("ram_total_bytes"),
		FactTail:      t.factTail(),
	}
}()

type deviceSnapshotsTable struct {
	*Table
	Head
	At            TimeCol
	Kind          DictCol
	DeviceID      I32Col
	UUID          DictCol
	Name          DictCol
	Vendor        DictCol
	PCIBus        I32Col
	UsedBytes     U64Col
	FreeBytes     U64Col
	TotalBytes    U64Col
	UtilGPUPct    F32Col
	UtilMemPct    F32Col
	TempC         F32Col
	PowerW        F32Col
	ClkGfxMHz     U32Col
	ClkSMMHz      U32Col
	ClkMemMHz     U32Col
	ThrottlePwr   U8Col
	ThrottleTherm U8Col
	PCIeRxBwBPS   U64Col
	PCIeTxBwBPS   U64Col
	FactTail
}

// DeviceSnapshots holds how each GPU was when a session or a sampler began or ended. The samples between are in DeviceMetrics.
var DeviceSnapshots = func() deviceSnapshotsTable {
	t := define("device_snapshots_data", Fact, "tenant, session_id, at, device_id")
	return deviceSnapshotsTable{
		Table:         t,
		Head:          t.head(),
		At:            t.time("at"),
		Kind:          t.dict("kind", note("job_start, system_start, system_stop, system_sample")),
		DeviceID:      t.i32("device_id"),
		UUID:          t.dict("uuid"),
		Name:          t.dict("name"),
		Vendor:        t.dict("vendor"),
		PCIBus:        t.i32("pci_bus"),
		UsedBytes:     t.u64("used_bytes"),
		FreeBytes:     t.u64("free_bytes"),
		TotalBytes:    t.u64("total_bytes"),
		UtilGPUPct:    t.f32("util_gpu_pct"),
		UtilMemPct:    t.f32("util_mem_pct"),
		TempC:         t.f32("temp_c"),
		PowerW:        t.f32("power_w"),
		ClkGfxMHz:     t.u32("clk_gfx_mhz"),
		ClkSMMHz:      t.u32("clk_sm_mhz"),
		ClkMemMHz:     t.u32("clk_mem_mhz"),
		ThrottlePwr:   t.u8("throttle_pwr", note("1 while power holds the clock down")),
		ThrottleTherm: t.u8("throttle_therm", note("1 while heat holds the clock down")),
		PCIeRxBwBPS:   t.u64("pcie_rx_bw_bps", note("bytes a second")),
		PCIeTxBwBPS:   t.u64("pcie_tx_bw_bps", note("bytes a second")),
		FactTail:      t.factTail(),
	}
}()

type jobStartsTable struct {
	*Table
	Head
	At              TimeCol
	PID             U32Col
	App             DictCol
	LogPath         StrCol
	Hostname        DictCol
	IP              DictCol
	CPUPct          F32Col
	RAMUsedBytes    U64Col
	RAMTotalBytes   U64Col
	SessionKind     DictCol
	ProfilingEngine DictCol
	AnalysisID      DictCol
	PassIndex       U32Col
	PassCount       U32Col
	RunID           DictCol
	SegmentIndex    I32Col
	RollChainID     DictCol
	PartIndex       U32Col
	PreviousRunID   DictCol
	FactTail
}

// JobStarts holds what a session said of itself when it began.
var JobStarts = func() jobStartsTable {
	t := define("job_starts_data", Fact, "tenant, session_id, at")
	return jobStartsTable{
		Table:           t,
		Head:            t.head(),
		At:              t.time("at"),
		PID:             t.u32("pid"),
		App:             t.dict("app"),
		LogPath:         t.str("log_path"),
		Hostname:        t.dict("hostname"),
		IP:              t.dict("ip"),
		CPUPct:          t.f32("cpu_pct"),
		RAMUsedBytes:    t.u64("ram_used_bytes"),
		RAMTotalBytes:   t.u64("ram_total_bytes"),
		SessionKind:     t.dict("session_kind", note("trace, monitor")),
		ProfilingEngine: t.dict("profiling_engine"),
		AnalysisID:      t.dict("analysis_id", note("one analysis may take several passes over a program")),
		PassIndex:       t.u32("pass_index"),
		PassCount:       t.u32("pass_count"),
		RunID:           t.dict("run_id", note("a segmented run is several sessions")),
		SegmentIndex:    t.i32("segment_index", note("-1 when the run is not segmented")),
		RollChainID:     t.dict("roll_chain_id", note("a rolled run is several runs")),
		PartIndex:       t.u32("part_index", note("of the chain, from 1; 0 none")),
		PreviousRunID:   t.dict("previous_run_id"),
		FactTail:        t.factTail(),
	}
}()

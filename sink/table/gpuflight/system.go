package gpuflight

import "github.com/warpline/warpline/sink/table"

type systemEventsTable struct {
	*table.Table
	table.Head
	At            table.TimeCol
	Name          table.DictCol
	Kind          table.DictCol
	PID           table.U32Col
	App           table.DictCol
	CPUPct        table.F32Col
	RAMUsedBytes  table.U64Col
	RAMTotalBytes table.U64Col
	table.FactTail
}

// SystemEvents holds when samplers began and ended, and the host's load then. The samples between are in HostMetrics.
var SystemEvents = func() systemEventsTable {
	t := table.Define("system_events_data", table.Fact, "tenant, session_id, at")
	return systemEventsTable{
		Table:         t,
		Head:          t.Head(),
		At:            t.Time("at"),
		Name:          t.Dict("name", table.Note("sampling_start, sampling_end, or the user's text")),
		Kind:          t.Dict("kind", table.Note("start, stop")),
		PID:           t.U32("pid"),
		App:           t.Dict("app"),
		CPUPct:        t.F32("cpu_pct"),
		RAMUsedBytes:  t.U64("ram_used_bytes"),
		RAMTotalBytes: t.U64("ram_total_bytes"),
		FactTail:      t.FactTail(),
	}
}()

type deviceSnapshotsTable struct {
	*table.Table
	table.Head
	At            table.TimeCol
	Kind          table.DictCol
	DeviceID      table.I32Col
	UUID          table.DictCol
	Name          table.DictCol
	Vendor        table.DictCol
	PCIBus        table.I32Col
	UsedBytes     table.U64Col
	FreeBytes     table.U64Col
	TotalBytes    table.U64Col
	UtilGPUPct    table.F32Col
	UtilMemPct    table.F32Col
	TempC         table.F32Col
	PowerW        table.F32Col
	ClkGfxMHz     table.U32Col
	ClkSMMHz      table.U32Col
	ClkMemMHz     table.U32Col
	ThrottlePwr   table.U8Col
	ThrottleTherm table.U8Col
	PCIeRxBwBPS   table.U64Col
	PCIeTxBwBPS   table.U64Col
	table.FactTail
}

// DeviceSnapshots holds how each GPU was when a session or a sampler began or ended. The samples between are in DeviceMetrics.
var DeviceSnapshots = func() deviceSnapshotsTable {
	t := table.Define("device_snapshots_data", table.Fact, "tenant, session_id, at, device_id")
	return deviceSnapshotsTable{
		Table:         t,
		Head:          t.Head(),
		At:            t.Time("at"),
		Kind:          t.Dict("kind", table.Note("job_start, system_start, system_stop, system_sample")),
		DeviceID:      t.I32("device_id"),
		UUID:          t.Dict("uuid"),
		Name:          t.Dict("name"),
		Vendor:        t.Dict("vendor"),
		PCIBus:        t.I32("pci_bus"),
		UsedBytes:     t.U64("used_bytes"),
		FreeBytes:     t.U64("free_bytes"),
		TotalBytes:    t.U64("total_bytes"),
		UtilGPUPct:    t.F32("util_gpu_pct"),
		UtilMemPct:    t.F32("util_mem_pct"),
		TempC:         t.F32("temp_c"),
		PowerW:        t.F32("power_w"),
		ClkGfxMHz:     t.U32("clk_gfx_mhz"),
		ClkSMMHz:      t.U32("clk_sm_mhz"),
		ClkMemMHz:     t.U32("clk_mem_mhz"),
		ThrottlePwr:   t.U8("throttle_pwr", table.Note("1 while power holds the clock down")),
		ThrottleTherm: t.U8("throttle_therm", table.Note("1 while heat holds the clock down")),
		PCIeRxBwBPS:   t.U64("pcie_rx_bw_bps", table.Note("bytes a second")),
		PCIeTxBwBPS:   t.U64("pcie_tx_bw_bps", table.Note("bytes a second")),
		FactTail:      t.FactTail(),
	}
}()

type jobStartsTable struct {
	*table.Table
	table.Head
	At              table.TimeCol
	PID             table.U32Col
	App             table.DictCol
	LogPath         table.StrCol
	Hostname        table.DictCol
	IP              table.DictCol
	CPUPct          table.F32Col
	RAMUsedBytes    table.U64Col
	RAMTotalBytes   table.U64Col
	SessionKind     table.DictCol
	ProfilingEngine table.DictCol
	AnalysisID      table.DictCol
	PassIndex       table.U32Col
	PassCount       table.U32Col
	RunID           table.DictCol
	SegmentIndex    table.I32Col
	RollChainID     table.DictCol
	PartIndex       table.U32Col
	PreviousRunID   table.DictCol
	table.FactTail
}

// JobStarts holds what a session said of itself when it began.
var JobStarts = func() jobStartsTable {
	t := table.Define("job_starts_data", table.Fact, "tenant, session_id, at")
	return jobStartsTable{
		Table:           t,
		Head:            t.Head(),
		At:              t.Time("at"),
		PID:             t.U32("pid"),
		App:             t.Dict("app"),
		LogPath:         t.Str("log_path"),
		Hostname:        t.Dict("hostname"),
		IP:              t.Dict("ip"),
		CPUPct:          t.F32("cpu_pct"),
		RAMUsedBytes:    t.U64("ram_used_bytes"),
		RAMTotalBytes:   t.U64("ram_total_bytes"),
		SessionKind:     t.Dict("session_kind", table.Note("trace, monitor")),
		ProfilingEngine: t.Dict("profiling_engine"),
		AnalysisID:      t.Dict("analysis_id", table.Note("one analysis may take several passes over a program")),
		PassIndex:       t.U32("pass_index"),
		PassCount:       t.U32("pass_count"),
		RunID:           t.Dict("run_id", table.Note("a segmented run is several sessions")),
		SegmentIndex:    t.I32("segment_index", table.Note("-1 when the run is not segmented")),
		RollChainID:     t.Dict("roll_chain_id", table.Note("a rolled run is several runs")),
		PartIndex:       t.U32("part_index", table.Note("of the chain, from 1; 0 none")),
		PreviousRunID:   t.Dict("previous_run_id"),
		FactTail:        t.FactTail(),
	}
}()

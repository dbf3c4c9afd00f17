package gpuflight

import "github.com/warpline/warpline/sink/table"

// SystemEventRow is a row of SystemEvents.
type SystemEventRow struct {
	table.HeadRow
	At            int64
	Name          string
	Kind          string
	PID           uint32
	App           string
	CPUPct        float32
	RAMUsedBytes  uint64
	RAMTotalBytes uint64
	ReceivedDay   int32
}

// SystemEvents holds when samplers began and ended, and the host's load then. The samples between are in HostMetrics.
var SystemEvents = table.DefineRows(table.Define("system_events_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[SystemEventRow], r *SystemEventRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Dict("name", &r.Name, table.Note("sampling_start, sampling_end, or the user's text"))
		c.Dict("kind", &r.Kind, table.Note("start, stop"))
		c.U32("pid", &r.PID)
		c.Dict("app", &r.App)
		c.F32("cpu_pct", &r.CPUPct)
		c.U64("ram_used_bytes", &r.RAMUsedBytes)
		c.U64("ram_total_bytes", &r.RAMTotalBytes)
		c.FactTail(&r.ReceivedDay)
	})

// DeviceSnapshotRow is a row of DeviceSnapshots.
type DeviceSnapshotRow struct {
	table.HeadRow
	At            int64
	Kind          string
	DeviceID      int32
	UUID          string
	Name          string
	Vendor        string
	PCIBus        int32
	UsedBytes     uint64
	FreeBytes     uint64
	TotalBytes    uint64
	UtilGPUPct    float32
	UtilMemPct    float32
	TempC         float32
	PowerW        float32
	ClkGfxMHz     uint32
	ClkSMMHz      uint32
	ClkMemMHz     uint32
	ThrottlePwr   uint8
	ThrottleTherm uint8
	PCIeRxBwBPS   uint64
	PCIeTxBwBPS   uint64
	ReceivedDay   int32
}

// DeviceSnapshots holds the state of each GPU when a session or a sampler began or ended. The samples between are in DeviceMetrics.
var DeviceSnapshots = table.DefineRows(table.Define("device_snapshots_data", table.Fact, "tenant, session_id, at, device_id").Few(),
	func(c *table.Binder[DeviceSnapshotRow], r *DeviceSnapshotRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.Dict("kind", &r.Kind, table.Note("job_start, system_start, system_stop, system_sample"))
		c.I32("device_id", &r.DeviceID)
		c.Dict("uuid", &r.UUID)
		c.Dict("name", &r.Name)
		c.Dict("vendor", &r.Vendor)
		c.I32("pci_bus", &r.PCIBus)
		c.U64("used_bytes", &r.UsedBytes)
		c.U64("free_bytes", &r.FreeBytes)
		c.U64("total_bytes", &r.TotalBytes)
		c.F32("util_gpu_pct", &r.UtilGPUPct)
		c.F32("util_mem_pct", &r.UtilMemPct)
		c.F32("temp_c", &r.TempC)
		c.F32("power_w", &r.PowerW)
		c.U32("clk_gfx_mhz", &r.ClkGfxMHz)
		c.U32("clk_sm_mhz", &r.ClkSMMHz)
		c.U32("clk_mem_mhz", &r.ClkMemMHz)
		c.U8("throttle_pwr", &r.ThrottlePwr, table.Note("1 while power holds the clock down"))
		c.U8("throttle_therm", &r.ThrottleTherm, table.Note("1 while heat holds the clock down"))
		c.U64("pcie_rx_bw_bps", &r.PCIeRxBwBPS, table.Note("bytes a second"))
		c.U64("pcie_tx_bw_bps", &r.PCIeTxBwBPS, table.Note("bytes a second"))
		c.FactTail(&r.ReceivedDay)
	})

// JobStartRow is a row of JobStarts.
type JobStartRow struct {
	table.HeadRow
	At              int64
	PID             uint32
	App             string
	LogPath         string
	Hostname        string
	IP              string
	CPUPct          float32
	RAMUsedBytes    uint64
	RAMTotalBytes   uint64
	SessionKind     string
	ProfilingEngine string
	AnalysisID      string
	PassIndex       uint32
	PassCount       uint32
	RunID           string
	SegmentIndex    int32
	RollChainID     string
	PartIndex       uint32
	PreviousRunID   string
	ReceivedDay     int32
}

// JobStarts holds what a session said of itself when it began.
var JobStarts = table.DefineRows(table.Define("job_starts_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[JobStartRow], r *JobStartRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At)
		c.U32("pid", &r.PID)
		c.Dict("app", &r.App)
		c.Str("log_path", &r.LogPath)
		c.Dict("hostname", &r.Hostname)
		c.Dict("ip", &r.IP)
		c.F32("cpu_pct", &r.CPUPct)
		c.U64("ram_used_bytes", &r.RAMUsedBytes)
		c.U64("ram_total_bytes", &r.RAMTotalBytes)
		c.Dict("session_kind", &r.SessionKind, table.Note("trace, monitor"))
		c.Dict("profiling_engine", &r.ProfilingEngine)
		c.Dict("analysis_id", &r.AnalysisID, table.Note("one analysis may take several passes over a program"))
		c.U32("pass_index", &r.PassIndex)
		c.U32("pass_count", &r.PassCount)
		c.Dict("run_id", &r.RunID, table.Note("a segmented run is several sessions"))
		c.I32("segment_index", &r.SegmentIndex, table.Note("-1 when the run is not segmented"))
		c.Dict("roll_chain_id", &r.RollChainID, table.Note("a rolled run is several runs"))
		c.U32("part_index", &r.PartIndex, table.Note("of the chain, from 1; 0 none"))
		c.Dict("previous_run_id", &r.PreviousRunID)
		c.FactTail(&r.ReceivedDay)
	})

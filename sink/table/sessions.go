package table

// SessionRow is a row of Sessions.
type SessionRow struct {
	HeadRow
	Source          string
	App             string
	Host            string
	IP              string
	PID             uint32
	StartedAt       int64
	FirstEventAt    int64
	LastEventAt     int64
	LastReceivedAt  int64
	EndedAt         int64
	EndReason       string
	Completed       uint8
	Crashed         uint8
	RunID           string
	SegmentIndex    int32
	SessionKind     string
	ProfilingEngine string
	Vendor          string
	ClockOffsetNS   uint64
	SystemRateMS    uint32
	Devices         uint32
	Kernels         uint64
	Samples         uint64
	Events          uint64
	Bytes           uint64
	Rejects         uint64
	Place           uint32
	WorldSize       uint32
	ReceivedDay     int32
}

// Sessions holds what is known of each session; every row adds to what the earlier ones say. StartedAt and FirstEventAt are UnknownTime
// while they are not known.
var Sessions = DefineRows(DefineRollup("sessions_data", "tenant, session_id", false).Few(), func(c *Binder[SessionRow], r *SessionRow) {
	c.Head(&r.HeadRow)
	c.Dict("source", &r.Source, Most, Note("gpu-flight, parca, telemetry, intra-kernel, trace"))
	c.Dict("app", &r.App, Most)
	c.Dict("host", &r.Host, Most)
	c.Dict("ip", &r.IP, Most)
	c.U32("pid", &r.PID, Most)
	c.Time("started_at", &r.StartedAt, Least, Note("latest possible time while it is not known"))
	c.Time("first_event_at", &r.FirstEventAt, Least)
	c.Time("last_event_at", &r.LastEventAt, Most)
	c.Time("last_received_at", &r.LastReceivedAt, Most)
	c.Time("ended_at", &r.EndedAt, Most, Note("see session_ends_data"))
	c.Dict("end_reason", &r.EndReason, Most, Note("as lines and session-complete name it; session_ends_data says more"))
	c.U8("completed", &r.Completed, Most)
	c.U8("crashed", &r.Crashed, Most)
	c.Dict("run_id", &r.RunID, Most)
	c.I32("segment_index", &r.SegmentIndex, Most)
	c.Dict("session_kind", &r.SessionKind, Most)
	c.Dict("profiling_engine", &r.ProfilingEngine, Most)
	c.Dict("vendor", &r.Vendor, Most)
	c.U64("clock_offset_ns", &r.ClockOffsetNS, Most, Note("added to activity times that count from a clock of the device, 0: none were"))
	c.U32("system_rate_ms", &r.SystemRateMS, Most, Note("the sampler's interval where the client says it, else 0"))
	c.U32("devices", &r.Devices, Most)
	c.U64("kernels", &r.Kernels, Sum)
	c.U64("samples", &r.Samples, Sum)
	c.U64("events", &r.Events, Sum)
	c.U64("bytes", &r.Bytes, Sum)
	c.U64("rejects", &r.Rejects, Sum)
	c.U32("place", &r.Place, Most, Note("rank + 1, 0 unknown"))
	c.U32("world_size", &r.WorldSize, Most, Note("ranks of the job, 0 unknown"))
	c.FactTail(&r.ReceivedDay)
})

// DeviceRow is a row of Devices.
type DeviceRow struct {
	HeadRow
	DeviceID               int32
	UUID                   string
	Name                   string
	Vendor                 string
	Architecture           string
	SMCount                uint32
	TotalBytes             uint64
	ComputeMajor           uint32
	ComputeMinor           uint32
	L2CacheSizeBytes       uint64
	SharedMemPerBlockBytes uint64
	RegsPerBlock           uint32
	WarpSize               uint32
	ReceivedDay            int32
}

// Devices holds the GPUs of each session; of several rows for one GPU the one of the latest chunk counts.
var Devices = DefineRows(Define("devices_data", Fact, "tenant, session_id, device_id").LastCounts().Few(),
	func(c *Binder[DeviceRow], r *DeviceRow) {
		c.Head(&r.HeadRow)
		c.I32("device_id", &r.DeviceID)
		c.Dict("uuid", &r.UUID)
		c.Dict("name", &r.Name)
		c.Dict("vendor", &r.Vendor)
		c.Dict("architecture", &r.Architecture)
		c.U32("sm_count", &r.SMCount)
		c.U64("total_bytes", &r.TotalBytes)
		c.U32("compute_major", &r.ComputeMajor)
		c.U32("compute_minor", &r.ComputeMinor)
		c.U64("l2_cache_size_bytes", &r.L2CacheSizeBytes)
		c.U64("shared_mem_per_block_bytes", &r.SharedMemPerBlockBytes)
		c.U32("regs_per_block", &r.RegsPerBlock)
		c.U32("warp_size", &r.WarpSize)
		c.FactTail(&r.ReceivedDay)
	})

// SegmentRow is a row of Segments.
type SegmentRow struct {
	HeadRow
	RunID                    string
	SegmentIndex             int32
	RollChainID              string
	PartIndex                uint32
	PreviousRunID            string
	PreviousSessionID        string
	StartedAt                int64
	StartRequestedBoundaryAt int64
	StartBoundaryDelayNS     uint64
	StartDeferredBy          string
	EndedAt                  int64
	RequestedBoundaryAt      int64
	BoundaryDelayNS          uint64
	EndReason                string
	DeferredBy               string
	RecordsOutside           uint64
	Synthetic                uint8
	ReceivedDay              int32
}

// Segments holds the sessions that belong to a run. job_start, segment_start, segment_end and run_end add to one row in any order, so every
// column is a maximum, and a column that a line does not say is zero, or -1 for SegmentIndex.
var Segments = DefineRows(DefineRollup("segments_data", "tenant, session_id", false).Few(), func(c *Binder[SegmentRow], r *SegmentRow) {
	c.Head(&r.HeadRow)
	c.Dict("run_id", &r.RunID, Most)
	c.I32("segment_index", &r.SegmentIndex, Most, Note("-1 unknown"))
	c.Dict("roll_chain_id", &r.RollChainID, Most)
	c.U32("part_index", &r.PartIndex, Most, Note("of the run within its roll chain, from 1"))
	c.Dict("previous_run_id", &r.PreviousRunID, Most)
	c.Dict("previous_session_id", &r.PreviousSessionID, Most)
	c.Time("started_at", &r.StartedAt, Most)
	c.Time("start_requested_boundary_at", &r.StartRequestedBoundaryAt, Most)
	c.U64("start_boundary_delay_ns", &r.StartBoundaryDelayNS, Most)
	c.Dict("start_deferred_by", &r.StartDeferredBy, Most)
	c.Time("ended_at", &r.EndedAt, Most)
	c.Time("requested_boundary_at", &r.RequestedBoundaryAt, Most)
	c.U64("boundary_delay_ns", &r.BoundaryDelayNS, Most)
	c.Dict("end_reason", &r.EndReason, Most, Note("time, row_budget, rolled, final, process_shutdown"))
	c.Dict("deferred_by", &r.DeferredBy, Most)
	c.U64("records_outside_segment_window", &r.RecordsOutside, Most)
	c.U8("synthetic", &r.Synthetic, Most)
	c.FactTail(&r.ReceivedDay)
})

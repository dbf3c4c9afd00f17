package table

type sessionsTable struct {
	*Table
	Head
	Source          DictCol
	App             DictCol
	Host            DictCol
	IP              DictCol
	PID             U32Col
	StartedAt       TimeCol
	FirstEventAt    TimeCol
	LastEventAt     TimeCol
	LastReceivedAt  TimeCol
	EndedAt         TimeCol
	EndReason       DictCol
	Completed       U8Col
	Crashed         U8Col
	RunID           DictCol
	SegmentIndex    I32Col
	SessionKind     DictCol
	ProfilingEngine DictCol
	Vendor          DictCol
	ClockOffsetNS   U64Col
	SystemRateMS    U32Col
	Devices         U32Col
	Kernels         U64Col
	Samples         U64Col
	Events          U64Col
	Bytes           U64Col
	Rejects         U64Col
	FactTail
}

// Sessions holds what is known of each session; every row adds to it. StartedAt and FirstEventAt are UnknownTime while they are not known.
var Sessions = func() sessionsTable {
	t := DefineRollup("sessions_data", "tenant, session_id", false)
	return sessionsTable{
		Table:           t,
		Head:            t.Head(),
		Source:          t.Dict("source", Most, Note("gpu-flight, parca, telemetry, intra-kernel, trace")),
		App:             t.Dict("app", Most),
		Host:            t.Dict("host", Most),
		IP:              t.Dict("ip", Most),
		PID:             t.U32("pid", Most),
		StartedAt:       t.Time("started_at", Least, Note("latest possible time while it is not known")),
		FirstEventAt:    t.Time("first_event_at", Least),
		LastEventAt:     t.Time("last_event_at", Most),
		LastReceivedAt:  t.Time("last_received_at", Most),
		EndedAt:         t.Time("ended_at", Most, Note("see session_ends_data")),
		EndReason:       t.Dict("end_reason", Most, Note("as lines and session-complete name it; session_ends_data says more")),
		Completed:       t.U8("completed", Most),
		Crashed:         t.U8("crashed", Most),
		RunID:           t.Dict("run_id", Most),
		SegmentIndex:    t.I32("segment_index", Most),
		SessionKind:     t.Dict("session_kind", Most),
		ProfilingEngine: t.Dict("profiling_engine", Most),
		Vendor:          t.Dict("vendor", Most),
		ClockOffsetNS:   t.U64("clock_offset_ns", Most, Note("added to activity times that count from a clock of the device, 0: none were")),
		SystemRateMS:    t.U32("system_rate_ms", Most, Note("the sampler's interval where the client says it, else 0")),
		Devices:         t.U32("devices", Most),
		Kernels:         t.U64("kernels", Sum),
		Samples:         t.U64("samples", Sum),
		Events:          t.U64("events", Sum),
		Bytes:           t.U64("bytes", Sum),
		Rejects:         t.U64("rejects", Sum),
		FactTail:        t.FactTail(),
	}
}()

type devicesTable struct {
	*Table
	Head
	DeviceID     I32Col
	UUID         DictCol
	Name         DictCol
	Vendor       DictCol
	Architecture DictCol
	SMCount      U32Col
	TotalBytes   U64Col
	// Static facts, 0 where the client does not send them.
	ComputeMajor           U32Col
	ComputeMinor           U32Col
	L2CacheSizeBytes       U64Col
	SharedMemPerBlockBytes U64Col
	RegsPerBlock           U32Col
	WarpSize               U32Col
	FactTail
}

// Devices holds the GPUs of each session; of several rows for one the latest chunk counts.
var Devices = func() devicesTable {
	t := Define("devices_data", Fact, "tenant, session_id, device_id")
	t.Engine = "ReplacingMergeTree(chunk)"
	return devicesTable{
		Table:        t,
		Head:         t.Head(),
		DeviceID:     t.I32("device_id"),
		UUID:         t.Dict("uuid"),
		Name:         t.Dict("name"),
		Vendor:       t.Dict("vendor"),
		Architecture: t.Dict("architecture"),
		SMCount:      t.U32("sm_count"),
		TotalBytes:   t.U64("total_bytes"),

		ComputeMajor:           t.U32("compute_major"),
		ComputeMinor:           t.U32("compute_minor"),
		L2CacheSizeBytes:       t.U64("l2_cache_size_bytes"),
		SharedMemPerBlockBytes: t.U64("shared_mem_per_block_bytes"),
		RegsPerBlock:           t.U32("regs_per_block"),
		WarpSize:               t.U32("warp_size"),

		FactTail: t.FactTail(),
	}
}()

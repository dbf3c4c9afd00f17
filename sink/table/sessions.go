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
	t := aggregate("sessions_data", "tenant, session_id", false)
	return sessionsTable{
		Table:           t,
		Head:            t.head(),
		Source:          t.dict("source", most, note("gpu-flight, parca, telemetry, intra-kernel, trace")),
		App:             t.dict("app", most),
		Host:            t.dict("host", most),
		IP:              t.dict("ip", most),
		PID:             t.u32("pid", most),
		StartedAt:       t.time("started_at", least, note("latest possible time while it is not known")),
		FirstEventAt:    t.time("first_event_at", least),
		LastEventAt:     t.time("last_event_at", most),
		LastReceivedAt:  t.time("last_received_at", most),
		EndedAt:         t.time("ended_at", most, note("see session_ends_data")),
		EndReason:       t.dict("end_reason", most, note("as lines and session-complete name it; session_ends_data says more")),
		Completed:       t.u8("completed", most),
		Crashed:         t.u8("crashed", most),
		RunID:           t.dict("run_id", most),
		SegmentIndex:    t.i32("segment_index", most),
		SessionKind:     t.dict("session_kind", most),
		ProfilingEngine: t.dict("profiling_engine", most),
		Vendor:          t.dict("vendor", most),
		ClockOffsetNS:   t.u64("clock_offset_ns", most, note("added to activity times that count from a clock of the device, 0: none were")),
		SystemRateMS:    t.u32("system_rate_ms", most, note("the sampler's interval where the client says it, else 0")),
		Devices:         t.u32("devices", most),
		Kernels:         t.u64("kernels", sum),
		Samples:         t.u64("samples", sum),
		Events:          t.u64("events", sum),
		Bytes:           t.u64("bytes", sum),
		Rejects:         t.u64("rejects", sum),
		FactTail:        t.factTail(),
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
	t := define("devices_data", Fact, "tenant, session_id, device_id")
	t.Engine = "ReplacingMergeTree(chunk)"
	return devicesTable{
		Table:        t,
		Head:         t.head(),
		DeviceID:     t.i32("device_id"),
		UUID:         t.dict("uuid"),
		Name:         t.dict("name"),
		Vendor:       t.dict("vendor"),
		Architecture: t.dict("architecture"),
		SMCount:      t.u32("sm_count"),
		TotalBytes:   t.u64("total_bytes"),

		ComputeMajor:           t.u32("compute_major"),
		ComputeMinor:           t.u32("compute_minor"),
		L2CacheSizeBytes:       t.u64("l2_cache_size_bytes"),
		SharedMemPerBlockBytes: t.u64("shared_mem_per_block_bytes"),
		RegsPerBlock:           t.u32("regs_per_block"),
		WarpSize:               t.u32("warp_size"),

		FactTail: t.factTail(),
	}
}()

package table

type kernelsTable struct {
	*Table
	Head
	StartedAt    TimeCol
	DurationNS   U64Col
	LaunchID     U32Col
	StreamID     U64Col
	CorrID       U32Col
	DeviceID     I32Col
	ExternalKind U8Col
	ExternalID   U64Col
	RawTail
}

// Kernels holds one row for each kernel that ran. What launches have in common is in [Launches].
var Kernels = func() kernelsTable {
	t := define("kernels_data", Raw, "tenant, session_id, started_at")
	return kernelsTable{
		Table:        t,
		Head:         t.head(),
		StartedAt:    t.time("started_at", codec(spread)),
		DurationNS:   t.u64("duration_ns"),
		LaunchID:     t.u32("launch_id", note("id in launches: name, configuration, registers, shared memory")),
		StreamID:     t.u64("stream_id", codec("ZSTD(3)")),
		CorrID:       t.u32("corr_id", codec("DoubleDelta, ZSTD(1)")),
		DeviceID:     t.i32("device_id", note("-1 unknown")),
		ExternalKind: t.u8("external_kind"),
		ExternalID:   t.u64("external_id"),
		RawTail:      t.rawTail(),
	}
}()

type launchesTable struct {
	*Table
	Head
	LaunchID       U32Col
	KernelID       U32Col
	ConfigID       U32Col
	Registers      U32Col
	DynSharedBytes U32Col
	FactTail
}

// Launches holds what a session's kernels are launched with, each distinct combination once: a kernel's row then needs one id in
// place of five columns, four of which follow from the others nearly always.
var Launches = func() launchesTable {
	t := define("launches", Fact, "tenant, session_id, launch_id")
	return launchesTable{
		Table:          t,
		Head:           t.head(),
		LaunchID:       t.u32("launch_id", codec(rising)),
		KernelID:       t.u32("kernel_id", note("id in kernel_dict")),
		ConfigID:       t.u32("config_id", note("id in launch_configs, 0 while it is not known")),
		Registers:      t.u32("registers", note("per thread")),
		DynSharedBytes: t.u32("dyn_shared_bytes"),
		FactTail:       t.factTail(),
	}
}()

type launchConfigsTable struct {
	*Table
	Head
	ConfigID               U32Col
	Grid                   DictCol
	Block                  DictCol
	StaticSharedBytes      U32Col
	LocalBytes             U32Col
	ConstBytes             U32Col
	Occupancy              F32Col
	RegOccupancy           F32Col
	SmemOccupancy          F32Col
	WarpOccupancy          F32Col
	BlockOccupancy         F32Col
	LimitingResource       DictCol
	MaxActiveBlocks        U32Col
	LocalMemTotalBytes     U64Col
	LocalMemPerThreadBytes U32Col
	CacheConfigRequested   U8Col
	CacheConfigExecuted    U8Col
	SharedMemExecutedBytes U32Col
	UserScope              StrCol
	StackTrace             StrCol
	FactTail
}

// LaunchConfigs holds what kernels of a session have in common: each distinct way to launch, once a session.
var LaunchConfigs = func() launchConfigsTable {
	t := define("launch_configs", Fact, "tenant, session_id, config_id")
	return launchConfigsTable{
		Table:                  t,
		Head:                   t.head(),
		ConfigID:               t.u32("config_id"),
		Grid:                   t.dict("grid", note("(x,y,z)")),
		Block:                  t.dict("block", note("(x,y,z)")),
		StaticSharedBytes:      t.u32("static_shared_bytes"),
		LocalBytes:             t.u32("local_bytes"),
		ConstBytes:             t.u32("const_bytes"),
		Occupancy:              t.f32("occupancy"),
		RegOccupancy:           t.f32("reg_occupancy"),
		SmemOccupancy:          t.f32("smem_occupancy"),
		WarpOccupancy:          t.f32("warp_occupancy"),
		BlockOccupancy:         t.f32("block_occupancy"),
		LimitingResource:       t.dict("limiting_resource"),
		MaxActiveBlocks:        t.u32("max_active_blocks"),
		LocalMemTotalBytes:     t.u64("local_mem_total_bytes"),
		LocalMemPerThreadBytes: t.u32("local_mem_per_thread_bytes"),
		CacheConfigRequested:   t.u8("cache_config_requested"),
		CacheConfigExecuted:    t.u8("cache_config_executed"),
		SharedMemExecutedBytes: t.u32("shared_mem_executed_bytes"),
		UserScope:              t.str("user_scope"),
		StackTrace:             t.str("stack_trace"),
		FactTail:               t.factTail(),
	}
}()

type kernelDetailsTable struct {
	*Table
	Head
	CorrID   U32Col
	ConfigID U32Col
	RawTail
}

// KernelDetails holds the details that came after the row of their kernel was written, or that never met one.
var KernelDetails = func() kernelDetailsTable {
	t := define("kernel_details_data", Raw, "tenant, session_id, corr_id")
	return kernelDetailsTable{
		Table:    t,
		Head:     t.head(),
		CorrID:   t.u32("corr_id", codec(rising)),
		ConfigID: t.u32("config_id"),
		RawTail:  t.rawTail(),
	}
}()

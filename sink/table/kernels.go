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
	t := Define("kernels_data", Raw, "tenant, session_id, started_at")
	return kernelsTable{
		Table:        t,
		Head:         t.Head(),
		StartedAt:    t.Time("started_at", Codec(Spread)),
		DurationNS:   t.U64("duration_ns"),
		LaunchID:     t.U32("launch_id", Note("id in launches: name, configuration, registers, shared memory")),
		StreamID:     t.U64("stream_id", Codec("ZSTD(3)")),
		CorrID:       t.U32("corr_id", Codec("DoubleDelta, ZSTD(1)")),
		DeviceID:     t.I32("device_id", Codec(same), Note("-1 unknown")),
		ExternalKind: t.U8("external_kind"),
		ExternalID:   t.U64("external_id", Codec(same)),
		RawTail:      t.RawTail(),
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

// Launches holds how a session's kernels are launched, each distinct combination once. So a kernel's row needs one id in place of five
// columns, of which four nearly always follow from the others.
var Launches = func() launchesTable {
	t := Define("launches", Fact, "tenant, session_id, launch_id")
	return launchesTable{
		Table:          t,
		Head:           t.Head(),
		LaunchID:       t.U32("launch_id", Codec(Rising)),
		KernelID:       t.U32("kernel_id", Codec(Rising), Note("id in kernel_dict")),
		ConfigID:       t.U32("config_id", Note("id in launch_configs, 0 while it is not known")),
		Registers:      t.U32("registers", Note("per thread")),
		DynSharedBytes: t.U32("dyn_shared_bytes"),
		FactTail:       t.FactTail(),
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
	t := Define("launch_configs", Fact, "tenant, session_id, config_id")
	return launchConfigsTable{
		Table:                  t,
		Head:                   t.Head(),
		ConfigID:               t.U32("config_id"),
		Grid:                   t.Dict("grid", Note("(x,y,z)")),
		Block:                  t.Dict("block", Note("(x,y,z)")),
		StaticSharedBytes:      t.U32("static_shared_bytes"),
		LocalBytes:             t.U32("local_bytes"),
		ConstBytes:             t.U32("const_bytes"),
		Occupancy:              t.F32("occupancy"),
		RegOccupancy:           t.F32("reg_occupancy"),
		SmemOccupancy:          t.F32("smem_occupancy"),
		WarpOccupancy:          t.F32("warp_occupancy"),
		BlockOccupancy:         t.F32("block_occupancy"),
		LimitingResource:       t.Dict("limiting_resource"),
		MaxActiveBlocks:        t.U32("max_active_blocks"),
		LocalMemTotalBytes:     t.U64("local_mem_total_bytes"),
		LocalMemPerThreadBytes: t.U32("local_mem_per_thread_bytes"),
		CacheConfigRequested:   t.U8("cache_config_requested"),
		CacheConfigExecuted:    t.U8("cache_config_executed"),
		SharedMemExecutedBytes: t.U32("shared_mem_executed_bytes"),
		UserScope:              t.Str("user_scope"),
		StackTrace:             t.Str("stack_trace"),
		FactTail:               t.FactTail(),
	}
}()

type kernelDetailsTable struct {
	*Table
	Head
	CorrID   U32Col
	ConfigID U32Col
	RawTail
}

// KernelDetails holds the details that came after the row of their kernel was written, or whose kernel never came.
var KernelDetails = func() kernelDetailsTable {
	t := Define("kernel_details_data", Raw, "tenant, session_id, corr_id")
	return kernelDetailsTable{
		Table:    t,
		Head:     t.Head(),
		CorrID:   t.U32("corr_id", Codec(Rising)),
		ConfigID: t.U32("config_id"),
		RawTail:  t.RawTail(),
	}
}()

type kernelStatsTable struct {
	*Table
	Head
	BucketHead
	KernelID     U32Col
	Scope        DictCol
	Kernel       DictCol
	Calls        U64Col
	TotalNS      U64Col
	MinNS        U64Col
	MaxNS        U64Col
	DurationHist HistCol
	FactTail
}

// KernelStats adds up kernels by name, scope and minute.
var KernelStats = func() kernelStatsTable {
	t := DefineRollup("kernel_stats_data", "tenant, session_id, kernel_id, scope", true)
	return kernelStatsTable{
		Table:        t,
		Head:         t.Head(),
		BucketHead:   t.BucketHead(),
		KernelID:     t.U32("kernel_id", Codec(Rising)),
		Scope:        t.Dict("scope"),
		Kernel:       t.Dict("kernel", Most, Codec("ZSTD(9)"), Note(restNote)),
		Calls:        t.U64("calls", Sum, Codec(amounts)),
		TotalNS:      t.U64("total_ns", Sum, Codec(amounts)),
		MinNS:        t.U64("min_ns", Least, Codec(amounts)),
		MaxNS:        t.U64("max_ns", Most, Codec(amounts)),
		DurationHist: t.Hist("duration_hist", SumMap, Note("buckets of package hist")),
		FactTail:     t.FactTail(),
	}
}()

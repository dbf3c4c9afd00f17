package gpuflight

// Column is the place of a column in a decoded row of its batch type: Row(r)[c]. Constants of one batch type say nothing about
// another. The place does not depend on the order of the wire.
type Column int

// ColumnKind is what a column may hold.
type ColumnKind uint8

// Kinds of columns. Cells are int64 bits: convert with the Go type of the kind.
const (
	KindI64      ColumnKind = iota // int64
	KindU64                        // uint64: a negative cell is a value beyond 2^63-1
	KindU32                        // uint32
	KindI32                        // int32
	KindU8                         // uint8
	KindDuration                   // nanoseconds, 0 to 2^63-1
	KindF64                        // float64, as math.Float64bits
)

// Columns of kernel_event_batch. The last two are missing in older clients and then 0.
const (
	KernelDtNS Column = iota
	KernelID
	KernelStreamID
	KernelDurationNS
	KernelCorrID
	KernelDynShared
	KernelNumRegs
	KernelHasDetails
	KernelExternalKind
	KernelExternalID
)

// Columns of memcpy_event_batch.
const (
	MemcpyDtNS Column = iota
	MemcpyStreamID
	MemcpyDurationNS
	MemcpyBytes
	MemcpyCopyKind
	MemcpyCorrID
)

// Columns of scope_event_batch. Those from ScopeRepeat on are missing in older clients and then 0.
const (
	ScopeDtNS Column = iota
	ScopeInstanceID
	ScopeNameID
	ScopeEventType
	ScopeDepth
	ScopeRepeat
	ScopeWarmup
	ScopeOriginalStartNS
)

// Columns of profile_sample_batch. Source file and line are missing in older clients and then 0.
const (
	ProfileDtNS Column = iota
	ProfileCorrID
	ProfileDeviceID
	ProfileFunctionID
	ProfilePCOffset
	ProfileMetricID
	ProfileMetricValue
	ProfileStallReason
	ProfileSampleKind
	ProfileScopeNameID
	ProfileSourceFileID
	ProfileSourceLine
)

// Columns of host_metric_batch.
const (
	HostDtNS Column = iota
	HostCPUPctX100
	HostRAMUsedMiB
	HostRAMTotalMiB
)

// Columns of device_metric_batch. Those from DeviceTotalMiB on may be missing and then read 0.
const (
	DeviceDtNS Column = iota
	DeviceID
	DeviceGPUUtil
	DeviceMemUtil
	DeviceTempC
	DevicePowerMW
	DeviceUsedMiB
	DeviceTotalMiB
	DeviceClockSM
	DeviceFanSpeedPct
	DeviceTempMemC
	DeviceTempJunctionC
	DeviceVoltageMV
	DeviceEnergyUJ
	DeviceClockMem
	DevicePCIeBwBps
	DeviceECCCorrected
	DeviceECCUncorrected
)

// Columns of synchronization_event_batch. SyncFunctionID names a call stack.
const (
	SyncDtNS Column = iota
	SyncDurationNS
	SyncType
	SyncStreamID
	SyncEventID
	SyncContextID
	SyncCorrID
	SyncFunctionID
)

// Columns of memory_alloc_event_batch.
const (
	AllocDtNS Column = iota
	AllocDurationNS
	AllocMemoryOp
	AllocMemoryKind
	AllocAddress
	AllocBytes
	AllocDeviceID
	AllocStreamID
	AllocCorrID
)

// Columns of pm_sample_batch. PMValue holds float64 bits.
const (
	PMSampleIndex Column = iota
	PMDtNS
	PMDeviceID
	PMMetricID
	PMValue
	PMScopeNameID
)

// columnSpec is one known column; its index in a schema is its Column.
type columnSpec struct {
	name     string
	kind     ColumnKind
	optional bool
}

// schemas lists the columns of each batch type in the order of today's client. Widths are those of the client's row structures,
// except stream ids, which its documents call 64 bits wide.
var schemas = [numBatchTypes][]columnSpec{
	KernelEventBatch: {
		{"dt_ns", KindI64, false}, {"kernel_id", KindU32, false}, {"stream_id", KindU64, false}, {"duration_ns", KindDuration, false},
		{"corr_id", KindU32, false}, {"dyn_shared", KindI32, false}, {"num_regs", KindI32, false}, {"has_details", KindU8, false},
		{"external_kind", KindU8, true}, {"external_id", KindU64, true},
	},
	MemcpyEventBatch: {
		{"dt_ns", KindI64, false}, {"stream_id", KindU64, false}, {"duration_ns", KindDuration, false}, {"bytes", KindU64, false},
		{"copy_kind", KindU32, false}, {"corr_id", KindU32, false},
	},
	ScopeEventBatch: {
		{"dt_ns", KindI64, false}, {"scope_instance_id", KindU64, false}, {"name_id", KindU32, false}, {"event_type", KindU8, false},
		{"depth", KindI32, false}, {"repeat", KindI64, true}, {"warmup", KindI64, true}, {"original_start_ns", KindI64, true},
	},
	ProfileSampleBatch: {
		{"dt_ns", KindI64, false}, {"corr_id", KindU32, false}, {"device_id", KindU32, false}, {"function_id", KindU32, false},
		{"pc_offset", KindU64, false}, {"metric_id", KindU32, false}, {"metric_value", KindU64, false}, {"stall_reason", KindU32, false},
		{"sample_kind", KindU8, false}, {"scope_name_id", KindU32, false}, {"source_file_id", KindU32, true}, {"source_line", KindU32, true},
	},
	HostMetricBatch: {
		{"dt_ns", KindI64, false}, {"cpu_pct_x100", KindU32, false}, {"ram_used_mib", KindU64, false}, {"ram_total_mib", KindU64, false},
	},
	DeviceMetricBatch: {
		{"dt_ns", KindI64, false}, {"device_id", KindI32, false}, {"gpu_util", KindU32, false}, {"mem_util", KindU32, false},
		{"temp_c", KindI64, false}, {"power_mw", KindU32, false}, {"used_mib", KindU64, false}, {"total_mib", KindU64, true},
		{"clock_sm", KindU32, true}, {"fan_speed_pct", KindU32, true}, {"temp_mem_c", KindI64, true}, {"temp_junction_c", KindI64, true},
		{"voltage_mv", KindU32, true}, {"energy_uj", KindU64, true}, {"clock_mem", KindU32, true}, {"pcie_bw_bps", KindU64, true},
		{"ecc_corrected", KindU64, true}, {"ecc_uncorrected", KindU64, true},
	},
	SynchronizationEventBatch: {
		{"dt_ns", KindI64, false}, {"duration_ns", KindDuration, false}, {"sync_type", KindU8, false}, {"stream_id", KindU64, false},
		{"event_id", KindU32, false}, {"context_id", KindU32, false}, {"corr_id", KindU32, false}, {"function_id", KindU32, true},
	},
	MemoryAllocEventBatch: {
		{"dt_ns", KindI64, false}, {"duration_ns", KindDuration, false}, {"memory_op", KindU8, false}, {"memory_kind", KindU8, false},
		{"address", KindU64, false}, {"bytes", KindU64, false}, {"device_id", KindU32, false}, {"stream_id", KindU64, false},
		{"corr_id", KindU32, false},
	},
	PMSampleBatch: {
		{"sample_index", KindU64, false}, {"dt_ns", KindI64, false}, {"device_id", KindU32, false}, {"metric_id", KindU32, false},
		{"value", KindF64, false}, {"scope_name_id", KindU32, true},
	},
}

// ColumnOf returns the place of the column with this wire name in rows of type t, -1 if t has no such column.
func ColumnOf(t Type, name string) Column {
	if !t.IsBatch() {
		return -1
	}
	for i := range schemas[t] {
		if schemas[t][i].name == name {
			return Column(i)
		}
	}
	return -1
}

// limits returns the smallest value and the width of the range an integer kind holds: v fits when uint64(v)-lo <= span. For
// KindU64 the range is the part that fits int64; larger values are told apart by their length.
func (k ColumnKind) limits() (lo, span uint64) {
	switch k {
	case KindU64, KindDuration:
		return 0, 1<<63 - 1
	case KindU32:
		return 0, 1<<32 - 1
	case KindI32:
		return ^uint64(1<<31 - 1), 1<<32 - 1 // -2^31 as bits
	case KindU8:
		return 0, 1<<8 - 1
	default:
		return 1 << 63, 1<<64 - 1
	}
}

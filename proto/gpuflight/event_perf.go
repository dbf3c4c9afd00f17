package gpuflight

// NotAvailable is what the counters of a Perf are when the device or the run did not give them.
const NotAvailable = -1

// Perf is a perf_metric_event line, the counters of a scope, or a kernel_perf_metric_event line, those of one replayed kernel. Percentages
// are 0 to 100. What the other of the two types has is NotAvailable, empty or 0 here.
type Perf struct {
	PID            uint32
	App, Name      []byte // Name: of the scope, or of the range that was replayed
	StartNS, EndNS int64  // 0 for a kernel: replays have no time of their own
	DeviceID       int32
	RangeIndex     int64
	KernelName     []byte
	LaunchOrdinal  int64
	UserScope      []byte
	ScopeDepth     uint32

	SMThroughputPct, L1HitRatePct, L2HitRatePct, TensorActivePct, AchievedOccupancyPct float64
	DRAMReadBytes, DRAMWriteBytes                                                      int64
	SharedLoadConflicts, SharedStoreConflicts, SharedConflicts, SharedWavefronts       int64
	SharedConflictOverheadPct, SharedConflictNway                                      float64
}

var perfFields = []field[Perf]{
	{name: "pid", kind: KindU32, number: func(p *Perf, v int64) { p.PID = uint32(v) }},
	{name: "app", text: func(p *Perf, v []byte) { p.App = v }},
	{name: "name", text: func(p *Perf, v []byte) { p.Name = v }},
	{name: "start_ns", kind: KindI64, need: true, number: func(p *Perf, v int64) { p.StartNS = v }},
	{name: "end_ns", kind: KindI64, need: true, number: func(p *Perf, v int64) { p.EndNS = v }},
	{name: "device_id", kind: KindI32, number: func(p *Perf, v int64) { p.DeviceID = int32(v) }},
	{name: "sm_throughput_pct", float: func(p *Perf, v float64) { p.SMThroughputPct = v }},
	{name: "l1_hit_rate_pct", float: func(p *Perf, v float64) { p.L1HitRatePct = v }},
	{name: "l2_hit_rate_pct", float: func(p *Perf, v float64) { p.L2HitRatePct = v }},
	{name: "dram_read_bytes", kind: KindI64, number: func(p *Perf, v int64) { p.DRAMReadBytes = v }},
	{name: "dram_write_bytes", kind: KindI64, number: func(p *Perf, v int64) { p.DRAMWriteBytes = v }},
	{name: "tensor_active_pct", float: func(p *Perf, v float64) { p.TensorActivePct = v }},
	{name: "user_scope", text: func(p *Perf, v []byte) { p.UserScope = v }},
	{name: "scope_depth", kind: KindU32, number: func(p *Perf, v int64) { p.ScopeDepth = uint32(v) }},
}

var kernelPerfFields = []field[Perf]{
	{name: "pid", kind: KindU32, number: func(p *Perf, v int64) { p.PID = uint32(v) }},
	{name: "app", text: func(p *Perf, v []byte) { p.App = v }},
	{name: "device_id", kind: KindI32, number: func(p *Perf, v int64) { p.DeviceID = int32(v) }},
	{name: "range_index", kind: KindI64, number: func(p *Perf, v int64) { p.RangeIndex = v }},
	{name: "range_name", text: func(p *Perf, v []byte) { p.Name = v }},
	{name: "kernel_name", need: true, text: func(p *Perf, v []byte) { p.KernelName = v }},
	{name: "launch_ordinal", kind: KindI64, need: true, number: func(p *Perf, v int64) { p.LaunchOrdinal = v }},
	{name: "sm_throughput_pct", float: func(p *Perf, v float64) { p.SMThroughputPct = v }},
	{name: "l1_hit_rate_pct", float: func(p *Perf, v float64) { p.L1HitRatePct = v }},
	{name: "l2_hit_rate_pct", float: func(p *Perf, v float64) { p.L2HitRatePct = v }},
	{name: "dram_read_bytes", kind: KindI64, number: func(p *Perf, v int64) { p.DRAMReadBytes = v }},
	{name: "dram_write_bytes", kind: KindI64, number: func(p *Perf, v int64) { p.DRAMWriteBytes = v }},
	{name: "tensor_active_pct", float: func(p *Perf, v float64) { p.TensorActivePct = v }},
	{name: "achieved_occupancy_pct", float: func(p *Perf, v float64) { p.AchievedOccupancyPct = v }},
	{name: "shared_load_bank_conflicts", kind: KindI64, number: func(p *Perf, v int64) { p.SharedLoadConflicts = v }},
	{name: "shared_store_bank_conflicts", kind: KindI64, number: func(p *Perf, v int64) { p.SharedStoreConflicts = v }},
	{name: "shared_bank_conflicts", kind: KindI64, number: func(p *Perf, v int64) { p.SharedConflicts = v }},
	{name: "shared_wavefronts", kind: KindI64, number: func(p *Perf, v int64) { p.SharedWavefronts = v }},
	{name: "shared_bank_conflict_overhead_pct", float: func(p *Perf, v float64) { p.SharedConflictOverheadPct = v }},
	{name: "shared_bank_conflict_nway", float: func(p *Perf, v float64) { p.SharedConflictNway = v }},
}

// noPerf has no counter at all.
var noPerf = Perf{
	RangeIndex: NotAvailable, LaunchOrdinal: NotAvailable,
	SMThroughputPct: NotAvailable, L1HitRatePct: NotAvailable, L2HitRatePct: NotAvailable, TensorActivePct: NotAvailable,
	AchievedOccupancyPct: NotAvailable,
	DRAMReadBytes:        NotAvailable, DRAMWriteBytes: NotAvailable,
	SharedLoadConflicts: NotAvailable, SharedStoreConflicts: NotAvailable, SharedConflicts: NotAvailable, SharedWavefronts: NotAvailable,
	SharedConflictOverheadPct: NotAvailable, SharedConflictNway: NotAvailable,
}

// Perf decodes a perf_metric_event line. Counters that the line lacks are NotAvailable.
func (d *EventDecoder) Perf(line []byte) (*Perf, error) {
	d.perf = noPerf
	err := decodeEvent(d, line, perfFields, &d.perf)
	return &d.perf, interval(err, d.perf.StartNS, d.perf.EndNS)
}

// KernelPerf decodes a kernel_perf_metric_event line. Counters that the line lacks are NotAvailable.
func (d *EventDecoder) KernelPerf(line []byte) (*Perf, error) {
	d.perf = noPerf
	err := decodeEvent(d, line, kernelPerfFields, &d.perf)
	return &d.perf, err
}

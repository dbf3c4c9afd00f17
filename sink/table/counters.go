package table

const orNot = "-1 not available"

type perfMetricsTable struct {
	*Table
	Head
	StartedAt            TimeCol
	EndedAt              TimeCol
	Kind                 DictCol
	Name                 DictCol
	KernelName           DictCol
	LaunchOrdinal        I64Col
	RangeIndex           I64Col
	DeviceID             I32Col
	SMThroughputPct      F64Col
	L1HitRatePct         F64Col
	L2HitRatePct         F64Col
	DRAMReadBytes        I64Col
	DRAMWriteBytes       I64Col
	TensorActivePct      F64Col
	AchievedOccupancyPct F64Col
	SharedLoadConflicts  I64Col
	SharedStoreConflicts I64Col
	SharedConflicts      I64Col
	SharedWavefronts     I64Col
	ConflictOverheadPct  F64Col
	SharedConflictNway   F64Col
	Scope                DictCol
	ScopeDepth           U32Col
	PID                  U32Col
	App                  DictCol
	RawTail
}

// PerfMetrics holds hardware counters of scopes and of replayed kernels.
var PerfMetrics = func() perfMetricsTable {
	t := Define("perf_metrics_data", Raw, "tenant, session_id, started_at")
	return perfMetricsTable{
		Table:                t,
		Head:                 t.Head(),
		StartedAt:            t.Time("started_at", Note("the epoch for kind kernel: a replay has no time of its own, see received_at")),
		EndedAt:              t.Time("ended_at", Note("the epoch for kind kernel")),
		Kind:                 t.Dict("kind", Note("range: a scope, kernel: a replayed kernel")),
		Name:                 t.Dict("name", Note("of the scope or range")),
		KernelName:           t.Dict("kernel_name", Note("'' for kind range")),
		LaunchOrdinal:        t.I64("launch_ordinal", Note("which launch of the kernel, -1 for kind range")),
		RangeIndex:           t.I64("range_index", Note("-1 for kind range")),
		DeviceID:             t.I32("device_id"),
		SMThroughputPct:      t.F64("sm_throughput_pct", Note(orNot)),
		L1HitRatePct:         t.F64("l1_hit_rate_pct", Note(orNot)),
		L2HitRatePct:         t.F64("l2_hit_rate_pct", Note(orNot)),
		DRAMReadBytes:        t.I64("dram_read_bytes", Note(orNot)),
		DRAMWriteBytes:       t.I64("dram_write_bytes", Note(orNot)),
		TensorActivePct:      t.F64("tensor_active_pct", Note(orNot)),
		AchievedOccupancyPct: t.F64("achieved_occupancy_pct", Note("0 to 100, "+orNot)),
		SharedLoadConflicts:  t.I64("shared_load_bank_conflicts", Note(orNot)),
		SharedStoreConflicts: t.I64("shared_store_bank_conflicts", Note(orNot)),
		SharedConflicts:      t.I64("shared_bank_conflicts", Note(orNot)),
		SharedWavefronts:     t.I64("shared_wavefronts", Note(orNot)),
		ConflictOverheadPct:  t.F64("shared_bank_conflict_overhead_pct", Note(orNot)),
		SharedConflictNway:   t.F64("shared_bank_conflict_nway", Note(orNot)),
		Scope:                t.Dict("scope", Note("path of the user scope, '' none or global")),
		ScopeDepth:           t.U32("scope_depth"),
		PID:                  t.U32("pid"),
		App:                  t.Dict("app"),
		RawTail:              t.RawTail(),
	}
}()

type pmSamplesTable struct {
	*Table
	Head
	At          TimeCol
	DeviceID    I32Col
	MetricID    U32Col
	Value       F64Col
	SampleIndex U64Col
	BatchID     U64Col
	ScopeNameID U32Col
	RawTail
}

// PMSamples holds hardware counters sampled at a fixed interval.
var PMSamples = func() pmSamplesTable {
	t := Define("pm_samples_data", Raw, "tenant, session_id, metric_id, device_id, at")
	return pmSamplesTable{
		Table:       t,
		Head:        t.Head(),
		At:          t.Time("at", Codec(Spread)),
		DeviceID:    t.I32("device_id"),
		MetricID:    t.U32("metric_id", Note("id in metric_dict")),
		Value:       t.F64("value", Note("six significant digits on the wire")),
		SampleIndex: t.U64("sample_index", Codec(Rising), Note("within one decode: it restarts")),
		BatchID:     t.U64("batch_id", Note("of the line")),
		ScopeNameID: t.U32("scope_name_id", Note("id in scope_name_dict, 0 none")),
		RawTail:     t.RawTail(),
	}
}()

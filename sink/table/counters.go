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
	t := define("perf_metrics_data", Raw, "tenant, session_id, started_at")
	return perfMetricsTable{
		Table:                t,
		Head:                 t.head(),
		StartedAt:            t.time("started_at", note("the epoch for kind kernel: a replay has no time of its own, see received_at")),
		EndedAt:              t.time("ended_at", note("the epoch for kind kernel")),
		Kind:                 t.dict("kind", note("range: a scope, kernel: a replayed kernel")),
		Name:                 t.dict("name", note("of the scope or range")),
		KernelName:           t.dict("kernel_name", note("'' for kind range")),
		LaunchOrdinal:        t.i64("launch_ordinal", note("which launch of the kernel, -1 for kind range")),
		RangeIndex:           t.i64("range_index", note("-1 for kind range")),
		DeviceID:             t.i32("device_id"),
		SMThroughputPct:      t.f64("sm_throughput_pct", note(orNot)),
		L1HitRatePct:         t.f64("l1_hit_rate_pct", note(orNot)),
		L2HitRatePct:         t.f64("l2_hit_rate_pct", note(orNot)),
		DRAMReadBytes:        t.i64("dram_read_bytes", note(orNot)),
		DRAMWriteBytes:       t.i64("dram_write_bytes", note(orNot)),
		TensorActivePct:      t.f64("tensor_active_pct", note(orNot)),
		AchievedOccupancyPct: t.f64("achieved_occupancy_pct", note("0 to 100, "+orNot)),
		SharedLoadConflicts:  t.i64("shared_load_bank_conflicts", note(orNot)),
		SharedStoreConflicts: t.i64("shared_store_bank_conflicts", note(orNot)),
		SharedConflicts:      t.i64("shared_bank_conflicts", note(orNot)),
		SharedWavefronts:     t.i64("shared_wavefronts", note(orNot)),
		ConflictOverheadPct:  t.f64("shared_bank_conflict_overhead_pct", note(orNot)),
		SharedConflictNway:   t.f64("shared_bank_conflict_nway", note(orNot)),
		Scope:                t.dict("scope", note("path of the user scope, '' none or global")),
		ScopeDepth:           t.u32("scope_depth"),
		PID:                  t.u32("pid"),
		App:                  t.dict("app"),
		RawTail:              t.rawTail(),
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
	t := define("pm_samples_data", Raw, "tenant, session_id, metric_id, device_id, at")
	return pmSamplesTable{
		Table:       t,
		Head:        t.head(),
		At:          t.time("at", codec(spread)),
		DeviceID:    t.i32("device_id"),
		MetricID:    t.u32("metric_id", note("id in metric_dict")),
		Value:       t.f64("value", note("six significant digits on the wire")),
		SampleIndex: t.u64("sample_index", codec(rising), note("within one decode: it restarts")),
		BatchID:     t.u64("batch_id", note("of the line")),
		ScopeNameID: t.u32("scope_name_id", note("id in scope_name_dict, 0 none")),
		RawTail:     t.rawTail(),
	}
}()

type pmConfigsTable struct {
	*Table
	Head
	At         TimeCol
	DeviceID   I32Col
	IntervalUS U64Col
	MaxSamples U64Col
	Preset     DictCol
	Metrics    StrCol
	FactTail
}

// PMConfigs holds how PMSamples were taken.
var PMConfigs = func() pmConfigsTable {
	t := define("pm_configs_data", Fact, "tenant, session_id, at")
	return pmConfigsTable{
		Table:      t,
		Head:       t.head(),
		At:         t.time("at"),
		DeviceID:   t.i32("device_id"),
		IntervalUS: t.u64("interval_us", note("between samples, microseconds")),
		MaxSamples: t.u64("max_samples", note("kept between decodes")),
		Preset:     t.dict("preset"),
		Metrics:    t.str("metrics", note("JSON array")),
		FactTail:   t.factTail(),
	}
}()

type sassConfigsTable struct {
	*Table
	Head
	At                TimeCol
	DeviceID          I32Col
	ConfiguredMetrics StrCol
	SkippedMetrics    StrCol
	FactTail
}

// SassConfigs holds which instruction metrics were counted.
var SassConfigs = func() sassConfigsTable {
	t := define("sass_configs_data", Fact, "tenant, session_id, at")
	return sassConfigsTable{
		Table:             t,
		Head:              t.head(),
		At:                t.time("at"),
		DeviceID:          t.i32("device_id"),
		ConfiguredMetrics: t.str("configured_metrics", note("JSON array")),
		SkippedMetrics:    t.str("skipped_metrics", note("JSON array of those that the device does not have")),
		FactTail:          t.factTail(),
	}
}()

type executionSignaturesTable struct {
	*Table
	Head
	At              TimeCol
	Scope           DictCol
	Signature       U64Col
	LaunchCount     U64Col
	DistinctKernels U64Col
	FactTail
}

// ExecutionSignatures tells which passes of one analysis ran the same kernels in a scope.
var ExecutionSignatures = func() executionSignaturesTable {
	t := define("execution_signatures_data", Fact, "tenant, session_id, at")
	return executionSignaturesTable{
		Table:           t,
		Head:            t.head(),
		At:              t.time("at"),
		Scope:           t.dict("scope", note("path, '' for all of the program")),
		Signature:       t.u64("signature", note("equal in passes that may be merged")),
		LaunchCount:     t.u64("launch_count"),
		DistinctKernels: t.u64("distinct_kernels"),
		FactTail:        t.factTail(),
	}
}()

type deepWindowRulesTable struct {
	*Table
	Head
	At                  TimeCol
	RuleID              DictCol
	Expression          StrCol
	State               DictCol
	Outcome             DictCol
	Reason              StrCol
	MetricState         DictCol
	SamplesSeen         U64Col
	WindowsOpened       U64Col
	TruncatedSamples    U64Col
	MetricQualityResets U64Col
	LastQualityReason   StrCol
	StateSequence       U64Col
	HasLastValue        U8Col
	LastValue           F64Col
	LastObservedAt      TimeCol
	PID                 U32Col
	App                 DictCol
	FactTail
}

// DeepWindowRules holds how the rules that open deep windows fared.
var DeepWindowRules = func() deepWindowRulesTable {
	t := define("deep_window_rules_data", Fact, "tenant, session_id, at")
	return deepWindowRulesTable{
		Table:               t,
		Head:                t.head(),
		At:                  t.time("at", note("emitted_ns of the wire")),
		RuleID:              t.dict("rule_id"),
		Expression:          t.str("expression"),
		State:               t.dict("state", note("inactive, warming_up, armed, pending, opening, blackout, recovery, waiting_for_rearm")),
		Outcome:             t.dict("outcome", note("none, never_true, blocked, fired, exhausted, unsupported, invalid_config")),
		Reason:              t.str("reason"),
		MetricState:         t.dict("metric_state", note("missing, warming_up, fresh, stale")),
		SamplesSeen:         t.u64("samples_seen"),
		WindowsOpened:       t.u64("windows_opened"),
		TruncatedSamples:    t.u64("truncated_samples"),
		MetricQualityResets: t.u64("metric_quality_resets"),
		LastQualityReason:   t.str("last_quality_reason"),
		StateSequence:       t.u64("state_sequence"),
		HasLastValue:        t.u8("has_last_value", note("1 when last_value and last_observed_at were sent")),
		LastValue:           t.f64("last_value"),
		LastObservedAt:      t.time("last_observed_at"),
		PID:                 t.u32("pid"),
		App:                 t.dict("app"),
		FactTail:            t.factTail(),
	}
}()

type counterQualityTable struct {
	*Table
	Head
	At                   TimeCol
	Source               DictCol
	SchemaVersion        U32Col
	TrackedCounters      U64Col
	SamplesObserved      U64Col
	RegistrationRejected U64Col
	UnknownIDSamples     U64Col
	UnavailableSamples   U64Col
	NegativeDeltaSamples U64Col
	RateWindowsDiscarded U64Col
	PID                  U32Col
	App                  DictCol
	FactTail
}

// CounterQuality holds what became of the counters that programs publish.
var CounterQuality = func() counterQualityTable {
	t := define("counter_quality_data", Fact, "tenant, session_id, at")
	return counterQualityTable{
		Table:                t,
		Head:                 t.head(),
		At:                   t.time("at", note("emitted_ns of the wire")),
		Source:               t.dict("source"),
		SchemaVersion:        t.u32("schema_version"),
		TrackedCounters:      t.u64("tracked_counters"),
		SamplesObserved:      t.u64("samples_observed"),
		RegistrationRejected: t.u64("registration_rejected"),
		UnknownIDSamples:     t.u64("unknown_id_samples"),
		UnavailableSamples:   t.u64("unavailable_samples"),
		NegativeDeltaSamples: t.u64("negative_delta_samples"),
		RateWindowsDiscarded: t.u64("rate_windows_discarded"),
		PID:                  t.u32("pid"),
		App:                  t.dict("app"),
		FactTail:             t.factTail(),
	}
}()

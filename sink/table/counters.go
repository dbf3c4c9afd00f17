package table

const orNot = "-1 not available"

// PerfMetricRow is a row of PerfMetrics.
type PerfMetricRow struct {
	HeadRow
	StartedAt            int64
	EndedAt              int64
	Kind                 string
	Name                 []byte
	KernelName           []byte
	LaunchOrdinal        int64
	RangeIndex           int64
	DeviceID             int32
	SMThroughputPct      float64
	L1HitRatePct         float64
	L2HitRatePct         float64
	DRAMReadBytes        int64
	DRAMWriteBytes       int64
	TensorActivePct      float64
	AchievedOccupancyPct float64
	SharedLoadConflicts  int64
	SharedStoreConflicts int64
	SharedConflicts      int64
	SharedWavefronts     int64
	ConflictOverheadPct  float64
	SharedConflictNway   float64
	Scope                []byte
	ScopeDepth           uint32
	PID                  uint32
	App                  []byte
	ReceivedAt           int64
}

// PerfMetrics holds hardware counters of scopes and of replayed kernels.
var PerfMetrics = DefineRows(Define("perf_metrics_data", Raw, "tenant, session_id, started_at"),
	func(c *Binder[PerfMetricRow], r *PerfMetricRow) {
		c.Head(&r.HeadRow)
		c.Time("started_at", &r.StartedAt, Note("the epoch for kind kernel: a replay has no time of its own, see received_at"))
		c.Time("ended_at", &r.EndedAt, Note("the epoch for kind kernel"))
		c.Dict("kind", &r.Kind, Note("range: a scope, kernel: a replayed kernel"))
		c.DictBytes("name", &r.Name, Note("of the scope or range"))
		c.DictBytes("kernel_name", &r.KernelName, Note("'' for kind range"))
		c.I64("launch_ordinal", &r.LaunchOrdinal, Note("which launch of the kernel, -1 for kind range"))
		c.I64("range_index", &r.RangeIndex, Note("-1 for kind range"))
		c.I32("device_id", &r.DeviceID)
		c.F64("sm_throughput_pct", &r.SMThroughputPct, Note(orNot))
		c.F64("l1_hit_rate_pct", &r.L1HitRatePct, Note(orNot))
		c.F64("l2_hit_rate_pct", &r.L2HitRatePct, Note(orNot))
		c.I64("dram_read_bytes", &r.DRAMReadBytes, Note(orNot))
		c.I64("dram_write_bytes", &r.DRAMWriteBytes, Note(orNot))
		c.F64("tensor_active_pct", &r.TensorActivePct, Note(orNot))
		c.F64("achieved_occupancy_pct", &r.AchievedOccupancyPct, Note("0 to 100, "+orNot))
		c.I64("shared_load_bank_conflicts", &r.SharedLoadConflicts, Note(orNot))
		c.I64("shared_store_bank_conflicts", &r.SharedStoreConflicts, Note(orNot))
		c.I64("shared_bank_conflicts", &r.SharedConflicts, Note(orNot))
		c.I64("shared_wavefronts", &r.SharedWavefronts, Note(orNot))
		c.F64("shared_bank_conflict_overhead_pct", &r.ConflictOverheadPct, Note(orNot))
		c.F64("shared_bank_conflict_nway", &r.SharedConflictNway, Note(orNot))
		c.DictBytes("scope", &r.Scope, Note("path of the user scope, '' none or global"))
		c.U32("scope_depth", &r.ScopeDepth)
		c.U32("pid", &r.PID)
		c.DictBytes("app", &r.App)
		c.RawTail(&r.ReceivedAt)
	})

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

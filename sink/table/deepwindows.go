package table

// SyntheticRow is a row of Synthetic.
type SyntheticRow struct {
	HeadRow
	ReceivedDay int32
}

// Synthetic holds the sessions whose kernel durations are gaps between launches on the host. It follows from Capabilities; every
// statistic asks it, so it must stay small.
var Synthetic = DefineRows(Define("synthetic_sessions_data", Fact, "tenant, session_id"), func(c *Binder[SyntheticRow], r *SyntheticRow) {
	c.Head(&r.HeadRow)
	c.FactTail(&r.ReceivedDay)
})

// DeepWindowRow is a row of DeepWindows.
type DeepWindowRow struct {
	HeadRow
	Name                 string
	CloseReason          string
	Engines              string
	StartedAt            int64
	EndedAt              int64
	DurationNS           uint64
	LaunchesCovered      uint64
	RequestedDurationMS  uint64
	RequestedMaxLaunches uint64
	TriggerRuleID        string
	TriggerMetric        string
	TriggerOp            string
	Threshold            float64
	RearmThreshold       float64
	Observed             float64
	RateWindowMS         uint64
	SustainedMS          uint64
	FirstTrueAt          int64
	FiredAt              int64
	ReceivedDay          int32
}

// DeepWindows holds the stretches in which sessions were profiled deeply. What runs in one is disturbed.
var DeepWindows = DefineRows(Define("deep_windows_data", Fact, "tenant, session_id, started_at"), func(c *Binder[DeepWindowRow], r *DeepWindowRow) {
	c.Head(&r.HeadRow)
	c.Dict("name", &r.Name)
	c.Dict("close_reason", &r.CloseReason, Note("deadline, launch_budget, manual, session_stop"))
	c.Dict("engines", &r.Engines, Note("names, one a line"))
	c.Time("started_at", &r.StartedAt)
	c.Time("ended_at", &r.EndedAt)
	c.U64("duration_ns", &r.DurationNS)
	c.U64("launches_covered", &r.LaunchesCovered)
	c.U64("requested_duration_ms", &r.RequestedDurationMS)
	c.U64("requested_max_launches", &r.RequestedMaxLaunches)
	c.Dict("trigger_rule_id", &r.TriggerRuleID, Note("'' when a person opened the window"))
	c.Dict("trigger_metric", &r.TriggerMetric)
	c.Dict("trigger_op", &r.TriggerOp)
	c.F64("threshold", &r.Threshold)
	c.F64("rearm_threshold", &r.RearmThreshold)
	c.F64("observed", &r.Observed)
	c.U64("rate_window_ms", &r.RateWindowMS)
	c.U64("sustained_ms", &r.SustainedMS)
	c.Time("first_true_at", &r.FirstTrueAt)
	c.Time("fired_at", &r.FiredAt)
	c.FactTail(&r.ReceivedDay)
})

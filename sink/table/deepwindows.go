package table

type syntheticTable struct {
	*Table
	Head
	FactTail
}

// Synthetic holds the sessions whose kernel durations are gaps between launches on the host. It follows from Capabilities; every
// statistic asks it, so it must stay small.
var Synthetic = func() syntheticTable {
	t := Define("synthetic_sessions_data", Fact, "tenant, session_id")
	return syntheticTable{Table: t, Head: t.Head(), FactTail: t.FactTail()}
}()

type deepWindowsTable struct {
	*Table
	Head
	Name                 DictCol
	CloseReason          DictCol
	Engines              DictCol
	StartedAt            TimeCol
	EndedAt              TimeCol
	DurationNS           U64Col
	LaunchesCovered      U64Col
	RequestedDurationMS  U64Col
	RequestedMaxLaunches U64Col
	TriggerRuleID        DictCol
	TriggerMetric        DictCol
	TriggerOp            DictCol
	Threshold            F64Col
	RearmThreshold       F64Col
	Observed             F64Col
	RateWindowMS         U64Col
	SustainedMS          U64Col
	FirstTrueAt          TimeCol
	FiredAt              TimeCol
	FactTail
}

// DeepWindows holds the stretches in which sessions were profiled deeply. What runs in one is disturbed.
var DeepWindows = func() deepWindowsTable {
	t := Define("deep_windows_data", Fact, "tenant, session_id, started_at")
	return deepWindowsTable{
		Table:                t,
		Head:                 t.Head(),
		Name:                 t.Dict("name"),
		CloseReason:          t.Dict("close_reason", Note("deadline, launch_budget, manual, session_stop")),
		Engines:              t.Dict("engines", Note("names, one a line")),
		StartedAt:            t.Time("started_at"),
		EndedAt:              t.Time("ended_at"),
		DurationNS:           t.U64("duration_ns"),
		LaunchesCovered:      t.U64("launches_covered"),
		RequestedDurationMS:  t.U64("requested_duration_ms"),
		RequestedMaxLaunches: t.U64("requested_max_launches"),
		TriggerRuleID:        t.Dict("trigger_rule_id", Note("'' when a person opened the window")),
		TriggerMetric:        t.Dict("trigger_metric"),
		TriggerOp:            t.Dict("trigger_op"),
		Threshold:            t.F64("threshold"),
		RearmThreshold:       t.F64("rearm_threshold"),
		Observed:             t.F64("observed"),
		RateWindowMS:         t.U64("rate_window_ms"),
		SustainedMS:          t.U64("sustained_ms"),
		FirstTrueAt:          t.Time("first_true_at"),
		FiredAt:              t.Time("fired_at"),
		FactTail:             t.FactTail(),
	}
}()

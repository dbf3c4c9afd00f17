package table

type capabilitiesTable struct {
	*Table
	Head
	At              TimeCol
	RequestedEngine DictCol
	SelectedEngine  DictCol
	Feature         DictCol
	Requested       U8Col
	Status          DictCol
	Mode            DictCol
	ReasonCode      DictCol
	Message         DictCol
	FactTail
}

// Capabilities holds what each session was asked to record and what it could, a row a feature.
var Capabilities = func() capabilitiesTable {
	t := define("capture_capabilities_data", Fact, "tenant, session_id, feature")
	return capabilitiesTable{
		Table:           t,
		Head:            t.head(),
		At:              t.time("at"),
		RequestedEngine: t.dict("requested_engine"),
		SelectedEngine:  t.dict("selected_engine"),
		Feature:         t.dict("feature"),
		Requested:       t.u8("requested"),
		Status:          t.dict("status", note("collected, partial, fallback, enabled_no_data, expected_no_data, skipped, not_requested")),
		Mode:            t.dict("mode"),
		ReasonCode:      t.dict("reason_code"),
		Message:         t.dict("message"),
		FactTail:        t.factTail(),
	}
}()

type syntheticTable struct {
	*Table
	Head
	FactTail
}

// Synthetic holds the sessions whose kernel durations are gaps between launches on the host. It follows from Capabilities; every
// statistic asks it, so it must stay small.
var Synthetic = func() syntheticTable {
	t := define("synthetic_sessions_data", Fact, "tenant, session_id")
	return syntheticTable{Table: t, Head: t.head(), FactTail: t.factTail()}
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
	t := define("deep_windows_data", Fact, "tenant, session_id, started_at")
	return deepWindowsTable{
		Table:                t,
		Head:                 t.head(),
		Name:                 t.dict("name"),
		CloseReason:          t.dict("close_reason", note("deadline, launch_budget, manual, session_stop")),
		Engines:              t.dict("engines", note("names, one a line")),
		StartedAt:            t.time("started_at"),
		EndedAt:              t.time("ended_at"),
		DurationNS:           t.u64("duration_ns"),
		LaunchesCovered:      t.u64("launches_covered"),
		RequestedDurationMS:  t.u64("requested_duration_ms"),
		RequestedMaxLaunches: t.u64("requested_max_launches"),
		TriggerRuleID:        t.dict("trigger_rule_id", note("'' when a person opened the window")),
		TriggerMetric:        t.dict("trigger_metric"),
		TriggerOp:            t.dict("trigger_op"),
		Threshold:            t.f64("threshold"),
		RearmThreshold:       t.f64("rearm_threshold"),
		Observed:             t.f64("observed"),
		RateWindowMS:         t.u64("rate_window_ms"),
		SustainedMS:          t.u64("sustained_ms"),
		FirstTrueAt:          t.time("first_true_at"),
		FiredAt:              t.time("fired_at"),
		FactTail:             t.factTail(),
	}
}()

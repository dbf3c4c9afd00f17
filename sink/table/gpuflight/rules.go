package gpuflight

import "github.com/warpline/warpline/sink/table"

// DeepWindowRuleRow is a row of DeepWindowRules.
type DeepWindowRuleRow struct {
	table.HeadRow
	At                  int64
	RuleID              string
	Expression          string
	State               string
	Outcome             string
	Reason              string
	MetricState         string
	SamplesSeen         uint64
	WindowsOpened       uint64
	TruncatedSamples    uint64
	MetricQualityResets uint64
	LastQualityReason   string
	StateSequence       uint64
	HasLastValue        uint8
	LastValue           float64
	LastObservedAt      int64
	PID                 uint32
	App                 string
	ReceivedDay         int32
}

// DeepWindowRules holds what became of the rules that open deep windows.
var DeepWindowRules = table.DefineRows(table.Define("deep_window_rules_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[DeepWindowRuleRow], r *DeepWindowRuleRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At, table.Note("emitted_ns of the wire"))
		c.Dict("rule_id", &r.RuleID)
		c.Str("expression", &r.Expression)
		c.Dict("state", &r.State, table.Note("inactive, warming_up, armed, pending, opening, blackout, recovery, waiting_for_rearm"))
		c.Dict("outcome", &r.Outcome, table.Note("none, never_true, blocked, fired, exhausted, unsupported, invalid_config"))
		c.Str("reason", &r.Reason)
		c.Dict("metric_state", &r.MetricState, table.Note("missing, warming_up, fresh, stale"))
		c.U64("samples_seen", &r.SamplesSeen)
		c.U64("windows_opened", &r.WindowsOpened)
		c.U64("truncated_samples", &r.TruncatedSamples)
		c.U64("metric_quality_resets", &r.MetricQualityResets)
		c.Str("last_quality_reason", &r.LastQualityReason)
		c.U64("state_sequence", &r.StateSequence)
		c.U8("has_last_value", &r.HasLastValue, table.Note("1 when last_value and last_observed_at were sent"))
		c.F64("last_value", &r.LastValue)
		c.Time("last_observed_at", &r.LastObservedAt)
		c.U32("pid", &r.PID)
		c.Dict("app", &r.App)
		c.FactTail(&r.ReceivedDay)
	})

// CounterQualityRow is a row of CounterQuality.
type CounterQualityRow struct {
	table.HeadRow
	At                   int64
	Source               string
	SchemaVersion        uint32
	TrackedCounters      uint64
	SamplesObserved      uint64
	RegistrationRejected uint64
	UnknownIDSamples     uint64
	UnavailableSamples   uint64
	NegativeDeltaSamples uint64
	RateWindowsDiscarded uint64
	PID                  uint32
	App                  string
	ReceivedDay          int32
}

// CounterQuality holds what became of the counters that programs publish.
var CounterQuality = table.DefineRows(table.Define("counter_quality_data", table.Fact, "tenant, session_id, at").Few(),
	func(c *table.Binder[CounterQualityRow], r *CounterQualityRow) {
		c.Head(&r.HeadRow)
		c.Time("at", &r.At, table.Note("emitted_ns of the wire"))
		c.Dict("source", &r.Source)
		c.U32("schema_version", &r.SchemaVersion)
		c.U64("tracked_counters", &r.TrackedCounters)
		c.U64("samples_observed", &r.SamplesObserved)
		c.U64("registration_rejected", &r.RegistrationRejected)
		c.U64("unknown_id_samples", &r.UnknownIDSamples)
		c.U64("unavailable_samples", &r.UnavailableSamples)
		c.U64("negative_delta_samples", &r.NegativeDeltaSamples)
		c.U64("rate_windows_discarded", &r.RateWindowsDiscarded)
		c.U32("pid", &r.PID)
		c.Dict("app", &r.App)
		c.FactTail(&r.ReceivedDay)
	})

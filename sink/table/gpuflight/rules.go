package gpuflight

import "github.com/warpline/warpline/sink/table"

type deepWindowRulesTable struct {
	*table.Table
	table.Head
	At                  table.TimeCol
	RuleID              table.DictCol
	Expression          table.StrCol
	State               table.DictCol
	Outcome             table.DictCol
	Reason              table.StrCol
	MetricState         table.DictCol
	SamplesSeen         table.U64Col
	WindowsOpened       table.U64Col
	TruncatedSamples    table.U64Col
	MetricQualityResets table.U64Col
	LastQualityReason   table.StrCol
	StateSequence       table.U64Col
	HasLastValue        table.U8Col
	LastValue           table.F64Col
	LastObservedAt      table.TimeCol
	PID                 table.U32Col
	App                 table.DictCol
	table.FactTail
}

// DeepWindowRules holds how the rules that open deep windows fared.
var DeepWindowRules = func() deepWindowRulesTable {
	t := table.Define("deep_window_rules_data", table.Fact, "tenant, session_id, at")
	return deepWindowRulesTable{
		Table:               t,
		Head:                t.Head(),
		At:                  t.Time("at", table.Note("emitted_ns of the wire")),
		RuleID:              t.Dict("rule_id"),
		Expression:          t.Str("expression"),
		State:               t.Dict("state", table.Note("inactive, warming_up, armed, pending, opening, blackout, recovery, waiting_for_rearm")),
		Outcome:             t.Dict("outcome", table.Note("none, never_true, blocked, fired, exhausted, unsupported, invalid_config")),
		Reason:              t.Str("reason"),
		MetricState:         t.Dict("metric_state", table.Note("missing, warming_up, fresh, stale")),
		SamplesSeen:         t.U64("samples_seen"),
		WindowsOpened:       t.U64("windows_opened"),
		TruncatedSamples:    t.U64("truncated_samples"),
		MetricQualityResets: t.U64("metric_quality_resets"),
		LastQualityReason:   t.Str("last_quality_reason"),
		StateSequence:       t.U64("state_sequence"),
		HasLastValue:        t.U8("has_last_value", table.Note("1 when last_value and last_observed_at were sent")),
		LastValue:           t.F64("last_value"),
		LastObservedAt:      t.Time("last_observed_at"),
		PID:                 t.U32("pid"),
		App:                 t.Dict("app"),
		FactTail:            t.FactTail(),
	}
}()

type counterQualityTable struct {
	*table.Table
	table.Head
	At                   table.TimeCol
	Source               table.DictCol
	SchemaVersion        table.U32Col
	TrackedCounters      table.U64Col
	SamplesObserved      table.U64Col
	RegistrationRejected table.U64Col
	UnknownIDSamples     table.U64Col
	UnavailableSamples   table.U64Col
	NegativeDeltaSamples table.U64Col
	RateWindowsDiscarded table.U64Col
	PID                  table.U32Col
	App                  table.DictCol
	table.FactTail
}

// CounterQuality holds what became of the counters that programs publish.
var CounterQuality = func() counterQualityTable {
	t := table.Define("counter_quality_data", table.Fact, "tenant, session_id, at")
	return counterQualityTable{
		Table:                t,
		Head:                 t.Head(),
		At:                   t.Time("at", table.Note("emitted_ns of the wire")),
		Source:               t.Dict("source"),
		SchemaVersion:        t.U32("schema_version"),
		TrackedCounters:      t.U64("tracked_counters"),
		SamplesObserved:      t.U64("samples_observed"),
		RegistrationRejected: t.U64("registration_rejected"),
		UnknownIDSamples:     t.U64("unknown_id_samples"),
		UnavailableSamples:   t.U64("unavailable_samples"),
		NegativeDeltaSamples: t.U64("negative_delta_samples"),
		RateWindowsDiscarded: t.U64("rate_windows_discarded"),
		PID:                  t.U32("pid"),
		App:                  t.Dict("app"),
		FactTail:             t.FactTail(),
	}
}()

package gpuflight

// RuleSummary is a deep_window_rule_summary line: how one rule that opens deep windows fared.
type RuleSummary struct {
	PID                                                                  uint32
	App                                                                  []byte
	RuleID, Expression, State, Outcome, Reason, MetricState, LastQuality []byte
	SamplesSeen, WindowsOpened, TruncatedSamples, QualityResets          uint64
	StateSequence                                                        uint64
	EmittedNS                                                            int64
	HasLast                                                              bool // LastValue and LastObservedNS are there
	LastValue                                                            float64
	LastObservedNS                                                       int64
}

var ruleFields = []field[RuleSummary]{
	{name: "pid", kind: KindU32, number: func(r *RuleSummary, v int64) { r.PID = uint32(v) }},
	{name: "app", text: func(r *RuleSummary, v []byte) { r.App = v }},
	{name: "rule_id", need: true, text: func(r *RuleSummary, v []byte) { r.RuleID = v }},
	{name: "expression", text: func(r *RuleSummary, v []byte) { r.Expression = v }},
	{name: "state", text: func(r *RuleSummary, v []byte) { r.State = v }},
	{name: "outcome", text: func(r *RuleSummary, v []byte) { r.Outcome = v }},
	{name: "reason", text: func(r *RuleSummary, v []byte) { r.Reason = v }},
	{name: "metric_state", text: func(r *RuleSummary, v []byte) { r.MetricState = v }},
	{name: "samples_seen", kind: KindU64, number: func(r *RuleSummary, v int64) { r.SamplesSeen = uint64(v) }},
	{name: "windows_opened", kind: KindU64, number: func(r *RuleSummary, v int64) { r.WindowsOpened = uint64(v) }},
	{name: "truncated_samples", kind: KindU64, number: func(r *RuleSummary, v int64) { r.TruncatedSamples = uint64(v) }},
	{name: "metric_quality_resets", kind: KindU64, number: func(r *RuleSummary, v int64) { r.QualityResets = uint64(v) }},
	{name: "last_quality_reason", text: func(r *RuleSummary, v []byte) { r.LastQuality = v }},
	{name: "state_sequence", kind: KindU64, number: func(r *RuleSummary, v int64) { r.StateSequence = uint64(v) }},
	{name: "emitted_ns", kind: KindI64, need: true, number: func(r *RuleSummary, v int64) { r.EmittedNS = v }},
	{name: "last_value", float: func(r *RuleSummary, v float64) { r.LastValue, r.HasLast = v, true }},
	{name: "last_observed_ns", kind: KindI64, number: func(r *RuleSummary, v int64) { r.LastObservedNS = v }},
}

// RuleSummary decodes a deep_window_rule_summary line.
func (d *EventDecoder) RuleSummary(line []byte) (*RuleSummary, error) {
	r := &d.rule
	*r = RuleSummary{}
	err := instant(decodeEvent(d, line, ruleFields, r), r.EmittedNS, "emitted_ns")
	return r, instant(err, r.LastObservedNS, "last_observed_ns")
}

// CounterQuality is a counter_data_quality_summary line: what became of the samples of counters that the program publishes.
type CounterQuality struct {
	PID                                                   uint32
	App, Source                                           []byte
	SchemaVersion                                         uint32
	TrackedCounters, SamplesObserved, Rejected, UnknownID uint64
	Unavailable, NegativeDelta, WindowsDiscarded          uint64
	EmittedNS                                             int64
}

var qualityFields = []field[CounterQuality]{
	{name: "pid", kind: KindU32, number: func(c *CounterQuality, v int64) { c.PID = uint32(v) }},
	{name: "app", text: func(c *CounterQuality, v []byte) { c.App = v }},
	{name: "source", text: func(c *CounterQuality, v []byte) { c.Source = v }},
	{name: "schema_version", kind: KindU32, number: func(c *CounterQuality, v int64) { c.SchemaVersion = uint32(v) }},
	{name: "tracked_counters", kind: KindU64, number: func(c *CounterQuality, v int64) { c.TrackedCounters = uint64(v) }},
	{name: "samples_observed", kind: KindU64, number: func(c *CounterQuality, v int64) { c.SamplesObserved = uint64(v) }},
	{name: "registration_rejected", kind: KindU64, number: func(c *CounterQuality, v int64) { c.Rejected = uint64(v) }},
	{name: "unknown_id_samples", kind: KindU64, number: func(c *CounterQuality, v int64) { c.UnknownID = uint64(v) }},
	{name: "unavailable_samples", kind: KindU64, number: func(c *CounterQuality, v int64) { c.Unavailable = uint64(v) }},
	{name: "negative_delta_samples", kind: KindU64, number: func(c *CounterQuality, v int64) { c.NegativeDelta = uint64(v) }},
	{name: "rate_windows_discarded", kind: KindU64, number: func(c *CounterQuality, v int64) { c.WindowsDiscarded = uint64(v) }},
	{name: "emitted_ns", kind: KindI64, need: true, number: func(c *CounterQuality, v int64) { c.EmittedNS = v }},
}

// CounterQuality decodes a counter_data_quality_summary line.
func (d *EventDecoder) CounterQuality(line []byte) (*CounterQuality, error) {
	c := &d.quality
	*c = CounterQuality{}
	err := decodeEvent(d, line, qualityFields, c)
	return c, instant(err, c.EmittedNS, "emitted_ns")
}

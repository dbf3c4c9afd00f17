package gpuflight

import (
	"encoding/json"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// listText is a list as its table keeps it. Texts are valid UTF-8, so nothing is lost.
func listText(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic("BUG: aggregate: a list of strings is no JSON: " + err.Error())
	}
	return string(text)
}

// pmConfig folds a pm_sampling_config line.
func (f *folding) pmConfig(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.PMConfig(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	t := &table.PMConfigs
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.TimeNS)
	t.DeviceID.Append(b, e.DeviceID)
	t.IntervalUS.Append(b, e.IntervalUS)
	t.MaxSamples.Append(b, e.MaxSamples)
	t.Preset.Append(b, t.Preset.IndexBytes(b, e.Preset))
	t.Metrics.Append(b, listText(e.Metrics))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

// sassConfig folds a sass_config line.
func (f *folding) sassConfig(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.SassSetup(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	t := &table.SassConfigs
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.TimeNS)
	t.DeviceID.Append(b, e.DeviceID)
	t.ConfiguredMetrics.Append(b, listText(e.Configured))
	t.SkippedMetrics.Append(b, listText(e.Skipped))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

// signature folds an execution_signature line.
func (f *folding) signature(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.Signature(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	t := &table.ExecutionSignatures
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.TimeNS)
	t.Scope.Append(b, t.Scope.IndexBytes(b, e.Scope))
	t.Signature.Append(b, e.Signature)
	t.LaunchCount.Append(b, e.LaunchCount)
	t.DistinctKernels.Append(b, e.DistinctKernels)
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

// ruleSummary folds a deep_window_rule_summary line.
func (f *folding) ruleSummary(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.RuleSummary(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.EmittedNS)
	t := &table.DeepWindowRules
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.EmittedNS)
	t.RuleID.Append(b, t.RuleID.IndexBytes(b, e.RuleID))
	t.Expression.AppendBytes(b, e.Expression)
	t.State.Append(b, t.State.IndexBytes(b, e.State))
	t.Outcome.Append(b, t.Outcome.IndexBytes(b, e.Outcome))
	t.Reason.AppendBytes(b, e.Reason)
	t.MetricState.Append(b, t.MetricState.IndexBytes(b, e.MetricState))
	t.SamplesSeen.Append(b, e.SamplesSeen)
	t.WindowsOpened.Append(b, e.WindowsOpened)
	t.TruncatedSamples.Append(b, e.TruncatedSamples)
	t.MetricQualityResets.Append(b, e.QualityResets)
	t.LastQualityReason.AppendBytes(b, e.LastQuality)
	t.StateSequence.Append(b, e.StateSequence)
	t.HasLastValue.Append(b, rows.Flag(e.HasLast))
	t.LastValue.Append(b, e.LastValue)
	t.LastObservedAt.Append(b, e.LastObservedNS)
	t.PID.Append(b, e.PID)
	t.App.Append(b, t.App.IndexBytes(b, e.App))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

// counterQuality folds a counter_data_quality_summary line.
func (f *folding) counterQuality(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.CounterQuality(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.EmittedNS)
	t := &table.CounterQuality
	b := f.factBatch(p, t.Table, t.Head)
	t.At.Append(b, e.EmittedNS)
	t.Source.Append(b, t.Source.IndexBytes(b, e.Source))
	t.SchemaVersion.Append(b, e.SchemaVersion)
	t.TrackedCounters.Append(b, e.TrackedCounters)
	t.SamplesObserved.Append(b, e.SamplesObserved)
	t.RegistrationRejected.Append(b, e.Rejected)
	t.UnknownIDSamples.Append(b, e.UnknownID)
	t.UnavailableSamples.Append(b, e.Unavailable)
	t.NegativeDeltaSamples.Append(b, e.NegativeDelta)
	t.RateWindowsDiscarded.Append(b, e.WindowsDiscarded)
	t.PID.Append(b, e.PID)
	t.App.Append(b, t.App.IndexBytes(b, e.App))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

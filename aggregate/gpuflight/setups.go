package gpuflight

import (
	"encoding/json"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// listText is a list as its table keeps it. Texts are valid UTF-8, so nothing is lost.
func listText(list []string) string {
	if len(list) == 0 {
		return "[]"
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic("BUG: aggregate: encode a list of strings as JSON: " + err.Error())
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
	gpuflighttable.PMConfigs.Append(f.Facts(p, gpuflighttable.PMConfigs.Table), &gpuflighttable.PMConfigRow{
		HeadRow:     s.Head(),
		At:          e.TimeNS,
		DeviceID:    e.DeviceID,
		IntervalUS:  e.IntervalUS,
		MaxSamples:  e.MaxSamples,
		Preset:      string(e.Preset),
		Metrics:     listText(e.Metrics),
		ReceivedDay: rows.DayOf(p.Env.ReceivedAt),
	})
	return nil
}

// sassConfig folds a sass_config line.
func (f *folding) sassConfig(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.SassSetup(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	gpuflighttable.SassConfigs.Append(f.Facts(p, gpuflighttable.SassConfigs.Table), &gpuflighttable.SassConfigRow{
		HeadRow:           s.Head(),
		At:                e.TimeNS,
		DeviceID:          e.DeviceID,
		ConfiguredMetrics: listText(e.Configured),
		SkippedMetrics:    listText(e.Skipped),
		ReceivedDay:       rows.DayOf(p.Env.ReceivedAt),
	})
	return nil
}

// signature folds an execution_signature line.
func (f *folding) signature(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.Signature(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.TimeNS)
	gpuflighttable.ExecutionSignatures.Append(f.Facts(p, gpuflighttable.ExecutionSignatures.Table), &gpuflighttable.ExecutionSignatureRow{
		HeadRow:         s.Head(),
		At:              e.TimeNS,
		Scope:           string(e.Scope),
		Signature:       e.Signature,
		LaunchCount:     e.LaunchCount,
		DistinctKernels: e.DistinctKernels,
		ReceivedDay:     rows.DayOf(p.Env.ReceivedAt),
	})
	return nil
}

// ruleSummary folds a deep_window_rule_summary line.
func (f *folding) ruleSummary(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.RuleSummary(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.EmittedNS)
	gpuflighttable.DeepWindowRules.Append(f.Facts(p, gpuflighttable.DeepWindowRules.Table), &gpuflighttable.DeepWindowRuleRow{
		HeadRow:             s.Head(),
		At:                  e.EmittedNS,
		RuleID:              string(e.RuleID),
		Expression:          string(e.Expression),
		State:               string(e.State),
		Outcome:             string(e.Outcome),
		Reason:              string(e.Reason),
		MetricState:         string(e.MetricState),
		SamplesSeen:         e.SamplesSeen,
		WindowsOpened:       e.WindowsOpened,
		TruncatedSamples:    e.TruncatedSamples,
		MetricQualityResets: e.QualityResets,
		LastQualityReason:   string(e.LastQuality),
		StateSequence:       e.StateSequence,
		HasLastValue:        rows.Flag(e.HasLast),
		LastValue:           e.LastValue,
		LastObservedAt:      e.LastObservedNS,
		PID:                 e.PID,
		App:                 string(e.App),
		ReceivedDay:         rows.DayOf(p.Env.ReceivedAt),
	})
	return nil
}

// counterQuality folds a counter_data_quality_summary line.
func (f *folding) counterQuality(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.CounterQuality(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.EmittedNS)
	gpuflighttable.CounterQuality.Append(f.Facts(p, gpuflighttable.CounterQuality.Table), &gpuflighttable.CounterQualityRow{
		HeadRow:              s.Head(),
		At:                   e.EmittedNS,
		Source:               string(e.Source),
		SchemaVersion:        e.SchemaVersion,
		TrackedCounters:      e.TrackedCounters,
		SamplesObserved:      e.SamplesObserved,
		RegistrationRejected: e.Rejected,
		UnknownIDSamples:     e.UnknownID,
		UnavailableSamples:   e.Unavailable,
		NegativeDeltaSamples: e.NegativeDelta,
		RateWindowsDiscarded: e.WindowsDiscarded,
		PID:                  e.PID,
		App:                  string(e.App),
		ReceivedDay:          rows.DayOf(p.Env.ReceivedAt),
	})
	return nil
}

package gpuflight

import (
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// Whether a session's durations can be trusted is known only near its end. By then they are counted, so it is stored as facts of their own,
// and the views leave out the durations that the facts say are not true.

// capabilities folds a capture_capabilities line: a row for each feature, and one more when the kernels' durations are made up.
func (f *folding) capabilities(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeCapabilities(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.TimeNS)
	for i := range d.Features {
		c := &d.Features[i]
		gpuflighttable.Capabilities.Append(f.Facts(p, gpuflighttable.Capabilities.Table), &gpuflighttable.CapabilityRow{
			HeadRow:         s.Head(),
			At:              max(d.TimeNS, 0),
			RequestedEngine: rows.Clip(d.RequestedEngine),
			SelectedEngine:  rows.Clip(d.SelectedEngine),
			Feature:         rows.Clip(c.Feature),
			Requested:       rows.Flag(c.Requested),
			Status:          rows.Clip(c.Status),
			Mode:            rows.Clip(c.Mode),
			ReasonCode:      rows.Clip(c.ReasonCode),
			Message:         rows.Clip(c.Message),
			ReceivedDay:     rows.DayOf(p.Env.ReceivedAt),
		})
	}
	if !d.SyntheticDurations() {
		return
	}
	table.Synthetic.Append(f.Facts(p, table.Synthetic.Table), &table.SyntheticRow{
		HeadRow:     s.Head(),
		ReceivedDay: rows.DayOf(p.Env.ReceivedAt),
	})
}

// maxDeepWindow bounds a deep window, which is meant to last seconds: the minutes that windows touch are counted one by one in every
// question for statistics. A longer one is a reject out_of_range.
const maxDeepWindow = int64(3600e9)

// deepWindow folds a deep_window_event line.
func (f *folding) deepWindow(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeDeepWindow(l)
	if err == nil && d.EndNS-d.StartNS > maxDeepWindow {
		err = &gpuflight.LineError{Reason: gpuflight.ReasonOutOfRange, Detail: "a deep window of more than an hour"}
	}
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.StartNS)
	s.Delta.SawEvent(d.EndNS)
	r := &d.Trigger
	table.DeepWindows.Append(f.Facts(p, table.DeepWindows.Table), &table.DeepWindowRow{
		HeadRow:              s.Head(),
		Name:                 rows.Clip(d.Name),
		CloseReason:          rows.Clip(d.CloseReason),
		Engines:              rows.Clip(strings.Join(d.Engines, "\n")),
		StartedAt:            d.StartNS,
		EndedAt:              d.EndNS,
		DurationNS:           rows.NotNegative(d.DurationNS),
		LaunchesCovered:      rows.NotNegative(d.LaunchesCovered),
		RequestedDurationMS:  rows.NotNegative(d.RequestedDurationMS),
		RequestedMaxLaunches: rows.NotNegative(d.RequestedMaxLaunches),
		TriggerRuleID:        rows.Clip(r.RuleID),
		TriggerMetric:        rows.Clip(r.Metric),
		TriggerOp:            rows.Clip(r.Op),
		Threshold:            r.Threshold,
		RearmThreshold:       r.RearmThreshold,
		Observed:             r.Observed,
		RateWindowMS:         rows.NotNegative(r.RateWindowMS),
		SustainedMS:          rows.NotNegative(r.SustainedMS),
		FirstTrueAt:          max(r.FirstTrueNS, 0),
		FiredAt:              max(r.FiredNS, 0),
		ReceivedDay:          rows.DayOf(p.Env.ReceivedAt),
	})
}

package aggregate

import (
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// What a session's durations are worth is known near its end. By then they are counted, so it is kept as facts beside them, and the
// views leave out what the facts say is not true.

// capabilities folds a capture_capabilities line: a row a feature, and one more when the kernels' durations are made up.
func (f *folder) capabilities(s *session, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeCapabilities(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.TimeNS)
	for i := range d.Features {
		c := &d.Features[i]
		gpuflighttable.Capabilities.Append(f.facts(p, gpuflighttable.Capabilities.Table), &gpuflighttable.CapabilityRow{
			HeadRow:         s.head(),
			At:              max(d.TimeNS, 0),
			RequestedEngine: clip(d.RequestedEngine),
			SelectedEngine:  clip(d.SelectedEngine),
			Feature:         clip(c.Feature),
			Requested:       flag(c.Requested),
			Status:          clip(c.Status),
			Mode:            clip(c.Mode),
			ReasonCode:      clip(c.ReasonCode),
			Message:         clip(c.Message),
			ReceivedDay:     dayOf(p.env.ReceivedAt),
		})
	}
	if !d.SyntheticDurations() {
		return
	}
	table.Synthetic.Append(f.facts(p, table.Synthetic.Table), &table.SyntheticRow{
		HeadRow:     s.head(),
		ReceivedDay: dayOf(p.env.ReceivedAt),
	})
}

// maxDeepWindow bounds a deep window, which is meant to last seconds: the minutes that windows touch are counted one by one in every
// question for statistics. A longer one is a reject out_of_range.
const maxDeepWindow = int64(3600e9)

// deepWindow folds a deep_window_event line.
func (f *folder) deepWindow(s *session, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeDeepWindow(l)
	if err == nil && d.EndNS-d.StartNS > maxDeepWindow {
		err = &gpuflight.LineError{Reason: gpuflight.ReasonOutOfRange, Detail: "a deep window of more than an hour"}
	}
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.StartNS)
	s.delta.sawEvent(d.EndNS)
	r := &d.Trigger
	table.DeepWindows.Append(f.facts(p, table.DeepWindows.Table), &table.DeepWindowRow{
		HeadRow:              s.head(),
		Name:                 clip(d.Name),
		CloseReason:          clip(d.CloseReason),
		Engines:              clip(strings.Join(d.Engines, "\n")),
		StartedAt:            d.StartNS,
		EndedAt:              d.EndNS,
		DurationNS:           notNegative(d.DurationNS),
		LaunchesCovered:      notNegative(d.LaunchesCovered),
		RequestedDurationMS:  notNegative(d.RequestedDurationMS),
		RequestedMaxLaunches: notNegative(d.RequestedMaxLaunches),
		TriggerRuleID:        clip(r.RuleID),
		TriggerMetric:        clip(r.Metric),
		TriggerOp:            clip(r.Op),
		Threshold:            r.Threshold,
		RearmThreshold:       r.RearmThreshold,
		Observed:             r.Observed,
		RateWindowMS:         notNegative(r.RateWindowMS),
		SustainedMS:          notNegative(r.SustainedMS),
		FirstTrueAt:          max(r.FirstTrueNS, 0),
		FiredAt:              max(r.FiredNS, 0),
		ReceivedDay:          dayOf(p.env.ReceivedAt),
	})
}

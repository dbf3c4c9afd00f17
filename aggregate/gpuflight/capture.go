package gpuflight

import (
	"strings"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// What a session's durations are worth is known near its end. By then they are counted, so it is kept as facts beside them, and the
// views leave out what the facts say is not true.

// capabilities folds a capture_capabilities line: a row a feature, and one more when the kernels' durations are made up.
func (f *folding) capabilities(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeCapabilities(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.TimeNS)
	t := &table.Capabilities
	b := f.Out.Batch(t.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	for i := range d.Features {
		c := &d.Features[i]
		t.Tenant.AppendString(b, s.Key.Tenant)
		t.SessionID.AppendString(b, s.Key.ID)
		t.At.Append(b, max(d.TimeNS, 0))
		t.RequestedEngine.AppendString(b, rows.Clip(d.RequestedEngine))
		t.SelectedEngine.AppendString(b, rows.Clip(d.SelectedEngine))
		t.Feature.AppendString(b, rows.Clip(c.Feature))
		t.Requested.Append(b, rows.Flag(c.Requested))
		t.Status.AppendString(b, rows.Clip(c.Status))
		t.Mode.AppendString(b, rows.Clip(c.Mode))
		t.ReasonCode.AppendString(b, rows.Clip(c.ReasonCode))
		t.Message.AppendString(b, rows.Clip(c.Message))
		t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	}
	if !d.SyntheticDurations() {
		return
	}
	y := &table.Synthetic
	b = f.Out.Batch(y.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	y.Tenant.AppendString(b, s.Key.Tenant)
	y.SessionID.AppendString(b, s.Key.ID)
	y.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
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
	t, r := &table.DeepWindows, &d.Trigger
	b := f.Out.Batch(t.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.Name.AppendString(b, rows.Clip(d.Name))
	t.CloseReason.AppendString(b, rows.Clip(d.CloseReason))
	t.Engines.AppendString(b, rows.Clip(strings.Join(d.Engines, "\n")))
	t.StartedAt.Append(b, d.StartNS)
	t.EndedAt.Append(b, d.EndNS)
	t.DurationNS.Append(b, rows.NotNegative(d.DurationNS))
	t.LaunchesCovered.Append(b, rows.NotNegative(d.LaunchesCovered))
	t.RequestedDurationMS.Append(b, rows.NotNegative(d.RequestedDurationMS))
	t.RequestedMaxLaunches.Append(b, rows.NotNegative(d.RequestedMaxLaunches))
	t.TriggerRuleID.AppendString(b, rows.Clip(r.RuleID))
	t.TriggerMetric.AppendString(b, rows.Clip(r.Metric))
	t.TriggerOp.AppendString(b, rows.Clip(r.Op))
	t.Threshold.Append(b, r.Threshold)
	t.RearmThreshold.Append(b, r.RearmThreshold)
	t.Observed.Append(b, r.Observed)
	t.RateWindowMS.Append(b, rows.NotNegative(r.RateWindowMS))
	t.SustainedMS.Append(b, rows.NotNegative(r.SustainedMS))
	t.FirstTrueAt.Append(b, max(r.FirstTrueNS, 0))
	t.FiredAt.Append(b, max(r.FiredNS, 0))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
}

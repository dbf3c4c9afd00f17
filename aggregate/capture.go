package aggregate

import (
	"strings"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// What a session's durations are worth is known near its end. By then they are counted, so it is kept as facts beside them, and the
// views leave out what the facts say is not true.

// capabilities folds a capture_capabilities line: a row a feature, and one more when the kernels' durations are made up.
func (f *flight) capabilities(s *flightSession, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeCapabilities(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.TimeNS)
	t := &table.Capabilities
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	for i := range d.Features {
		c := &d.Features[i]
		t.Tenant.AppendString(b, s.key.tenant)
		t.SessionID.AppendString(b, s.key.id)
		t.At.Append(b, max(d.TimeNS, 0))
		t.RequestedEngine.AppendString(b, clip(d.RequestedEngine))
		t.SelectedEngine.AppendString(b, clip(d.SelectedEngine))
		t.Feature.AppendString(b, clip(c.Feature))
		t.Requested.Append(b, flag(c.Requested))
		t.Status.AppendString(b, clip(c.Status))
		t.Mode.AppendString(b, clip(c.Mode))
		t.ReasonCode.AppendString(b, clip(c.ReasonCode))
		t.Message.AppendString(b, clip(c.Message))
		t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
	}
	if !d.SyntheticDurations() {
		return
	}
	y := &table.Synthetic
	b = f.out.batch(y.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	y.Tenant.AppendString(b, s.key.tenant)
	y.SessionID.AppendString(b, s.key.id)
	y.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

// maxDeepWindow bounds a deep window, which is meant to last seconds: the minutes that windows touch are counted one by one in every
// question for statistics. A longer one is a reject out_of_range.
const maxDeepWindow = int64(3600e9)

// deepWindow folds a deep_window_event line.
func (f *flight) deepWindow(s *flightSession, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeDeepWindow(l)
	if err == nil && d.EndNS-d.StartNS > maxDeepWindow {
		err = &gpuflight.LineError{Reason: gpuflight.ReasonOutOfRange, Detail: "a deep window of more than an hour"}
	}
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.StartNS)
	s.delta.sawEvent(d.EndNS)
	t, r := &table.DeepWindows, &d.Trigger
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.Name.AppendString(b, clip(d.Name))
	t.CloseReason.AppendString(b, clip(d.CloseReason))
	t.Engines.AppendString(b, clip(strings.Join(d.Engines, "\n")))
	t.StartedAt.Append(b, d.StartNS)
	t.EndedAt.Append(b, d.EndNS)
	t.DurationNS.Append(b, notNegative(d.DurationNS))
	t.LaunchesCovered.Append(b, notNegative(d.LaunchesCovered))
	t.RequestedDurationMS.Append(b, notNegative(d.RequestedDurationMS))
	t.RequestedMaxLaunches.Append(b, notNegative(d.RequestedMaxLaunches))
	t.TriggerRuleID.AppendString(b, clip(r.RuleID))
	t.TriggerMetric.AppendString(b, clip(r.Metric))
	t.TriggerOp.AppendString(b, clip(r.Op))
	t.Threshold.Append(b, r.Threshold)
	t.RearmThreshold.Append(b, r.RearmThreshold)
	t.Observed.Append(b, r.Observed)
	t.RateWindowMS.Append(b, notNegative(r.RateWindowMS))
	t.SustainedMS.Append(b, notNegative(r.SustainedMS))
	t.FirstTrueAt.Append(b, max(r.FirstTrueNS, 0))
	t.FiredAt.Append(b, max(r.FiredNS, 0))
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

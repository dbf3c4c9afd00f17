package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// graphLaunch folds a graph_launch_event line.
func (f *folding) graphLaunch(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.GraphLaunch(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.StartNS)
	t, h := &table.Graphs, &f.graphHead
	b := f.rawHead(h, s, p, t.Table, t.Head)
	if b == nil {
		return nil
	}
	t.StartedAt.Append(b, e.StartNS)
	t.DurationNS.Append(b, e.DurationNS)
	t.GraphID.Append(b, e.GraphID)
	t.DeviceID.Append(b, e.DeviceID)
	t.StreamID.Append(b, e.StreamID)
	t.CorrID.Append(b, e.CorrID)
	h.append(0, t.GraphExecKey, e.ExecKey)
	t.PID.Append(b, e.PID)
	h.append(1, t.App, e.App)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	return nil
}

// graphNode folds a graph_node_definition line.
func (f *folding) graphNode(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	e, err := f.events.GraphNode(l.Raw)
	if err != nil {
		return err
	}
	t := &table.GraphNodes
	b := f.factBatch(p, t.Table, t.Head)
	t.GraphExecKey.Append(b, t.GraphExecKey.IndexBytes(b, e.ExecKey))
	t.NodeIndex.Append(b, e.NodeIndex)
	t.NodeType.Append(b, e.NodeType)
	t.DependencyCount.Append(b, e.Dependencies)
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
	return nil
}

// perf folds a perf_metric_event or kernel_perf_metric_event line.
func (f *folding) perf(s *session, p *aggregate.Part, l *gpuflight.Line) error {
	decode, kind := f.events.Perf, "range"
	if l.Type == gpuflight.KernelPerfMetricEvent {
		decode, kind = f.events.KernelPerf, "kernel"
	}
	e, err := decode(l.Raw)
	if err != nil {
		return err
	}
	s.Delta.SawEvent(e.StartNS)
	t, h := &table.PerfMetrics, &f.perfHead
	b := f.rawHead(h, s, p, t.Table, t.Head)
	if b == nil {
		return nil
	}
	t.StartedAt.Append(b, e.StartNS)
	t.EndedAt.Append(b, e.EndNS)
	t.Kind.AppendString(b, kind)
	h.append(0, t.Name, e.Name)
	h.append(1, t.KernelName, e.KernelName)
	t.LaunchOrdinal.Append(b, e.LaunchOrdinal)
	t.RangeIndex.Append(b, e.RangeIndex)
	t.DeviceID.Append(b, e.DeviceID)
	t.SMThroughputPct.Append(b, e.SMThroughputPct)
	t.L1HitRatePct.Append(b, e.L1HitRatePct)
	t.L2HitRatePct.Append(b, e.L2HitRatePct)
	t.DRAMReadBytes.Append(b, e.DRAMReadBytes)
	t.DRAMWriteBytes.Append(b, e.DRAMWriteBytes)
	t.TensorActivePct.Append(b, e.TensorActivePct)
	t.AchievedOccupancyPct.Append(b, e.AchievedOccupancyPct)
	t.SharedLoadConflicts.Append(b, e.SharedLoadConflicts)
	t.SharedStoreConflicts.Append(b, e.SharedStoreConflicts)
	t.SharedConflicts.Append(b, e.SharedConflicts)
	t.SharedWavefronts.Append(b, e.SharedWavefronts)
	t.ConflictOverheadPct.Append(b, e.SharedConflictOverheadPct)
	t.SharedConflictNway.Append(b, e.SharedConflictNway)
	h.append(2, t.Scope, scopePath(e.UserScope))
	t.ScopeDepth.Append(b, e.ScopeDepth)
	t.PID.Append(b, e.PID)
	h.append(3, t.App, e.App)
	t.ReceivedAt.Append(b, p.Env.ReceivedAt)
	return nil
}

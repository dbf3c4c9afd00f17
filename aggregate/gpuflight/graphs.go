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
	f.nodeRow = table.GraphNodeRow{
		HeadRow:         s.Head(),
		GraphExecKey:    e.ExecKey,
		NodeIndex:       e.NodeIndex,
		NodeType:        e.NodeType,
		DependencyCount: e.Dependencies,
		ReceivedDay:     rows.DayOf(p.Env.ReceivedAt),
	}
	table.GraphNodes.Append(f.Facts(p, table.GraphNodes.Table), &f.nodeRow)
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
	if s.NoRaw {
		return nil
	}
	f.perfRow = table.PerfMetricRow{
		HeadRow:              s.Head(),
		StartedAt:            e.StartNS,
		EndedAt:              e.EndNS,
		Kind:                 kind,
		Name:                 e.Name,
		KernelName:           e.KernelName,
		LaunchOrdinal:        e.LaunchOrdinal,
		RangeIndex:           e.RangeIndex,
		DeviceID:             e.DeviceID,
		SMThroughputPct:      e.SMThroughputPct,
		L1HitRatePct:         e.L1HitRatePct,
		L2HitRatePct:         e.L2HitRatePct,
		DRAMReadBytes:        e.DRAMReadBytes,
		DRAMWriteBytes:       e.DRAMWriteBytes,
		TensorActivePct:      e.TensorActivePct,
		AchievedOccupancyPct: e.AchievedOccupancyPct,
		SharedLoadConflicts:  e.SharedLoadConflicts,
		SharedStoreConflicts: e.SharedStoreConflicts,
		SharedConflicts:      e.SharedConflicts,
		SharedWavefronts:     e.SharedWavefronts,
		ConflictOverheadPct:  e.SharedConflictOverheadPct,
		SharedConflictNway:   e.SharedConflictNway,
		Scope:                scopePath(e.UserScope),
		ScopeDepth:           e.ScopeDepth,
		PID:                  e.PID,
		App:                  e.App,
		ReceivedAt:           p.Env.ReceivedAt,
	}
	table.PerfMetrics.Append(f.Out.Batch(table.PerfMetrics.Table, p.Raw), &f.perfRow)
	f.Out.Saw(p.Env.ReceivedAt)
	return nil
}

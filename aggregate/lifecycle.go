package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// complete folds the client's session-complete. It does not say how the session ended, and may come before the last windows.
func (f *Fold) complete(p *Part) {
	p.Session.Completed = true
	f.End(p, SessionEnd{Rank: table.EndComplete, At: p.Env.ReceivedAt})
}

// flushSession writes what the open chunk adds to the session's row.
func (f *Fold) flushSession(s *Session) {
	d := &s.Delta
	t := &table.Sessions
	b := f.Out.Batch(t.Table, s.FactPartition())
	segment := int32(-1)
	if d.HasSegment {
		segment = d.Segment
	}
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.Source.AppendString(b, s.source)
	t.App.AppendString(b, s.App)
	t.Host.AppendString(b, s.Host)
	t.IP.AppendString(b, s.IP)
	t.PID.Append(b, s.PID)
	t.StartedAt.Append(b, rows.OrUnknown(d.startedAt))
	t.FirstEventAt.Append(b, rows.OrUnknown(d.firstEvent))
	t.LastEventAt.Append(b, d.lastEvent)
	t.LastReceivedAt.Append(b, s.LastReceived)
	t.EndedAt.Append(b, d.endedAt)
	t.EndReason.AppendString(b, d.endReason)
	t.Completed.Append(b, rows.Flag(s.Completed || s.Shutdown))
	t.Crashed.Append(b, rows.Flag(d.Crashed))
	t.RunID.AppendString(b, d.RunID)
	t.SegmentIndex.Append(b, segment)
	t.SessionKind.AppendString(b, d.Kind)
	t.ProfilingEngine.AppendString(b, d.Engine)
	t.Vendor.AppendString(b, s.Vendor)
	t.ClockOffsetNS.Append(b, uint64(s.Clock.Offset))
	t.SystemRateMS.Append(b, s.Clock.SampleMS)
	t.Devices.Append(b, uint32(len(s.DeviceIDs)))
	t.Kernels.Append(b, d.Kernels)
	t.Samples.Append(b, d.Samples)
	t.Events.Append(b, d.events)
	t.Bytes.Append(b, d.bytes)
	t.Rejects.Append(b, d.Rejects)
	t.ReceivedDay.Append(b, s.ReceivedDay())
	s.Delta = sessionDelta{}
}

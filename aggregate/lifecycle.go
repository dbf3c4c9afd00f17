package aggregate

import (
	"github.com/warpline/warpline/sink/table"
)

// complete folds the client's session-complete. It does not say how the session ended, and may come before the last windows.
func (f *folder) complete(p *part) {
	p.s.completed = true
	f.end(p, sessionEnd{rank: table.EndComplete, at: p.env.ReceivedAt})
}

// flushSession writes what the open chunk adds to the session's row.
func (f *folder) flushSession(s *session) {
	d := &s.delta
	t := &table.Sessions
	b := f.out.batch(t.Table, s.factPartition())
	segment := int32(-1)
	if d.hasSegment {
		segment = d.segment
	}
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.Source.AppendString(b, s.source)
	t.App.AppendString(b, s.app)
	t.Host.AppendString(b, s.host)
	t.IP.AppendString(b, s.ip)
	t.PID.Append(b, s.pid)
	t.StartedAt.Append(b, orUnknown(d.startedAt))
	t.FirstEventAt.Append(b, orUnknown(d.firstEvent))
	t.LastEventAt.Append(b, d.lastEvent)
	t.LastReceivedAt.Append(b, s.lastReceived)
	t.EndedAt.Append(b, d.endedAt)
	t.EndReason.AppendString(b, d.endReason)
	t.Completed.Append(b, flag(s.completed || s.shutdown))
	t.Crashed.Append(b, flag(d.crashed))
	t.RunID.AppendString(b, d.runID)
	t.SegmentIndex.Append(b, segment)
	t.SessionKind.AppendString(b, d.kind)
	t.ProfilingEngine.AppendString(b, d.engine)
	t.Vendor.AppendString(b, s.vendor)
	t.ClockOffsetNS.Append(b, uint64(s.clock.offset))
	t.SystemRateMS.Append(b, s.clock.sampleMS)
	t.Devices.Append(b, uint32(len(s.deviceIDs)))
	t.Kernels.Append(b, d.kernels)
	t.Samples.Append(b, d.samples)
	t.Events.Append(b, d.events)
	t.Bytes.Append(b, d.bytes)
	t.Rejects.Append(b, d.rejects)
	t.ReceivedDay.Append(b, s.receivedDay())
	s.delta = sessionDelta{}
}

func orUnknown(ns int64) int64 {
	if ns <= 0 {
		return table.UnknownTime
	}
	return ns
}

func flag(v bool) uint8 {
	if v {
		return 1
	}
	return 0
}

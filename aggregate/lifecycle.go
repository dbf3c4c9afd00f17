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
	segment := int32(-1)
	if d.HasSegment {
		segment = d.Segment
	}
	table.Sessions.Append(f.Out.Batch(table.Sessions.Table, s.FactPartition()), &table.SessionRow{
		HeadRow:         s.Head(),
		Source:          s.source,
		App:             s.App,
		Host:            s.Host,
		IP:              s.IP,
		PID:             s.PID,
		StartedAt:       rows.OrUnknown(d.startedAt),
		FirstEventAt:    rows.OrUnknown(d.firstEvent),
		LastEventAt:     d.lastEvent,
		LastReceivedAt:  s.LastReceived,
		EndedAt:         d.endedAt,
		EndReason:       d.endReason,
		Completed:       rows.Flag(s.Completed || s.Shutdown),
		Crashed:         rows.Flag(d.Crashed),
		RunID:           d.RunID,
		SegmentIndex:    segment,
		SessionKind:     d.Kind,
		ProfilingEngine: d.Engine,
		Vendor:          s.Vendor,
		ClockOffsetNS:   uint64(s.Clock.Offset),
		SystemRateMS:    s.Clock.SampleMS,
		Devices:         uint32(len(s.DeviceIDs)),
		Kernels:         d.Kernels,
		Samples:         d.Samples,
		Events:          d.events,
		Bytes:           d.bytes,
		Rejects:         d.Rejects,
		Place:           s.Place,
		WorldSize:       s.WorldSize,
		ReceivedDay:     s.ReceivedDay(),
	})
	s.Delta = sessionDelta{}
}

// Head is how a row of the session begins.
func (s *Session) Head() table.HeadRow {
	return table.HeadRow{Tenant: s.Key.Tenant, SessionID: s.Key.ID}
}

// Facts returns the batch of a Fact table for rows of this part.
func (f *Fold) Facts(p *Part, t *table.Table) *table.Batch {
	return f.Out.Batch(t, rows.FactDayPartition(p.Env.ReceivedAt, p.Env.RollupDays))
}

package aggregate

import "github.com/warpline/warpline/sink/table"

// sessionEnd is one telling of a session's end.
type sessionEnd struct {
	rank             uint8
	at               int64
	synthetic        bool
	exitCode, signal int64
	windowStopped    bool
}

// endReasons names the ranks in sessions_data, where versions before session_ends_data looked for them.
var endReasons = [...]string{
	table.EndComplete: "session-complete", table.EndSegment: "segment_end", table.EndShutdown: "shutdown", table.EndCrash: "shutdown", table.EndRun: "run_end",
}

// end writes that the session has ended: nothing of it waits for more.
func (f *folder) end(p *part, e sessionEnd) {
	s := p.s
	s.delta.endedAt, s.delta.endReason = max(s.delta.endedAt, e.at), max(s.delta.endReason, endReasons[e.rank])
	f.closing[s] = struct{}{}
	f.tell(p, e)
}

// tell writes what is said of the session's end. Much may be said, in any order and often; what says most counts, and that is found when
// it is read (table.SessionEnds), so that nothing has to be remembered of a session for it.
func (f *folder) tell(p *part, e sessionEnd) {
	t := &table.SessionEnds
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	t.Tenant.AppendString(b, p.s.key.tenant)
	t.SessionID.AppendString(b, p.s.key.id)
	t.Rank.Append(b, e.rank)
	t.At.Append(b, max(e.at, 0))
	t.Synthetic.Append(b, flag(e.synthetic))
	t.ExitCode.Append(b, e.exitCode)
	t.Signal.Append(b, int32(min(max(e.signal, -1<<31), 1<<31-1)))
	t.WindowStopped.Append(b, flag(e.windowStopped))
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// SessionEnd is one telling of a session's end.
type SessionEnd struct {
	Rank             uint8
	At               int64
	Synthetic        bool
	ExitCode, Signal int64
	WindowStopped    bool
}

// endReasons names the ranks in sessions_data, where versions before session_ends_data looked for them.
var endReasons = [...]string{
	table.EndComplete: "session-complete", table.EndSegment: "segment_end", table.EndShutdown: "shutdown", table.EndCrash: "shutdown",
	table.EndRun: "run_end",
}

// End writes that the session has ended: nothing of it waits for more.
func (f *Fold) End(p *Part, e SessionEnd) {
	s := p.Session
	s.Delta.endedAt, s.Delta.endReason = max(s.Delta.endedAt, e.At), max(s.Delta.endReason, endReasons[e.Rank])
	f.closing[s] = struct{}{}
	f.Tell(p, e)
}

// Tell writes what is said of the session's end. Much may be said, in any order and often; what says most counts, and that is found when
// it is read (table.SessionEnds), so that nothing has to be remembered of a session for it.
func (f *Fold) Tell(p *Part, e SessionEnd) {
	table.SessionEnds.Append(f.Facts(p, table.SessionEnds.Table), &table.SessionEndRow{
		HeadRow:       p.Session.Head(),
		Rank:          e.Rank,
		At:            max(e.At, 0),
		Synthetic:     rows.Flag(e.Synthetic),
		ExitCode:      e.ExitCode,
		Signal:        int32(min(max(e.Signal, -1<<31), 1<<31-1)),
		WindowStopped: rows.Flag(e.WindowStopped),
		ReceivedDay:   rows.DayOf(p.Env.ReceivedAt),
	})
}

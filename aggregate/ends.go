package aggregate

import (
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/sink/table"
)

// SessionEnd is one report of a session's end.
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

// End writes that the session has ended: what waits for more of it need not wait any longer.
func (f *Fold) End(p *Part, e SessionEnd) {
	s := p.Session
	s.Delta.endedAt, s.Delta.endReason = max(s.Delta.endedAt, e.At), max(s.Delta.endReason, endReasons[e.Rank])
	f.closing[s] = struct{}{}
	f.Tell(p, e)
}

// Tell writes a report of the session's end. There may be many, in any order and several times the same; the one that says most counts. It
// is found when the table is read (table.SessionEnds), so the state need not remember anything for it.
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

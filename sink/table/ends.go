package table

import (
	"fmt"
	"strings"
)

// What kind of report of a session's end a row is: session_ends_data.rank. The numbers are stored; their weight is in endings.
const (
	EndUnknown     uint8 = 0
	EndComplete    uint8 = 1 // session-complete: the client has sent what it has, which does not say how the session ended
	EndSegment     uint8 = 2
	EndShutdown    uint8 = 3
	EndCrash       uint8 = 4
	EndRun         uint8 = 5 // run_end
	EndRunning     uint8 = 6 // a tracker's summary
	EndIncomplete  uint8 = 7
	EndStopped     uint8 = 8 // an event of type stop, in records without a summary
	EndInterrupted uint8 = 9
	EndCompleted   uint8 = 10
)

// endings are the kinds of reports, the one that says least first. Of several reports of a session the one that is last here counts, and of
// equal kinds the latest. So the result does not depend on the order in which they came. When the state is ” it depends on how long the
// session has been silent. When a session is complete and no line reports its end, the client died; lines that come later may still report
// it.
var endings = []struct {
	rank   uint8
	report string // session_ends.end_reason
	reason string // sessions.end_reason
	state  string
}{
	{EndRunning, "running", "", ""},
	{EndIncomplete, "incomplete", "incomplete", "crashed"},
	{EndStopped, "stop", "stop", "complete"},
	{EndInterrupted, "interrupted", "interrupted", "crashed"},
	{EndCompleted, "completed", "completed", "complete"},
	{EndComplete, "session-complete", "no_shutdown", "crashed"},
	{EndRun, "run_end", "run_end", "complete"},
	{EndSegment, "segment_end", "segment_end", "complete"},
	{EndShutdown, "shutdown", "shutdown", "complete"},
	{EndCrash, "crashed", "crashed", "crashed"},
}

// endWeightSQL is the place of a rank in endings, from 1; 0 for a rank that a newer program wrote.
func endWeightSQL(rank string) string {
	ranks := make([]string, len(endings))
	for i, e := range endings {
		ranks[i] = fmt.Sprint(e.rank)
	}
	return fmt.Sprintf("indexOf([%s], %s)", strings.Join(ranks, ", "), rank)
}

// endSQL is one column of endings for a place in it: report, reason or state.
func endSQL(column, weight string) string {
	texts := make([]string, len(endings))
	for i, e := range endings {
		texts[i] = Quote(map[string]string{"report": e.report, "reason": e.reason, "state": e.state}[column])
	}
	return fmt.Sprintf("[%s][%s]", strings.Join(texts, ", "), weight)
}

// SessionEndRow is a row of SessionEnds.
type SessionEndRow struct {
	HeadRow
	Rank          uint8
	At            int64
	Synthetic     uint8
	ExitCode      int64
	Signal        int32
	WindowStopped uint8
	ReceivedDay   int32
}

// SessionEnds holds the reports of each session's end: one row for each report, in any order, and for a report that is repeated several
// rows.
var SessionEnds = DefineRows(Define("session_ends_data", Fact, "tenant, session_id").Few(),
	func(c *Binder[SessionEndRow], r *SessionEndRow) {
		c.Head(&r.HeadRow)
		c.U8("rank", &r.Rank, Note("who says so: 1 session-complete, 2 segment_end, 3 shutdown, 4 crashed, 5 run_end, 6 to 10 a tracker: "+
			"running, incomplete, stop, interrupted, completed"))
		c.Time("at", &r.At)
		c.U8("synthetic", &r.Synthetic, Note("1 when the launcher wrote it for a process that could not"))
		c.I64("exit_code", &r.ExitCode)
		c.I32("signal", &r.Signal, Note("0 none"))
		c.U8("window_stopped", &r.WindowStopped)
		c.FactTail(&r.ReceivedDay)
	})

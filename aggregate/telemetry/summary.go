package telemetry

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/sink/table"
)

// statusRanks are the ranks of the ends that a tracker's statuses report.
var statusRanks = map[string]uint8{
	"running": table.EndRunning, "incomplete": table.EndIncomplete, "interrupted": table.EndInterrupted, "completed": table.EndCompleted,
}

// summary folds what a tracker says of its session as a whole. A session of which nothing else is known is stored all the same.
func (f *folding) summary(p *aggregate.Part, body []byte) {
	sum, err := telemetry.ParseSummary(body)
	rank := uint8(table.EndUnknown)
	if err == nil {
		rank = statusRanks[sum.Status]
	}
	if rank == table.EndUnknown {
		p.Received(1)
		f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonBadJSON, Detail: "a session's summary that this version cannot read: upgrade the " +
			"workers", Events: 1, Payload: body})
		return
	}
	p.Session.Delta.Began(sum.StartedAtNS)
	at := sum.EndedAtNS
	if rank == table.EndRunning {
		at = 0 // it has not ended, whatever else it says
	}
	f.Tell(p, aggregate.SessionEnd{Rank: rank, At: at})
}

// stopEvent is the last event of a part that says that tracking stopped. Without a summary it ends a session. Events that were counted
// before are looked at too: they may have come in a document whose summary said something else.
type stopEvent struct {
	seen bool
	at   int64
}

func (v *stopEvent) saw(e *telemetry.Event) {
	if string(e.EventType) == "stop" {
		v.seen, v.at = true, max(v.at, e.TimestampNS)
	}
}

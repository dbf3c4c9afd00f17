package aggregate

import (
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// A segmented run is many sessions, and which come, and in what order, nobody knows. So a session tells only what it knows itself; the
// view `runs` puts sessions together.

// segmentRow is what one line adds to a session's row of `segments`; what it leaves zero it does not say.
type segmentRow struct {
	run, chain, previousRun, previousSession string
	index, part                              int64
	startedAt, startBoundary, startDelay     int64
	startDeferred                            string
	endedAt, boundary, delay, outside        int64
	reason, deferred                         string
	synthetic                                bool
}

// jobRun folds what a job_start says of its run. A session without a run id is in no run.
func (f *folder) jobRun(s *session, p *part, job *gpuflight.Job) {
	if job.RunID == "" {
		return
	}
	f.segment(s, p, &segmentRow{run: job.RunID, index: job.SegmentIndex, chain: job.RollChainID, part: job.PartIndex, previousRun: job.PreviousRunID})
}

// segmentStart folds a segment_start line.
func (f *folder) segmentStart(s *session, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.ActualStartNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, previousSession: d.PreviousSessionID, startedAt: d.ActualStartNS, startBoundary: d.RequestedBoundaryNS,
		startDelay: d.BoundaryDelayNS, startDeferred: d.DeferredBy,
	})
}

// segmentEnd folds a segment_end line, which ends the session too: the run goes on in another one.
func (f *folder) segmentEnd(s *session, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.ActualEndNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, endedAt: d.ActualEndNS, boundary: d.RequestedBoundaryNS, delay: d.BoundaryDelayNS, outside: d.RecordsOutside,
		reason: d.EndReason, deferred: d.DeferredBy, synthetic: d.Synthetic,
	})
	s.completed = true
	f.end(s, p, sessionEnd{rank: table.EndSegment, at: d.ActualEndNS, synthetic: d.Synthetic})
}

// runEnd folds a run_end line, which ends the session that brings it too. That session is in the run, whatever else comes of it.
func (f *folder) runEnd(s *session, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeRunEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	f.stored(s, p, 1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.EndedNS)
	f.segment(s, p, &segmentRow{run: d.RunID, index: -1})
	s.completed = true
	f.end(s, p, sessionEnd{rank: table.EndRun, at: d.EndedNS, synthetic: d.Synthetic})
	gpuflighttable.RunEnds.Append(f.facts(p, gpuflighttable.RunEnds.Table), &gpuflighttable.RunEndRow{
		HeadRow:             s.head(),
		RunID:               clip(d.RunID),
		FinalSegmentIndex:   segmentIndex(d.FinalSegmentIndex),
		EndedAt:             max(d.EndedNS, 0),
		EndReason:           clip(d.EndReason),
		RolloverReason:      clip(d.RolloverReason),
		RequestedRolloverAt: max(d.RequestedRolloverNS, 0),
		ActualRolloverAt:    max(d.ActualRolloverNS, 0),
		Synthetic:           flag(d.Synthetic),
		ReceivedDay:         dayOf(p.env.ReceivedAt),
	})
}

// segment writes what a line says of the session's segment.
func (f *folder) segment(s *session, p *part, r *segmentRow) {
	table.Segments.Append(f.facts(p, table.Segments.Table), &table.SegmentRow{
		HeadRow:                  s.head(),
		RunID:                    clip(r.run),
		SegmentIndex:             segmentIndex(r.index),
		RollChainID:              clip(r.chain),
		PartIndex:                clampU32(r.part),
		PreviousRunID:            clip(r.previousRun),
		PreviousSessionID:        clip(r.previousSession),
		StartedAt:                max(r.startedAt, 0),
		StartRequestedBoundaryAt: max(r.startBoundary, 0),
		StartBoundaryDelayNS:     notNegative(r.startDelay),
		StartDeferredBy:          clip(r.startDeferred),
		EndedAt:                  max(r.endedAt, 0),
		RequestedBoundaryAt:      max(r.boundary, 0),
		BoundaryDelayNS:          notNegative(r.delay),
		EndReason:                clip(r.reason),
		DeferredBy:               clip(r.deferred),
		RecordsOutside:           notNegative(r.outside),
		Synthetic:                flag(r.synthetic),
		ReceivedDay:              dayOf(p.env.ReceivedAt),
	})
}

// segmentIndex bounds an index; what is below 0 is not known.
func segmentIndex(i int64) int32 { return int32(min(max(i, -1), 1<<30)) }

func notNegative(v int64) uint64 { return uint64(max(v, 0)) }

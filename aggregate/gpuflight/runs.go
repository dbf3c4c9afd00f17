package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
	gpuflighttable "github.com/warpline/warpline/sink/table/gpuflight"
)

// A segmented run is many sessions. It is not known which of them come, and in what order. So each session stores only what it knows
// itself; the view `runs` puts the sessions together.

// segmentRow is what one line adds to a session's row of `segments`; fields that the line does not say are zero.
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
func (f *folding) jobRun(s *session, p *aggregate.Part, job *gpuflight.Job) {
	if job.RunID == "" {
		return
	}
	f.segment(s, p, &segmentRow{run: job.RunID, index: job.SegmentIndex, chain: job.RollChainID, part: job.PartIndex,
		previousRun: job.PreviousRunID})
}

// segmentStart folds a segment_start line.
func (f *folding) segmentStart(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.ActualStartNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, previousSession: d.PreviousSessionID, startedAt: d.ActualStartNS,
		startBoundary: d.RequestedBoundaryNS,
		startDelay:    d.BoundaryDelayNS, startDeferred: d.DeferredBy,
	})
}

// segmentEnd folds a segment_end line, which ends the session too: the run goes on in another one.
func (f *folding) segmentEnd(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.ActualEndNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, endedAt: d.ActualEndNS, boundary: d.RequestedBoundaryNS, delay: d.BoundaryDelayNS,
		outside: d.RecordsOutside,
		reason:  d.EndReason, deferred: d.DeferredBy, synthetic: d.Synthetic,
	})
	s.Completed = true
	f.End(p, aggregate.SessionEnd{Rank: table.EndSegment, At: d.ActualEndNS, Synthetic: d.Synthetic})
}

// runEnd folds a run_end line, which ends the session that brings it too. That session is in the run, whatever else comes from it.
func (f *folding) runEnd(s *session, p *aggregate.Part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeRunEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.Stored(1)
	f.leftovers(s, p, l)
	s.Delta.SawEvent(d.EndedNS)
	f.segment(s, p, &segmentRow{run: d.RunID, index: -1})
	s.Completed = true
	f.End(p, aggregate.SessionEnd{Rank: table.EndRun, At: d.EndedNS, Synthetic: d.Synthetic})
	gpuflighttable.RunEnds.Append(f.Facts(p, gpuflighttable.RunEnds.Table), &gpuflighttable.RunEndRow{
		HeadRow:             s.Head(),
		RunID:               rows.Clip(d.RunID),
		FinalSegmentIndex:   segmentIndex(d.FinalSegmentIndex),
		EndedAt:             max(d.EndedNS, 0),
		EndReason:           rows.Clip(d.EndReason),
		RolloverReason:      rows.Clip(d.RolloverReason),
		RequestedRolloverAt: max(d.RequestedRolloverNS, 0),
		ActualRolloverAt:    max(d.ActualRolloverNS, 0),
		Synthetic:           rows.Flag(d.Synthetic),
		ReceivedDay:         rows.DayOf(p.Env.ReceivedAt),
	})
}

// segment writes what a line says of the session's segment.
func (f *folding) segment(s *session, p *aggregate.Part, r *segmentRow) {
	table.Segments.Append(f.Facts(p, table.Segments.Table), &table.SegmentRow{
		HeadRow:                  s.Head(),
		RunID:                    rows.Clip(r.run),
		SegmentIndex:             segmentIndex(r.index),
		RollChainID:              rows.Clip(r.chain),
		PartIndex:                rows.ClampU32(r.part),
		PreviousRunID:            rows.Clip(r.previousRun),
		PreviousSessionID:        rows.Clip(r.previousSession),
		StartedAt:                max(r.startedAt, 0),
		StartRequestedBoundaryAt: max(r.startBoundary, 0),
		StartBoundaryDelayNS:     rows.NotNegative(r.startDelay),
		StartDeferredBy:          rows.Clip(r.startDeferred),
		EndedAt:                  max(r.endedAt, 0),
		RequestedBoundaryAt:      max(r.boundary, 0),
		BoundaryDelayNS:          rows.NotNegative(r.delay),
		EndReason:                rows.Clip(r.reason),
		DeferredBy:               rows.Clip(r.deferred),
		RecordsOutside:           rows.NotNegative(r.outside),
		Synthetic:                rows.Flag(r.synthetic),
		ReceivedDay:              rows.DayOf(p.Env.ReceivedAt),
	})
}

// segmentIndex bounds an index; what is below 0 is not known.
func segmentIndex(i int64) int32 { return int32(min(max(i, -1), 1<<30)) }

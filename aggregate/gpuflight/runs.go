package gpuflight

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
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

// runEnd folds a run_end line, which ends the session that brings it too. That session is in the run, whatever else comes of it.
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
	t := &table.RunEnds
	b := f.Out.Batch(t.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.RunID.AppendString(b, rows.Clip(d.RunID))
	t.FinalSegmentIndex.Append(b, segmentIndex(d.FinalSegmentIndex))
	t.EndedAt.Append(b, max(d.EndedNS, 0))
	t.EndReason.AppendString(b, rows.Clip(d.EndReason))
	t.RolloverReason.AppendString(b, rows.Clip(d.RolloverReason))
	t.RequestedRolloverAt.Append(b, max(d.RequestedRolloverNS, 0))
	t.ActualRolloverAt.Append(b, max(d.ActualRolloverNS, 0))
	t.Synthetic.Append(b, rows.Flag(d.Synthetic))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
}

// segment writes what a line says of the session's segment.
func (f *folding) segment(s *session, p *aggregate.Part, r *segmentRow) {
	t := &table.Segments
	b := f.Out.Batch(t.Table, rows.FactPartition(p.Env.ReceivedAt, p.Env.RollupDays))
	t.Tenant.AppendString(b, s.Key.Tenant)
	t.SessionID.AppendString(b, s.Key.ID)
	t.RunID.AppendString(b, rows.Clip(r.run))
	t.SegmentIndex.Append(b, segmentIndex(r.index))
	t.RollChainID.AppendString(b, rows.Clip(r.chain))
	t.PartIndex.Append(b, rows.ClampU32(r.part))
	t.PreviousRunID.AppendString(b, rows.Clip(r.previousRun))
	t.PreviousSessionID.AppendString(b, rows.Clip(r.previousSession))
	t.StartedAt.Append(b, max(r.startedAt, 0))
	t.StartRequestedBoundaryAt.Append(b, max(r.startBoundary, 0))
	t.StartBoundaryDelayNS.Append(b, rows.NotNegative(r.startDelay))
	t.StartDeferredBy.AppendString(b, rows.Clip(r.startDeferred))
	t.EndedAt.Append(b, max(r.endedAt, 0))
	t.RequestedBoundaryAt.Append(b, max(r.boundary, 0))
	t.BoundaryDelayNS.Append(b, rows.NotNegative(r.delay))
	t.EndReason.AppendString(b, rows.Clip(r.reason))
	t.DeferredBy.AppendString(b, rows.Clip(r.deferred))
	t.RecordsOutside.Append(b, rows.NotNegative(r.outside))
	t.Synthetic.Append(b, rows.Flag(r.synthetic))
	t.ReceivedDay.Append(b, rows.DayOf(p.Env.ReceivedAt))
}

// segmentIndex bounds an index; what is below 0 is not known.
func segmentIndex(i int64) int32 { return int32(min(max(i, -1), 1<<30)) }

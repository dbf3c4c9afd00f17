package aggregate

import (
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
func (f *flight) jobRun(s *flightSession, p *part, job *gpuflight.Job) {
	if job.RunID == "" {
		return
	}
	f.segment(s, p, &segmentRow{run: job.RunID, index: job.SegmentIndex, chain: job.RollChainID, part: job.PartIndex, previousRun: job.PreviousRunID})
}

// segmentStart folds a segment_start line.
func (f *flight) segmentStart(s *flightSession, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentStart(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.ActualStartNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, previousSession: d.PreviousSessionID, startedAt: d.ActualStartNS, startBoundary: d.RequestedBoundaryNS,
		startDelay: d.BoundaryDelayNS, startDeferred: d.DeferredBy,
	})
}

// segmentEnd folds a segment_end line, which ends the session too: the run goes on in another one.
func (f *flight) segmentEnd(s *flightSession, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeSegmentEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.ActualEndNS)
	f.segment(s, p, &segmentRow{
		run: d.RunID, index: d.SegmentIndex, endedAt: d.ActualEndNS, boundary: d.RequestedBoundaryNS, delay: d.BoundaryDelayNS, outside: d.RecordsOutside,
		reason: d.EndReason, deferred: d.DeferredBy, synthetic: d.Synthetic,
	})
	s.completed = true
	f.end(p, sessionEnd{rank: table.EndSegment, at: d.ActualEndNS, synthetic: d.Synthetic})
}

// runEnd folds a run_end line, which ends the session that brings it too. That session is in the run, whatever else comes of it.
func (f *flight) runEnd(s *flightSession, p *part, l *gpuflight.Line) {
	d, err := gpuflight.DecodeRunEnd(l)
	if err != nil {
		f.refuse(s, p, l, err)
		return
	}
	p.stored(1)
	f.leftovers(s, p, l)
	s.delta.sawEvent(d.EndedNS)
	f.segment(s, p, &segmentRow{run: d.RunID, index: -1})
	s.completed = true
	f.end(p, sessionEnd{rank: table.EndRun, at: d.EndedNS, synthetic: d.Synthetic})
	t := &table.RunEnds
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.RunID.AppendString(b, clip(d.RunID))
	t.FinalSegmentIndex.Append(b, segmentIndex(d.FinalSegmentIndex))
	t.EndedAt.Append(b, max(d.EndedNS, 0))
	t.EndReason.AppendString(b, clip(d.EndReason))
	t.RolloverReason.AppendString(b, clip(d.RolloverReason))
	t.RequestedRolloverAt.Append(b, max(d.RequestedRolloverNS, 0))
	t.ActualRolloverAt.Append(b, max(d.ActualRolloverNS, 0))
	t.Synthetic.Append(b, flag(d.Synthetic))
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

// segment writes what a line says of the session's segment.
func (f *flight) segment(s *flightSession, p *part, r *segmentRow) {
	t := &table.Segments
	b := f.out.batch(t.Table, factPartition(p.env.ReceivedAt, p.env.RollupDays))
	t.Tenant.AppendString(b, s.key.tenant)
	t.SessionID.AppendString(b, s.key.id)
	t.RunID.AppendString(b, clip(r.run))
	t.SegmentIndex.Append(b, segmentIndex(r.index))
	t.RollChainID.AppendString(b, clip(r.chain))
	t.PartIndex.Append(b, clampU32(r.part))
	t.PreviousRunID.AppendString(b, clip(r.previousRun))
	t.PreviousSessionID.AppendString(b, clip(r.previousSession))
	t.StartedAt.Append(b, max(r.startedAt, 0))
	t.StartRequestedBoundaryAt.Append(b, max(r.startBoundary, 0))
	t.StartBoundaryDelayNS.Append(b, notNegative(r.startDelay))
	t.StartDeferredBy.AppendString(b, clip(r.startDeferred))
	t.EndedAt.Append(b, max(r.endedAt, 0))
	t.RequestedBoundaryAt.Append(b, max(r.boundary, 0))
	t.BoundaryDelayNS.Append(b, notNegative(r.delay))
	t.EndReason.AppendString(b, clip(r.reason))
	t.DeferredBy.AppendString(b, clip(r.deferred))
	t.RecordsOutside.Append(b, notNegative(r.outside))
	t.Synthetic.Append(b, flag(r.synthetic))
	t.ReceivedDay.Append(b, dayOf(p.env.ReceivedAt))
}

// segmentIndex bounds an index; what is below 0 is not known.
func segmentIndex(i int64) int32 { return int32(min(max(i, -1), 1<<30)) }

func notNegative(v int64) uint64 { return uint64(max(v, 0)) }

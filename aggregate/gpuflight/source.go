// Package gpuflight folds GPU Flight's lines: it joins kernels with their details, pairs scopes, and folds names, artifacts and all rare
// lines.
package gpuflight

import (
	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Source is GPU Flight, for aggregate.Config.Sources.
func Source() aggregate.Source {
	return aggregate.Source{Name: "gpuflight", Version: 1, Kinds: []stream.Kind{stream.KindGPUFlight}, Open: open}
}

// core is the partition's fold, which all sources share.
type core = aggregate.Fold

// folding folds the lines of a partition.
type folding struct {
	*core
	pool    activity.KernelPool
	decoder gpuflight.Decoder
	events  gpuflight.EventDecoder
	now     partScratch

	waitingSessions map[*session]struct{} // with rows or details that wait
	scoped          map[*session]struct{} // with ended scopes that are kept

	emitter       activity.KernelEmitter
	emitterSerial uint64

	memsetHead, markerHead, graphHead rowHead
	older                             olderScratch

	// The rows that are appended next: these tables may get thousands a part, and a row of their own would be allocated.
	nodeRow  table.GraphNodeRow
	perfRow  table.PerfMetricRow
	extraRow table.ExtraFieldRow
}

// partScratch is what is known of the part that is folded.
type partScratch struct {
	bodyHash            uint64 // of its body, 0 until it is needed
	bodyAsked, bodySeen bool   // see seenBody
	artifacts           partArtifacts
}

func open(f *aggregate.Fold) aggregate.Folding {
	return &folding{
		core: f, pool: activity.KernelPool{Fold: f}, decoder: gpuflight.Decoder{MaxLine: stream.MaxBodyBytes},
		waitingSessions: map[*session]struct{}{}, scoped: map[*session]struct{}{},
	}
}

// Bounds of what one session may hold in a worker's memory. Each says what happens beyond it.
const (
	// maxLines: 65 536 batches of 2 048 rows are 134 M rows; the oldest are forgotten first. 1 MiB of hashes.
	maxLines = 65536
	// maxWaiting bounds the kernels that wait for their kernel_detail; beyond it rows are written without one (the detail is joined at
	// read).
	maxWaiting = 16384
	// maxEarly bounds the details that wait for their kernel row; beyond it they are written to kernel_details.
	maxEarly = 16384
	// maxConfigs bounds the launch configurations that are remembered; beyond it they are forgotten and written again under new ids.
	maxConfigs = 65536
)

// session is what is kept of a session.
type session struct {
	*aggregate.Session
	f  *folding
	id []byte // its id, for comparing with wire bytes

	lines, singles state.Recent    // singles: lines that identify themselves
	details        *roaring.Bitmap // corr ids whose kernel_detail was folded
	freshDetails   []uint32

	configs      map[xxh3.Uint128]launchConfig
	configByID   map[uint32]int32 // scope of each
	freshConfigs []xxh3.Uint128

	waiting    waiting
	early      map[uint32]earlyDetail // by corr id
	unwritten  int                    // of early
	earlyDirty bool
	scopes     openScopes

	artifactRows uint64 // instructions and source lines written

	kernels activity.Kernels
	minutes activity.Minutes

	// Of the open chunk.
	scopeAcc map[scopeAccKey]*scopeAcc
	profile  activity.Samples
	metrics  activity.Metrics
}

// New makes what is kept of a session.
func (f *folding) New(s *aggregate.Session) aggregate.State {
	own := &session{
		Session: s, f: f, id: []byte(s.Key.ID), lines: state.Recent{Limit: maxLines}, singles: state.Recent{Limit: maxSingles},
		details: roaring.New(),
	}
	own.kernels.Begin(s, &f.pool)
	return own
}

// Fold folds the lines of a part.
func (f *folding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	f.now = partScratch{}
	f.lines(s.(*session), p, body)
}

// Tick gives up on halves that have waited long enough.
func (f *folding) Tick(now int64) {
	for _, s := range aggregate.SortedSessions(f.waitingSessions) {
		f.expireWaiting(s, now)
		if s.waiting.live == 0 && s.unwritten == 0 {
			delete(f.waitingSessions, s) // early details that are written wait for nothing but their kernel
		}
	}
	f.expireScopes(now)
	f.pool.Trim(now)
}

// Flush makes the rows of what the open chunk has added up.
func (s *session) Flush(all bool) {
	s.f.flushScopeStats(s)
	s.profile.Flush(s.f.core, s.Session)
	s.metrics.Flush(s.f.core, s.Session)
	if all {
		s.kernels.Flush()
	}
	if all || s.minutes.Count() > activity.MaxMinutes {
		s.minutes.Flush(s.f.core, s.Session)
	}
}

// Dense reports whether the rollups of kernels are worth their rows.
func (s *session) Dense() bool { return s.kernels.Dense() }

// Published says that what has changed is part of the log.
func (s *session) Published() {
	s.lines.Published()
	s.singles.Published()
	s.freshDetails, s.freshConfigs = s.freshDetails[:0], s.freshConfigs[:0]
	s.waiting.dirty, s.earlyDirty = false, false
	s.minutes.Published()
	s.scopes.published()
	s.kernels.Published()
}

// Resume goes on after a takeover.
func (s *session) Resume(now int64, anew bool) {
	if now != 0 {
		for i := range s.waiting.rows {
			s.waiting.rows[i].heldAt = now
		}
		for corr, d := range s.early {
			d.heldAt = now
			s.early[corr] = d
		}
	}
	if s.waiting.live > 0 || len(s.early) > 0 {
		s.f.waitingSessions[s] = struct{}{}
	}
	s.f.resumeScopes(s, now)
	s.kernels.ForgetLaunches()
	if anew { // the ids equal those of the first fold only if both began at the same place
		s.configs, s.configByID = nil, nil
	}
}

// What each thing that waits takes in memory.
const (
	waitingBytes   = 128
	earlyBytes     = 56
	halfBytes      = 160
	keptScopeBytes = 64
)

// Load says what is kept.
func (s *session) Load() aggregate.Load {
	k := &s.scopes.kept
	return aggregate.Load{
		Rollups: s.kernels.Held(), Index: s.kernels.IndexBytes(),
		Waiting: waitingBytes*s.waiting.live + earlyBytes*len(s.early) + halfBytes*s.scopes.halves.count + keptScopeBytes*int(k.tail()-k.head),
		Waits:   s.waiting.live > 0, Unsaid: s.scopes.pending(), Alone: s.unwritten > 0,
	}
}

// Rest gives memory back.
func (s *session) Rest(silent bool) {
	s.kernels.Rest()
	if s.waiting.live == 0 {
		s.waiting = waiting{dirty: s.waiting.dirty}
	}
	s.scopeAcc, s.profile, s.metrics = nil, activity.Samples{}, activity.Metrics{}
	if silent {
		s.lines.Shorten()
		s.singles.Shorten()
		s.details.RunOptimize()
	}
}

// Drop forgets all.
func (s *session) Drop() {
	s.kernels.Drop()
	delete(s.f.waitingSessions, s)
	delete(s.f.scoped, s) // otherwise its scopes would write rows when their time comes
}

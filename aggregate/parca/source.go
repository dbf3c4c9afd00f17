// Package parca folds what Parca's agent sends of GPUs: program counter samples, kernels, labels of processes, and cubins.
package parca

import (
	"slices"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/stream"
)

// Reasons of rejects that only this source has.
const (
	reasonNotGPU       = parca.ReasonNotGPU
	reasonMergedCounts = parca.ReasonMergedCounts
)

// resends is for how long folded parts are remembered: the agent gives a batch up after 5 minutes, and gateways' clocks may differ.
const resends = 20 * time.Minute

// stateVersion is what is in the section of a session.
const stateVersion = 1

// Source is what Parca's agent sends, for aggregate.Config.Sources.
func Source() aggregate.Source {
	return aggregate.Source{
		Name: parca.SourceName, Version: stateVersion, Kinds: []stream.Kind{stream.KindParca, stream.KindCubin}, Resends: resends,
		Reasons: []string{reasonNotGPU, reasonMergedCounts}, Open: open,
	}
}

// shared is the partition's fold, which all sources share.
type shared = aggregate.Fold

// folding folds the parts of a partition.
type folding struct {
	*shared
	pool      activity.KernelPool
	in        parca.Part // of the part that is folded now
	decode    func(*parca.Part, []byte) error
	now       partTexts // likewise
	buckets   []*bucketSums
	cubins    []*cubinSums
	stacks    []*stackSums
	demangled demangler
	refusing  map[*session]struct{} // with refusals that are not written yet
	lookedAt  int64                 // when they were looked through, owner's clock
	trimmedAt int64                 // likewise buckets, cubins and stacks
	sessions  uint32                // serial number of the last session
}

func open(f *aggregate.Fold) aggregate.Folding {
	return &folding{shared: f, decode: (*parca.Part).Decode, pool: activity.KernelPool{Fold: f}, refusing: map[*session]struct{}{}}
}

// session is what is kept of a session. A session of samples never ends, so everything in it is bounded: see seen.
type session struct {
	*aggregate.Session
	f       *folding
	serial  uint32 // no other session of the partition has had it
	kernels activity.Kernels
	names   seen              // of kernels, with their ids
	written seen              // launch stacks whose frames are written
	lastID  uint32            // the last id that names has; see Resume
	held    map[uint32]string // names by id that rows of kernel_stats will need
	fresh   []uint32          // ids of held that are not in a published state change yet
	flushed bool              // in the open chunk: held was emptied
	labels  labels
	refused refusals
}

// New makes what is kept of a session.
func (f *folding) New(s *aggregate.Session) aggregate.State {
	f.sessions++
	own := &session{Session: s, f: f, serial: f.sessions, lastID: s.NextConfig}
	own.kernels.Begin(s, &f.pool)
	own.kernels.NamedBy(own.heldName)
	return own
}

// Fold folds rows of a batch, or a cubin.
func (f *folding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	own := s.(*session)
	if p.Env.Kind == stream.KindCubin {
		f.cubin(own, p, body)
		return
	}
	if err := f.decode(&f.in, body); err != nil {
		p.Received(p.Env.Events)
		f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonBadValue, Detail: "a part that this version cannot read: " + err.Error(),
			Events: p.Env.Events, Payload: body})
		return
	}
	f.part(own, p, &f.in)
}

// Tick writes refusals that have waited for a minute, and frees what was not used for some seconds.
func (f *folding) Tick(now int64) {
	f.pool.Trim(now)
	if now-f.trimmedAt >= trimEvery {
		f.trimmedAt = now
		f.buckets = slices.DeleteFunc(f.buckets, func(s *bucketSums) bool { return s.unused() })
		f.cubins = slices.DeleteFunc(f.cubins, func(s *cubinSums) bool { return s.unused() })
		f.stacks = slices.DeleteFunc(f.stacks, func(s *stackSums) bool { return s.unused() })
	}
	if now-f.lookedAt >= int64(time.Second) {
		f.lookedAt = now
		f.tellRefused(now)
	}
}

// trimEvery is how often it is looked for sums that nobody uses, in nanoseconds. It is longer than a chunk is open.
const trimEvery = 10e9

// Flush writes what the open chunk has added up. Sums of samples are in the chunk already.
func (s *session) Flush(all bool) {
	s.labels.flush(s)
	if !all {
		return
	}
	s.kernels.Flush()
	s.held, s.fresh, s.flushed = nil, nil, true
	if s.kernels.IndexBytes() > maxSlotBytes {
		s.kernels.Rest()
	}
}

// maxSlotBytes of kernels' slots stay in memory between chunks; a part names its kernels anew.
const maxSlotBytes = 4 << 10

// maxHeldNames is how many names are held for rows of kernel_stats, and how many bytes of state they may be.
const maxHeldNames = 4096

// Dense reports whether kernels are worth their rows.
func (s *session) Dense() bool { return s.kernels.Dense() || len(s.held) > maxHeldNames }

// Load says what is kept.
func (s *session) Load() aggregate.Load {
	return aggregate.Load{Rollups: s.kernels.Held(), Index: s.kernels.IndexBytes(), Waits: s.refused.waiting()}
}

// Rest frees the slots of kernels. What was written when is kept: it cannot be loaded.
func (s *session) Rest(bool) {
	if s.kernels.Held() == 0 {
		s.kernels.Rest()
	}
	s.names.rest()
	s.written.rest()
}

// Close writes refusals that wait for their minute.
func (s *session) Close() { s.writeRefused() }

// Drop forgets the session.
func (s *session) Drop() {
	s.kernels.Drop()
	delete(s.f.refusing, s)
}

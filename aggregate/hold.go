package aggregate

import (
	"time"

	"github.com/warpline/warpline/proto/hist"
)

// Rollup rows cost ClickHouse ten times what a raw row costs, so they must stay few. A session that sends much fills its accumulators
// within one chunk, and they go out with it. Thousands of sessions that send little would make a rollup row for nearly every raw row;
// theirs are held back for a while, the longer the more sessions there are, and until then are part of the published state.

const (
	// denseCalls: when an accumulator counts this many calls on average, its row is worth writing.
	denseCalls = 8
	// minHold and maxHold bound how long rollups of sparse sessions wait. holdPerSession is what each session of the chunk adds: a
	// partition with some 270 busy sessions waits the longest.
	minHold        = time.Second
	maxHold        = 4 * time.Second
	holdPerSession = 15 * time.Millisecond
)

// holdFor is how long sparse sessions wait when a chunk touches n sessions.
func (f *folder) holdFor(n int) time.Duration {
	if f.cfg.Hold != 0 {
		return f.cfg.Hold
	}
	return min(max(time.Duration(n)*holdPerSession, minHold), maxHold)
}

// ripe reports whether the session's held rollups should go out with the open chunk.
func (f *folder) ripe(s *session, now int64, hold time.Duration) bool {
	if s.awaitsNames() {
		f.awaitNames(s)
		return false
	}
	if s.heldSince != 0 && now-s.heldSince >= int64(hold) {
		return true
	}
	if _, ending := f.closing[s]; ending || s.delta.lifecycle() {
		return true
	}
	if len(s.dirty) == 0 {
		return false
	}
	calls := uint64(0)
	for _, a := range s.dirty {
		calls += a.calls
	}
	return calls >= denseCalls*uint64(len(s.dirty)) || len(s.dirty) > maxHeld
}

// awaitsNames reports whether rollups are held until the session's names are loaded, after a takeover. A row that is written without its
// name would stay so: names that came before it are not looked up as late ones are.
func (s *session) awaitsNames() bool { return s.nameless() && len(s.dirty) > 0 }

// maxHeld bounds the accumulators that a session holds back.
const maxHeld = 8192

// lifecycle reports whether people wait to see it: the session began or ended.
func (d *sessionDelta) lifecycle() bool { return d.startedAt != 0 || d.endReason != "" }

// releaseHeld touches the sessions whose time has come, so that the next chunk takes their rollups along.
func (f *folder) releaseHeld(now int64) {
	for s := range f.held {
		if now-s.heldSince >= int64(f.hold) && !s.awaitsNames() {
			f.touch(s)
		}
	}
}

// appendHeld writes what is held: the whole of it, or what the open chunk added to it.
func (s *session) appendHeld(w *writer, full bool) {
	w.bool(s.flushed && !full)
	w.i64(s.heldSince)
	s.delta.append(w)
	n := 0
	for _, a := range s.dirty {
		if full || a.freshCount > 0 {
			n++
		}
	}
	w.n(n)
	for _, a := range s.dirty {
		if !full && a.freshCount == 0 {
			continue
		}
		w.u64(uint64(a.slot.id))
		w.str(s.scopeNames[a.scope])
		w.i64(a.bucket)
		if !full && a.freshCount <= maxFresh {
			w.n(int(a.freshCount))
			for _, ns := range a.fresh[:a.freshCount] {
				w.u64(ns)
			}
			continue
		}
		w.n(0)
		for _, v := range []uint64{a.calls, a.total, a.low, a.high} {
			w.u64(v)
		}
		keys, counts := a.hist.AppendTo(nil, nil)
		w.n(len(keys))
		for i, k := range keys {
			w.i64(int64(k))
			w.u64(counts[i])
		}
	}
}

// readHeld applies what appendHeld wrote.
func (f *folder) readHeld(s *session, r *reader) {
	if r.bool() {
		f.dropHeld(s)
	}
	s.heldSince = r.i64()
	s.delta.read(r)
	for range r.n(4) {
		id, scope, bucket := r.u32(), r.str(), r.i64()
		if r.err != nil {
			return
		}
		a := f.acc(s, s.slot(id), s.scope(scope), bucket)
		if n := r.n(1); n > 0 {
			for range n {
				a.count(r.u64())
			}
			continue
		}
		a.calls, a.total, a.low, a.high = r.u64(), r.u64(), r.u64(), r.u64()
		a.hist.Reset()
		for range r.n(2) {
			k, n := r.i64(), r.u64()
			if k < int64(hist.Zero) || k > int64(hist.Last) {
				r.fail()
				return
			}
			a.hist.AddBucket(int16(k), n)
		}
	}
}

// dropHeld forgets the session's accumulators: their rows are written.
func (f *folder) dropHeld(s *session) {
	for _, a := range s.dirty {
		a.slot.accs, a.slot.last, a.slot.index = a.slot.accs[:0], nil, nil
		a.hist.Reset()
		a.slot = nil
		if len(f.freeAccs) < maxFreeAccs {
			f.freeAccs = append(f.freeAccs, a)
		}
	}
	f.heldAccs -= len(s.dirty)
	clear(s.dirty)
	s.dirty = s.dirty[:0]
}

func (d *sessionDelta) append(w *writer) {
	for _, v := range []uint64{d.kernels, d.samples, d.events, d.bytes, d.rejects, d.duplicates} {
		w.u64(v)
	}
	for _, v := range []int64{d.firstEvent, d.lastEvent, d.startedAt, d.endedAt, int64(d.segment)} {
		w.i64(v)
	}
	for _, v := range []string{d.endReason, d.runID, d.kind, d.engine} {
		w.str(v)
	}
	w.bool(d.hasSegment)
	w.bool(d.crashed)
}

func (d *sessionDelta) read(r *reader) {
	for _, v := range []*uint64{&d.kernels, &d.samples, &d.events, &d.bytes, &d.rejects, &d.duplicates} {
		*v = r.u64()
	}
	for _, v := range []*int64{&d.firstEvent, &d.lastEvent, &d.startedAt, &d.endedAt} {
		*v = r.i64()
	}
	d.segment = int32(r.i64())
	for _, v := range []*string{&d.endReason, &d.runID, &d.kind, &d.engine} {
		*v = r.str()
	}
	d.hasSegment, d.crashed = r.bool(), r.bool()
}

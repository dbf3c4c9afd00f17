package aggregate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// stateVersion is the first number of every state change and snapshot; see layout.go for the earlier ones.
const stateVersion = 5

// appendState writes what changed since the last published chunk: the touched sessions, and the ones that were dropped. With full
// it writes everything: a snapshot. Growing sets are written as additions, small ones whole.
func (f *folder) appendState(dst []byte, full bool) []byte {
	w := writer{b: dst}
	w.u64(stateVersion)
	removed := f.removed
	sessions := f.touched
	if full {
		removed = nil
		sessions = make([]*session, 0, len(f.sessions))
		for _, s := range f.sessions {
			sessions = append(sessions, s)
		}
		slices.SortFunc(sessions, func(a, b *session) int {
			return cmp.Or(cmp.Compare(a.key.tenant, b.key.tenant), cmp.Compare(a.key.id, b.key.id))
		})
	}
	if full {
		for key := range f.tombstones {
			removed = append(removed, key)
		}
	}
	w.n(len(removed))
	for _, key := range removed {
		t := f.tombstones[key]
		w.str(key.tenant)
		w.str(key.id)
		w.n(t.names)
		w.u64(uint64(t.nextConfig))
		w.u64(uint64(t.nextLaunch))
		w.i64(t.at)
	}
	w.n(len(sessions))
	for _, s := range sessions {
		s.append(&w, full)
	}
	f.appendDeletions(&w, full)
	return w.b
}

// stateSize estimates the open chunk's state change in bytes, before compression.
func (f *folder) stateSize() int {
	n := 16*f.heldAccs + 64*len(f.freshDeletions)
	for _, s := range f.touched {
		n += 300 + 64*s.minutes.count() + 16*(s.parts.fresh+s.lines.fresh+s.singles.fresh) + 3*len(s.freshDetails) + 200*len(s.freshConfigs)
		if s.waiting.dirty {
			n += 60 * s.waiting.live
		}
		if s.earlyDirty {
			n += 16 * len(s.early)
		}
		n += s.scopes.stateSize() + 8*len(s.keys.fresh)
	}
	return n
}

// published forgets what was new: it is part of the log now.
func (f *folder) published() {
	for _, s := range f.touched {
		s.touched = false
		s.parts.fresh, s.lines.fresh = 0, 0
		s.freshDetails, s.freshConfigs = s.freshDetails[:0], s.freshConfigs[:0]
		s.unresolvedDirty, s.waiting.dirty, s.earlyDirty, s.flushed = false, false, false, false
		s.minutes.dirty, s.singles.fresh = false, 0
		s.scopes.published()
		s.keys.fresh = s.keys.fresh[:0]
		for _, a := range s.dirty {
			a.freshCount = 0
		}
	}
	clear(f.touched)
	f.touched = f.touched[:0]
	f.removed = f.removed[:0]
	f.freshDeletions, f.deletes = nil, nil
	clear(f.names)
	f.names = f.names[:0]
}

func (s *session) append(w *writer, full bool) {
	w.str(s.key.tenant)
	w.str(s.key.id)
	for _, v := range []string{s.source, s.app, s.host, s.ip, s.vendor} {
		w.str(v)
	}
	w.u64(uint64(s.pid))
	w.n(len(s.deviceIDs))
	for _, id := range s.deviceIDs {
		w.i64(int64(id))
	}
	for _, v := range []bool{s.completed, s.shutdown, s.allLate, s.noRaw} {
		w.bool(v)
	}
	w.i64(s.firstReceived)
	w.i64(s.lastReceived)
	w.i64(s.lastReceivedAt)
	w.u64(uint64(s.retentionDays))
	w.u64(uint64(s.rollupDays))
	w.n(s.names)
	w.u64(uint64(s.nextConfig))
	w.u64(uint64(s.nextLaunch))

	s.parts.append(w, full)
	s.lines.append(w, full)
	fresh := s.details
	if !full {
		fresh = roaring.BitmapOf(s.freshDetails...)
	}
	bits, err := fresh.ToBytes()
	if err != nil {
		panic("BUG: aggregate: a bitmap does not serialize: " + err.Error())
	}
	w.str(string(bits))

	configs := s.freshConfigs
	if full {
		configs = make([]xxh3.Uint128, 0, len(s.configs))
		for h := range s.configs {
			configs = append(configs, h)
		}
		slices.SortFunc(configs, func(a, b xxh3.Uint128) int { return cmp.Compare(s.configs[a].id, s.configs[b].id) })
	}
	w.n(len(configs))
	for _, h := range configs {
		c := s.configs[h]
		w.hash(h)
		w.u64(uint64(c.id))
		w.str(s.scopeNames[c.scope])
	}

	w.bool(full || s.unresolvedDirty)
	if full || s.unresolvedDirty {
		w.n(len(s.unresolved))
		for ref := range s.unresolved {
			w.u64(uint64(ref.dict))
			w.u64(uint64(ref.id))
		}
	}
	w.bool(full || s.waiting.dirty)
	if full || s.waiting.dirty {
		w.n(s.waiting.live)
		for i := range s.waiting.rows {
			if k := &s.waiting.rows[i]; !k.dead {
				k.append(w)
			}
		}
	}
	w.bool(full || s.earlyDirty)
	if full || s.earlyDirty {
		w.n(len(s.early))
		for corr, d := range s.early {
			w.u64(uint64(corr))
			w.u64(uint64(d.config))
			w.i64(d.heldAt)
			w.bool(d.written)
		}
	}
	w.bool(false) // earlier layouts had their open scopes here
	s.appendHeld(w, full)
	s.appendActivity(w, full)
	s.appendClock(w)
	s.scopes.append(w, full)
	s.appendArtifacts(w)
	s.keys.append(w, full)
}

func (f *folder) read(s *session, r *reader) {
	for _, v := range []*string{&s.source, &s.app, &s.host, &s.ip, &s.vendor} {
		*v = r.str()
	}
	s.pid = r.u32()
	s.deviceIDs = s.deviceIDs[:0]
	for range r.n(1) {
		s.deviceIDs = append(s.deviceIDs, int32(r.i64()))
	}
	for _, v := range []*bool{&s.completed, &s.shutdown, &s.allLate, &s.noRaw} {
		*v = r.bool()
	}
	s.firstReceived, s.lastReceived, s.lastReceivedAt = r.i64(), r.i64(), r.i64()
	s.retentionDays, s.rollupDays = uint16(r.u64()), uint16(r.u64())
	s.names = int(r.u64())
	s.nextConfig = r.u32()
	if r.has(hasTombstones) {
		s.nextLaunch = r.u32()
	}
	s.parts.read(r)
	s.lines.read(r)
	if bits := r.bytes(); len(bits) > 0 {
		var add roaring.Bitmap
		if _, err := add.FromUnsafeBytes(bits); err != nil {
			r.fail()
			return
		}
		s.details.Or(&add)
	}
	for range r.n(18) {
		h, id, scope := r.hash(), r.u32(), r.str()
		if s.configs == nil || len(s.configs) >= maxConfigs {
			s.configs, s.configByID = map[xxh3.Uint128]launchConfig{}, map[uint32]int32{}
		}
		c := launchConfig{id: id, scope: s.scope(scope)}
		s.configs[h], s.configByID[id] = c, c.scope
	}
	if r.bool() {
		s.unresolved = map[nameRef]struct{}{}
		for range r.n(2) {
			dict, id := r.u64(), r.u32()
			s.unresolved[nameRef{gpuflight.Dict(min(dict, numDicts-1)), id}] = struct{}{}
		}
	}
	if r.bool() {
		s.waiting = waiting{}
		for range r.n(10) {
			s.waiting.add(readKernelRow(r))
		}
		s.waiting.dirty = false
	}
	if r.bool() {
		s.early, s.unwritten = map[uint32]earlyDetail{}, 0
		for range r.n(4) {
			corr := r.u32()
			d := earlyDetail{config: r.u32(), heldAt: r.i64(), written: r.bool()}
			s.early[corr] = d
			if !d.written {
				s.unwritten++
			}
		}
	}
	if r.bool() {
		s.scopes.readVersion2(r)
	}
	if r.has(hasHeld) {
		f.readHeld(s, r)
	}
	if r.has(hasSingles) {
		s.singles.read(r)
	}
	if r.has(hasMinutes) {
		s.minutes.read(r)
	}
	if r.has(hasClock) {
		s.readClock(r)
	}
	if r.has(hasScopes) {
		s.scopes.read(r)
	}
	if r.has(hasArtifacts) {
		s.readArtifacts(r)
	}
	if r.has(hasEventKeys) {
		s.keys.read(r)
	}
}

func (k *kernelRow) append(w *writer) {
	w.i64(k.start)
	w.i64(k.duration)
	w.u64(k.stream)
	w.u64(k.externalID)
	w.u64(uint64(k.kernel))
	w.u64(uint64(k.corr))
	w.u64(uint64(k.dyn))
	w.u64(uint64(k.regs))
	w.u64(uint64(k.externalKind))
	w.bool(k.emitted)
	w.i64(k.receivedAt)
	w.i64(k.heldAt)
	w.u64(uint64(k.retentionDays))
	w.i64(int64(k.device))
}

func readKernelRow(r *reader) kernelRow {
	return kernelRow{
		start: r.i64(), duration: r.i64(), stream: r.u64(), externalID: r.u64(), kernel: r.u32(), corr: r.u32(), dyn: r.u32(), regs: r.u32(),
		externalKind: uint8(r.u64()), emitted: r.bool(), receivedAt: r.i64(), heldAt: r.i64(), retentionDays: uint16(r.u64()), device: int32(r.i64()),
	}
}

// applyState adds a change, or a snapshot to an empty folder. Call resume after the last one.
func (f *folder) applyState(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	r, err := stateReader(state)
	if err != nil {
		return err
	}
	if err := f.readState(&r); err != nil {
		return err
	}
	if len(r.b) > 0 {
		return fmt.Errorf("%d bytes behind the end: %w", len(r.b), errState)
	}
	return nil
}

// readState reads a state behind its version.
func (f *folder) readState(r *reader) error {
	for range r.n(2) {
		key := sessionKey{r.str(), r.str()}
		var t tombstone
		if r.has(hasTombstones) {
			t = tombstone{int(r.u64()), r.u32(), r.u32(), r.i64()}
		}
		r.plausible(key)
		if r.err != nil {
			break
		}
		if s := f.sessions[key]; s != nil {
			f.dropHeld(s)
			f.release(s)
		}
		delete(f.sessions, key)
		delete(f.tombstones, key)
		if t.names > 0 || t.nextConfig > 0 || t.nextLaunch > 0 {
			f.tombstones[key] = t
		}
	}
	for range r.n(2) {
		key := sessionKey{r.str(), r.str()}
		r.plausible(key)
		if r.err != nil {
			break
		}
		s := f.sessions[key]
		if s == nil {
			s = newSession(key, stream.SessionToken(key.id))
			f.sessions[key] = s
			delete(f.tombstones, key)
		}
		f.read(s, r)
	}
	if r.has(hasDeletions) {
		f.readDeletions(r)
	}
	return r.err
}

// resume rebuilds what follows from the sessions after the last applyState. What waits waits on from now: clocks of two machines do not
// compare; then is the other clock at the last chunk.
func (f *folder) resume(now, then int64) {
	for _, s := range f.sessions {
		f.eventKeys += s.keys.count()
		s.lastReceivedAt = now - max(then-s.lastReceivedAt, 0) // as silent as it was when the last chunk was made
		for i := range s.waiting.rows {
			s.waiting.rows[i].heldAt = now
		}
		for corr, d := range s.early {
			d.heldAt = now
			s.early[corr] = d
		}
		if s.heldSince != 0 {
			s.heldSince = now
		}
		if s.waiting.live > 0 || len(s.early) > 0 {
			f.waitingSessions[s] = struct{}{}
		}
		f.resumeScopes(s, now)
		f.chargePending(s)
		if s.nameless() && (s.heldSince != 0 || s.waiting.live > 0 || s.scopes.pending()) {
			f.awaitNames(s)
		}
		if s.heldSince != 0 {
			f.held[s] = struct{}{}
		}
		if (s.completed || s.shutdown) && (s.waiting.live > 0 || len(s.early) > 0 || s.scopes.pending()) {
			f.closing[s] = struct{}{}
		}
	}
}

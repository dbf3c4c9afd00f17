package aggregate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// stateVersion is the first number of every state change and snapshot; see layout.go for the earlier ones.
const stateVersion = 6

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
		f.appendSession(&w, s, full)
	}
	f.appendDeletions(&w, full)
	return w.b
}

// stateSize estimates the open chunk's state change in bytes, before compression.
func (f *folder) stateSize() int {
	n := 16*f.heldAccs + 64*len(f.freshDeletions)
	for _, s := range f.touched {
		n += 300 + s.parts.size(false)
		for _, st := range s.states {
			if st != nil {
				n += st.Size(false)
			}
		}
	}
	return n
}

// published forgets what was new: it is part of the log now.
func (f *folder) published() {
	for _, s := range f.touched {
		s.touched, s.unresolvedDirty = false, false
		s.parts.fresh = 0
		for _, st := range s.states {
			if st != nil {
				st.Published()
			}
		}
	}
	clear(f.touched)
	f.touched = f.touched[:0]
	f.removed = f.removed[:0]
	f.freshDeletions, f.deletes = nil, nil
	clear(f.names)
	f.names = f.names[:0]
}

// ownSection is the name of the section with what the partition itself knows of a session, and ownVersion what is in it.
const (
	ownSection = "session"
	ownVersion = 1
)

// appendSession writes a session: its key, and sections of name, version, length and bytes. The first is the partition's own, the others are
// those of the sources that have something to write.
func (f *folder) appendSession(w *writer, s *session, full bool) {
	w.str(s.key.tenant)
	w.str(s.key.id)
	n := 1
	for _, st := range s.states {
		if st != nil {
			n++
		}
	}
	w.n(n)
	f.section.b = f.section.b[:0]
	s.append(&f.section, full)
	w.section(ownSection, ownVersion, f.section.b)
	for i, st := range s.states {
		if st != nil {
			f.section.b = f.section.b[:0]
			st.Append(&f.section, full)
			w.section(f.sources[i].Name, f.sources[i].Version, f.section.b)
		}
	}
}

func (w *writer) section(name string, version uint64, body []byte) {
	w.str(name)
	w.u64(version)
	w.n(len(body))
	w.b = append(w.b, body...)
}

// readSession reads what appendSession wrote behind the key. What a source that this program does not have keeps is not thrown away: the
// state is not understood, and the partition waits for a program that has it.
func (f *folder) readSession(s *session, r *reader) {
	for range r.n(3) {
		name, version := r.str(), r.u64()
		body := reader{b: r.bytes(), layout: layoutNow}
		if r.err != nil {
			return
		}
		if name == ownSection && version <= ownVersion {
			s.read(&body)
		} else if i := slices.IndexFunc(f.sources, func(o opened) bool { return o.Name == name }); i >= 0 && version <= f.sources[i].Version {
			f.stateOf(s, i).Read(version, &body)
		} else if i >= 0 || name == ownSection {
			r.failf("it has version %d of what %q keeps of a session, which this program cannot read", version, name)
		} else {
			r.failf("it has what %q keeps of a session, a source that this program does not have", name)
		}
		if body.err == nil && len(body.b) > 0 {
			body.failf("%d bytes behind the end of what %q keeps of a session", len(body.b), name)
		}
		if r.err == nil && body.err != nil {
			r.b, r.err = nil, body.err
		}
		if r.err != nil {
			return
		}
	}
}

// append writes what the partition itself knows of the session.
func (s *session) append(w *writer, full bool) {
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
	w.bool(full || s.unresolvedDirty)
	if full || s.unresolvedDirty {
		w.n(len(s.unresolved))
		for ref := range s.unresolved {
			w.u64(uint64(ref.dict))
			w.u64(uint64(ref.id))
		}
	}
	w.i64(s.heldSince)
	s.delta.append(w)
	s.appendClock(w)
}

// read takes over what append wrote.
func (s *session) read(r *reader) {
	s.readFacts(r)
	s.parts.read(r)
	s.readUnresolved(r)
	s.heldSince = r.i64()
	s.delta.read(r)
	s.readClock(r)
}

func (s *session) readFacts(r *reader) {
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
}

func (s *session) readUnresolved(r *reader) {
	if !r.bool() {
		return
	}
	s.unresolved = map[nameRef]struct{}{}
	for range r.n(2) {
		dict, id := r.u64(), r.u32()
		s.unresolved[nameRef{gpuflight.Dict(min(dict, numDicts-1)), id}] = struct{}{}
	}
}

// applyState adds a change, or a snapshot to an empty folder. Call resume after the last one.
func (f *folder) applyState(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	r, err := f.stateReader(state)
	if err != nil {
		return err
	}
	if err := f.readState(&r); err != nil {
		return err
	}
	if r.layout != layoutNow {
		f.dropEmpty()
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
			f.abandon(s)
		}
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
		if r.layout == layoutNow {
			f.readSession(s, r)
		} else {
			f.readFlatSession(s, r)
		}
	}
	if r.has(hasDeletions) {
		f.readDeletions(r)
	}
	return r.err
}

// resume rebuilds what follows from the sessions after the last applyState. What waits waits on from now: clocks of two machines do not
// compare; then is the other clock at the last chunk. anew says that the state was made again from parts whose rows are published.
func (f *folder) resume(now, then int64, anew bool) {
	for _, s := range f.sessions {
		s.lastReceivedAt = now - max(then-s.lastReceivedAt, 0) // as silent as it was when the last chunk was made
		if s.heldSince != 0 {
			s.heldSince = now
			f.held[s] = struct{}{}
		}
		for _, st := range s.states {
			if st != nil {
				st.Resume(now, anew)
			}
		}
		f.chargePending(s)
		load := s.load()
		if s.nameless() && (s.heldSince != 0 || load.Waits || load.Unsaid) {
			f.awaitNames(s)
		}
		if (s.completed || s.shutdown) && load.Waiting > 0 {
			f.closing[s] = struct{}{}
		}
	}
}

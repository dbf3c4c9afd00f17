package aggregate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// AppendState writes what changed since the last published chunk: the touched sessions, and the ones that were dropped. With full
// it writes everything: a snapshot. Growing sets are written as additions, small ones whole.
func (f *Fold) AppendState(dst []byte, full bool) []byte {
	w := state.Writer{Body: dst}
	w.U64(state.Version)
	removed := f.removed
	sessions := f.touched
	if full {
		removed = nil
		sessions = make([]*Session, 0, len(f.Sessions))
		for _, s := range f.Sessions {
			sessions = append(sessions, s)
		}
		slices.SortFunc(sessions, func(a, b *Session) int {
			return cmp.Or(cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.ID, b.Key.ID))
		})
	}
	if full {
		for key := range f.tombstones {
			removed = append(removed, key)
		}
	}
	w.N(len(removed))
	for _, key := range removed {
		t := f.tombstones[key]
		w.Str(key.Tenant)
		w.Str(key.ID)
		w.N(t.names)
		w.U64(uint64(t.nextConfig))
		w.U64(uint64(t.nextLaunch))
		w.I64(t.at)
	}
	w.N(len(sessions))
	for _, s := range sessions {
		f.appendSession(&w, s, full)
	}
	f.appendDeletions(&w, full)
	return w.Body
}

// stateSize estimates the open chunk's state change in bytes, before compression.
func (f *Fold) stateSize() int {
	n := 16*f.HeldAccs + 64*len(f.freshDeletions)
	for _, s := range f.touched {
		n += 300 + s.parts.Size(false)
		if s.aged != nil {
			n += s.aged.Size(false)
		}
		for _, st := range s.states {
			if st != nil {
				n += st.Size(false)
			}
		}
	}
	return n
}

// Published forgets what was new: it is part of the log now.
func (f *Fold) Published() {
	for _, s := range f.touched {
		s.touched, s.unresolvedDirty = false, false
		s.parts.Published()
		if s.aged != nil {
			s.aged.Published()
		}
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

// ownSection is the name of the section with what the partition itself knows of a session, followed by the versions of what is in it.
// Version 2 ends with the parts that are remembered for a time, version 3 with whether it has such parts, and these. Each is written only
// where it is needed, since earlier programs read the ones before.
const (
	ownSection   = "session"
	plainVersion = 1
	agedVersion  = 2
	fullVersion  = 3 // the session had a name refused
)

// appendSession writes a session: its key, and sections of name, version, length and bytes. The first is the partition's own, the others
// are those of the sources that have something to write.
func (f *Fold) appendSession(w *state.Writer, s *Session, full bool) {
	w.Str(s.Key.Tenant)
	w.Str(s.Key.ID)
	n := 1
	for _, st := range s.states {
		if st != nil {
			n++
		}
	}
	w.N(n)
	f.section.Body = f.section.Body[:0]
	s.append(&f.section, full)
	version := uint64(plainVersion)
	if s.full {
		version = fullVersion
		f.section.Bool(s.aged != nil)
	} else if s.aged != nil {
		version = agedVersion
	}
	if s.aged != nil {
		s.aged.Append(&f.section, full)
	}
	w.Section(ownSection, version, f.section.Body)
	for i, st := range s.states {
		if st != nil {
			f.section.Body = f.section.Body[:0]
			st.Append(&f.section, full)
			w.Section(f.sources[i].Name, f.sources[i].Version, f.section.Body)
		}
	}
}

// readSession reads what appendSession wrote after the key. The section of a source that this program does not have is not thrown away: the
// state is not understood, and the partition waits for a program that has the source.
func (f *Fold) readSession(s *Session, r *state.Reader) {
	for range r.N(3) {
		name, version := r.Str(), r.U64()
		body := state.Reader{Rest: r.Bytes(), Layout: state.LayoutNow}
		if r.Err != nil {
			return
		}
		if name == ownSection && version <= fullVersion {
			s.read(&body)
			s.full = version == fullVersion
			if version == agedVersion || s.full && body.Bool() {
				if s.aged == nil {
					s.aged = &state.Aged{}
				}
				s.aged.Read(&body)
			}
		} else if i := slices.IndexFunc(f.sources, func(o opened) bool { return o.Name == name }); i >= 0 && version <= f.sources[i].Version {
			f.stateOf(s, i).Read(version, &body)
		} else if i >= 0 || name == ownSection {
			r.Failf("it has version %d of what %q keeps of a session, which this program cannot read", version, name)
		} else {
			r.Failf("it has what %q keeps of a session, a source that this program does not have", name)
		}
		if body.Err == nil && len(body.Rest) > 0 {
			body.Failf("%d bytes after the end of what %q keeps of a session", len(body.Rest), name)
		}
		if r.Err == nil && body.Err != nil {
			r.Rest, r.Err = nil, body.Err
		}
		if r.Err != nil {
			return
		}
	}
}

// append writes what the partition itself knows of the session.
func (s *Session) append(w *state.Writer, full bool) {
	for _, v := range []string{s.source, s.App, s.Host, s.IP, s.Vendor} {
		w.Str(v)
	}
	w.U64(uint64(s.PID))
	w.N(len(s.DeviceIDs))
	for _, id := range s.DeviceIDs {
		w.I64(int64(id))
	}
	for _, v := range []bool{s.Completed, s.Shutdown, s.allLate, s.NoRaw} {
		w.Bool(v)
	}
	w.I64(s.firstReceived)
	w.I64(s.LastReceived)
	w.I64(s.LastReceivedAt)
	w.U64(uint64(s.RetentionDays))
	w.U64(uint64(s.RollupDays))
	w.N(s.names)
	w.U64(uint64(s.NextConfig))
	w.U64(uint64(s.NextLaunch))
	s.parts.Append(w, full)
	w.Bool(full || s.unresolvedDirty)
	if full || s.unresolvedDirty {
		w.N(len(s.unresolved))
		for ref := range s.unresolved {
			w.U64(uint64(ref.Dict))
			w.U64(uint64(ref.ID))
		}
	}
	w.I64(s.heldSince)
	s.Delta.append(w)
	s.appendClock(w)
}

// read takes over what append wrote.
func (s *Session) read(r *state.Reader) {
	s.readFacts(r)
	s.parts.Read(r)
	s.readUnresolved(r)
	s.heldSince = r.I64()
	s.Delta.read(r)
	s.readClock(r)
}

func (s *Session) readFacts(r *state.Reader) {
	for _, v := range []*string{&s.source, &s.App, &s.Host, &s.IP, &s.Vendor} {
		*v = r.Str()
	}
	s.PID = r.U32()
	s.DeviceIDs = s.DeviceIDs[:0]
	for range r.N(1) {
		s.DeviceIDs = append(s.DeviceIDs, int32(r.I64()))
	}
	for _, v := range []*bool{&s.Completed, &s.Shutdown, &s.allLate, &s.NoRaw} {
		*v = r.Bool()
	}
	s.firstReceived, s.LastReceived, s.LastReceivedAt = r.I64(), r.I64(), r.I64()
	s.RetentionDays, s.RollupDays = uint16(r.U64()), uint16(r.U64())
	s.names = int(r.U64())
	s.NextConfig = r.U32()
	if r.Has(state.HasTombstones) {
		s.NextLaunch = r.U32()
	}
}

func (s *Session) readUnresolved(r *state.Reader) {
	if !r.Bool() {
		return
	}
	s.unresolved = map[NameRef]struct{}{}
	for range r.N(2) {
		dict, id := r.U64(), r.U32()
		s.unresolved[NameRef{gpuflight.Dict(min(dict, numDicts-1)), id}] = struct{}{}
	}
}

// ApplyState adds a change, or a snapshot to an empty fold. Call Resume after the last one.
func (f *Fold) ApplyState(written []byte) error {
	if len(written) == 0 {
		return nil
	}
	r, err := f.stateReader(written)
	if err != nil {
		return err
	}
	if err := f.readState(&r); err != nil {
		return err
	}
	if r.Layout != state.LayoutNow {
		f.dropEmpty()
	}
	if len(r.Rest) > 0 {
		return fmt.Errorf("%d bytes after the end: %w", len(r.Rest), state.Err)
	}
	return nil
}

// readState reads a state after its version.
func (f *Fold) readState(r *state.Reader) error {
	for range r.N(2) {
		key := SessionKey{r.Str(), r.Str()}
		var t tombstone
		if r.Has(state.HasTombstones) {
			t = tombstone{int(r.U64()), r.U32(), r.U32(), r.I64()}
		}
		plausible(r, key)
		if r.Err != nil {
			break
		}
		if s := f.Sessions[key]; s != nil {
			f.abandon(s)
		}
		delete(f.tombstones, key)
		if t.names > 0 || t.nextConfig > 0 || t.nextLaunch > 0 {
			f.tombstones[key] = t
		}
	}
	for range r.N(2) {
		key := SessionKey{r.Str(), r.Str()}
		plausible(r, key)
		if r.Err != nil {
			break
		}
		s := f.Sessions[key]
		if s == nil {
			s = newSession(key, stream.SessionToken(key.ID))
			f.Sessions[key] = s
			delete(f.tombstones, key)
		}
		if r.Layout == state.LayoutNow {
			f.readSession(s, r)
		} else {
			f.readFlatSession(s, r)
		}
	}
	if r.Has(state.HasDeletions) {
		f.readDeletions(r)
	}
	return r.Err
}

// Resume rebuilds what follows from the sessions, after the last ApplyState. Waiting times start from now, because the clocks of two
// machines cannot be compared; then is the other clock at the last chunk. With now 0 they go on. anew says that the state was made again
// from parts whose rows are published.
func (f *Fold) Resume(now, then int64, anew bool) {
	for _, s := range f.Sessions {
		if now != 0 {
			s.LastReceivedAt = now - max(then-s.LastReceivedAt, 0) // as silent as it was when the last chunk was made
		}
		if s.heldSince != 0 {
			s.heldSince = cmp.Or(now, s.heldSince)
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
			f.AwaitNames(s)
		}
		if (s.Completed || s.Shutdown) && load.Waiting > 0 {
			f.closing[s] = struct{}{}
		}
	}
}

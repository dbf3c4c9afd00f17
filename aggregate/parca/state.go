package parca

import (
	"cmp"

	"github.com/warpline/warpline/aggregate/state"
)

// Append writes what is kept, or what has changed.
func (s *session) Append(w *state.Writer, full bool) {
	s.kernels.Append(w, full)
	w.Bool(s.flushed && !full)
	if full {
		w.N(len(s.held))
		for id, name := range s.held {
			w.U64(uint64(id))
			w.Str(name)
		}
	} else {
		w.N(len(s.fresh))
		for _, id := range s.fresh {
			w.U64(uint64(id))
			w.Str(s.held[id])
		}
	}
	w.U64(uint64(s.lastID))
	s.names.append(w, full)
	s.written.append(w, full)
	s.labels.append(w, full)
	s.refused.append(w, full)
}

// Size estimates what Append writes.
func (s *session) Size(full bool) int {
	n := 40*s.kernels.Held() + s.names.size(full) + s.written.size(full) + s.labels.size(full) + s.refused.size(full)
	if full {
		return n + 100*len(s.held)
	}
	return n + 100*len(s.fresh)
}

// Read adds what Append wrote.
func (s *session) Read(_ uint64, r *state.Reader) {
	s.kernels.ReadFlushed(r)
	s.kernels.Read(r)
	if r.Bool() {
		s.held = nil
	}
	for range r.N(2) {
		id, name := r.U32(), r.Str()
		if s.held == nil {
			s.held = map[uint32]string{}
		}
		s.held[id] = name
	}
	s.lastID = r.U32()
	s.names.read(r)
	s.written.read(r)
	s.labels.read(r)
	s.refused.read(r)
	s.Published()
}

// Published says that what has changed is part of the log.
func (s *session) Published() {
	s.kernels.Published()
	s.fresh, s.flushed = s.fresh[:0], false
	s.names.published()
	s.written.published()
	s.labels.dirty, s.refused.dirty = false, false
}

// Resume goes on after a takeover. When the state was made again from parts, ids were handed out to names whose rows were not written
// then, and the next ids leap: such names, and whatever else was written, are written anew.
func (s *session) Resume(now int64, anew bool) {
	if anew || s.lastID != s.NextConfig {
		s.names, s.written, s.labels = seen{}, seen{}, labels{}
	}
	s.kernels.ForgetLaunches()
	if s.refused.waiting() {
		s.refused.since = cmp.Or(now, s.refused.since)
		s.f.refusing[s] = struct{}{}
	}
}

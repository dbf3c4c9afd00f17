package aggregate

import "github.com/warpline/warpline/proto/stream"

// Memory is memory telemetry as a source.
func Memory() Source {
	return Source{Name: "telemetry", Version: 1, Kinds: []stream.Kind{stream.KindTelemetry, stream.KindSummary}, Open: openMemory}
}

// memory folds memory telemetry of a partition.
type memory struct {
	*folder
	reader    memoryReader
	own       map[*memorySession]struct{} // all that there are
	eventKeys int                         // of all of them, or more
}

func openMemory(f *folder) Folding { return &memory{folder: f, own: map[*memorySession]struct{}{}} }

// memorySession is what is kept of a session.
type memorySession struct {
	*session
	f       *memory
	keys    eventKeys                // of the events that were counted
	minutes map[memoryKey]*memoryAcc // of the open chunk
}

// New makes what is kept of a session.
func (f *memory) New(s *session) State {
	own := &memorySession{session: s, f: f}
	f.own[own] = struct{}{}
	return own
}

// Fold folds the frames of a part, or what a tracker says of its session.
func (f *memory) Fold(s State, p *part, body []byte) {
	if p.env.Kind == stream.KindSummary {
		f.summary(p, body)
		return
	}
	f.telemetry(s.(*memorySession), p, body)
}

// Tick has nothing to do: no event waits for another.
func (f *memory) Tick(int64) {}

// Dense is false: minutes of memory are not held back.
func (s *memorySession) Dense() bool { return false }

// Append writes the keys of the events that were counted.
func (s *memorySession) Append(w *writer, full bool) { s.keys.append(w, full) }

// Size estimates what Append writes.
func (s *memorySession) Size(full bool) int {
	if full {
		return 8 * s.keys.count()
	}
	return 8 * len(s.keys.fresh)
}

// Read adds what Append wrote.
func (s *memorySession) Read(_ uint64, r *reader) { s.keys.read(r) }

// ReadOlder reads what stood in states without sections.
func (s *memorySession) ReadOlder(p Piece, r *reader) {
	if p == PieceKeys && r.has(hasEventKeys) {
		s.keys.read(r)
	}
}

// Published says that what has changed is part of the log.
func (s *memorySession) Published() { s.keys.fresh = s.keys.fresh[:0] }

// Resume goes on after a takeover.
func (s *memorySession) Resume(int64, bool) { s.f.eventKeys += s.keys.count() }

// Load says for how long the session has to be remembered.
func (s *memorySession) Load() (l Load) {
	if s.keys.count() > 0 {
		l.Keep = eventKeyDays
	}
	return l
}

// Rest has nothing to give back: keys decide what counts.
func (s *memorySession) Rest(bool) {}

// Close has nothing to say.
func (s *memorySession) Close() {}

// Drop forgets the session.
func (s *memorySession) Drop() { delete(s.f.own, s) }

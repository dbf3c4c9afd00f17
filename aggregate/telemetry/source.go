// Package telemetry folds memory telemetry: events of trackers, each counted once, and what they say of their sessions.
package telemetry

import (
	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// Source is memory telemetry, for aggregate.Config.Sources.
func Source() aggregate.Source {
	var reasons []string
	for _, code := range telemetry.Codes() {
		reasons = append(reasons, string(code))
	}
	return aggregate.Source{
		Name: "telemetry", Version: 1, Kinds: []stream.Kind{stream.KindTelemetry, stream.KindSummary, stream.KindAlerts},
		Reasons: reasons, Open: open,
	}
}

// shared is the partition's fold, which all sources share.
type shared = aggregate.Fold

// folding folds memory telemetry of a partition.
type folding struct {
	*shared
	reader    memoryReader
	own       map[*session]struct{} // all that there are
	eventKeys int                   // of all of them, or more
}

func open(f *aggregate.Fold) aggregate.Folding {
	return &folding{shared: f, own: map[*session]struct{}{}}
}

// session is what is kept of a session.
type session struct {
	*aggregate.Session
	f       *folding
	keys    eventKeys                // of the events that were counted
	minutes map[memoryKey]*memoryAcc // of the open chunk
}

// New makes what is kept of a session.
func (f *folding) New(s *aggregate.Session) aggregate.State {
	own := &session{Session: s, f: f}
	f.own[own] = struct{}{}
	return own
}

// Fold folds the frames of a part, what a tracker says of its session, or the alerts of its file.
func (f *folding) Fold(s aggregate.State, p *aggregate.Part, body []byte) {
	switch p.Env.Kind {
	case stream.KindSummary:
		f.summary(p, body)
	case stream.KindAlerts:
		f.alerts(s.(*session), p, body)
	default:
		f.events(s.(*session), p, body)
	}
}

// Tick has nothing to do: no event waits for another.
func (f *folding) Tick(int64) {}

// Dense is false: minutes of memory are not held back.
func (s *session) Dense() bool { return false }

// Append writes the keys of the events that were counted.
func (s *session) Append(w *state.Writer, full bool) { s.keys.append(w, full) }

// Size estimates what Append writes.
func (s *session) Size(full bool) int {
	if full {
		return 8 * s.keys.count()
	}
	return 8 * len(s.keys.fresh)
}

// Read adds what Append wrote.
func (s *session) Read(_ uint64, r *state.Reader) { s.keys.read(r) }

// ReadOlder reads what stood in states without sections.
func (s *session) ReadOlder(p aggregate.Fields, r *state.Reader) {
	if p == aggregate.FieldsKeys && r.Has(state.HasEventKeys) {
		s.keys.read(r)
	}
}

// Published says that what has changed is part of the log.
func (s *session) Published() { s.keys.fresh = s.keys.fresh[:0] }

// Resume goes on after a takeover.
func (s *session) Resume(int64, bool) { s.f.eventKeys += s.keys.count() }

// Load says for how long the session has to be remembered.
func (s *session) Load() (l aggregate.Load) {
	if s.keys.count() > 0 {
		l.Keep = eventKeyDays
	}
	return l
}

// Rest has nothing to give back: keys decide what counts.
func (s *session) Rest(bool) {}

// Close has nothing to say.
func (s *session) Close() {}

// Drop forgets the session.
func (s *session) Drop() { delete(s.f.own, s) }

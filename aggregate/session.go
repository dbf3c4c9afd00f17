package aggregate

import (
	"cmp"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// Bounds of what one session may hold in a worker's memory. Each says what happens beyond it.
const (
	// maxParts bounds the parts that are remembered. 4096 parts are 4 GiB of raw input; an older part that comes again is recognised by the
	// gateway's record or by its lines.
	maxParts = 4096
	// MaxNames bounds the dictionary entries of a session; one beyond it is a reject dictionary_full.
	MaxNames = 200_000
	// MaxNameBytes is where a longer name (call stacks can be long) is cut; the cut is marked.
	MaxNameBytes = 32 << 10
	// MaxNameTotal bounds the bytes of all names of a session; a name beyond it is the same reject. names.go bounds how many of them are in
	// memory.
	MaxNameTotal = 128 << 20
	// maxUnresolved bounds the ids that were used before their name came; beyond it every later name counts as late.
	maxUnresolved = 65536
)

// SessionKey names a session: the client's id counts only together with the tenant.
type SessionKey struct{ Tenant, ID string }

func (a SessionKey) compare(b SessionKey) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.ID, b.ID))
}

// numDicts is how many dictionaries the wire has.
const numDicts = 6

// NameRef is one dictionary id.
type NameRef struct {
	Dict gpuflight.Dict
	ID   uint32
}

// Session is what a partition's owner knows of one session, whatever its sources are. What decides later rows is part of the published
// state (see state.go).
type Session struct {
	Key    SessionKey
	token  string
	states []State // what its sources keep, in the order of fold.sources; nil for those that have not sent anything

	// Facts, published whole when the session is touched.
	source, App, Host, IP string
	PID                   uint32
	Vendor                string
	// Place is the rank in its job plus 1, and WorldSize how many ranks that has; 0 is unknown. They are not part of the state: a source that
	// knows them says so with every part, and has the session's row written with each chunk, see State.Dense.
	Place, WorldSize                            uint32
	DeviceIDs                                   []int32 // in `devices`; more than one means that kernels' device is unknown
	Completed, Shutdown                         bool
	firstReceived, LastReceived, LastReceivedAt int64 // ns, gateway stamps; At: owner's clock when it was folded
	RetentionDays, RollupDays                   uint16
	names                                       int    // dictionary entries ever accepted
	NextConfig, NextLaunch                      uint32 // last ids handed out, 0: none
	allLate                                     bool   // unresolved overflowed
	full                                        bool   // a name was refused: it has as many as it may
	NoRaw                                       bool   // the tenant keeps no raw rows
	Clock                                       Clock

	parts state.Recent
	aged  *state.Aged // parts too, when the source says for how long; nil: they are all in parts

	dicts           [numDicts]map[uint32]string
	dictsLoaded     bool
	refused         map[NameRef]uint64 // hashes of names for which there was no room
	nameBytes       int                // of all names
	nameCost        int                // of those in memory, with what they cost beside their bytes
	nameRoom        int                // what that may be, 0: no bound
	awaited         bool               // in fold.unnamed
	pendingCharged  int                // what fold.pending has of it
	charged         int                // what the worker's budget has of it
	unresolved      map[NameRef]struct{}
	unresolvedDirty bool

	// Held with the rollups (hold.go): part of the state until they are flushed.
	Delta     sessionDelta
	heldSince int64 // owner's clock when the first of them began to wait, 0: nothing waits
	touched   bool  // in the open chunk
}

func newSession(key SessionKey, token string) *Session {
	return &Session{Key: key, token: token, parts: state.Recent{Limit: maxParts}}
}

// sessionDelta is what has happened since the last row of `sessions`.
type sessionDelta struct {
	Kernels, Samples, events, bytes, Rejects, duplicates uint64
	firstEvent, lastEvent                                int64 // 0: none
	startedAt, endedAt                                   int64
	endReason                                            string
	RunID, Kind, Engine                                  string
	Segment                                              int32
	HasSegment                                           bool
	Crashed                                              bool
}

// SawEvent widens the session's event time. Times that do not count from 1970 (AMD activity clocks) would spoil it, so only plausible ones
// count.
func (d *sessionDelta) SawEvent(ns int64) {
	if ns < rows.PlausibleEpoch {
		return
	}
	if d.firstEvent == 0 || ns < d.firstEvent {
		d.firstEvent = ns
	}
	d.lastEvent = max(d.lastEvent, ns)
}

// Began notes when the session began; of several times the earliest counts, as in the table.
func (d *sessionDelta) Began(ns int64) {
	if ns > 0 && (d.startedAt == 0 || ns < d.startedAt) {
		d.startedAt = ns
	}
}

// Device returns the device of kernels and copies, which do not name theirs: the session's only one, or -1.
func (s *Session) Device() int32 {
	if len(s.DeviceIDs) == 1 {
		return s.DeviceIDs[0]
	}
	return -1
}

// nameless reports whether the session has names that this owner has not loaded yet.
func (s *Session) nameless() bool { return !s.dictsLoaded && s.names > 0 }

// atHand reports whether this owner has all names that the session has: what has none then has none at all.
func (s *Session) atHand() bool { return s.dictsLoaded && s.names <= s.known() }

// Name returns a dictionary text. An unknown id is remembered, so that its name is marked late when it comes. When a name of the session
// was refused, it is not remembered: then it is one of those, and has the name table.MoreNames.
func (s *Session) Name(dict gpuflight.Dict, id uint32) string {
	name, _ := s.SumName(dict, id)
	return name
}

// SumName is Name for what is added up by name: sum is the id to add it up under, 0 for all that have table.MoreNames.
func (s *Session) SumName(dict gpuflight.Dict, id uint32) (name string, sum uint32) {
	if id == 0 {
		return "", 0
	}
	if v, ok := s.dicts[dict][id]; ok {
		return v, id
	}
	ref := NameRef{dict, id}
	if _, ok := s.refused[ref]; ok {
		return "", id // it is looked up at read
	}
	if _, ok := s.unresolved[ref]; ok {
		return "", id
	}
	if s.full && s.atHand() {
		return table.MoreNames, 0
	}
	if s.allLate {
		return "", id
	}
	s.unresolvedDirty = true
	if len(s.unresolved) >= maxUnresolved {
		s.allLate, s.unresolved = true, nil
		return "", id
	}
	if s.unresolved == nil {
		s.unresolved = map[NameRef]struct{}{}
	}
	s.unresolved[ref] = struct{}{}
	return "", id
}

// Clock says how a session's own clocks are to be read.
type Clock struct {
	// Offset is added to activity times of an AMD device, which count from when its host was started: 0 until the first one was folded.
	Offset int64
	// SampleMS is how often an older client's sampler said it would take a sample.
	SampleMS uint32
}

// appendClock writes the clocks.
func (s *Session) appendClock(w *state.Writer) {
	w.I64(s.Clock.Offset)
	w.U64(uint64(s.Clock.SampleMS))
}

func (s *Session) readClock(r *state.Reader) {
	s.Clock = Clock{Offset: r.I64(), SampleMS: r.U32()}
	if s.Clock.Offset < 0 {
		r.Fail()
	}
}

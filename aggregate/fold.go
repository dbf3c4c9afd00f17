package aggregate

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// Part is one INGEST message while it is folded.
type Part struct {
	Env     stream.Envelope
	Seq     uint64 // INGEST sequence
	Now     int64  // owner's clock, ns; decides only how long halves wait
	Raw     table.DayPartition
	Line    int // number of the line in the part, from 1
	usage   *Counts
	before  Counts                    // usage without this part
	refused []stream.Rejected         // of a part whose sender asks what becomes of it
	rejects map[rejectKind]*rejectRun // of this part, by reason and type
	keep    bool                      // its object is referred to by a reject and must stay
	Body    []byte
	Session *Session // whose
	budget  budget
}

// Fold turns parts into rows and session state. It belongs to one partition's owner and is not safe for concurrent use.
type Fold struct {
	Config   *Config
	metrics  *counters
	Sessions map[SessionKey]*Session
	Out      *rows.Output
	sources  []opened
	kinds    map[stream.Kind]int // which of sources folds a kind

	touched    []*Session            // in the open chunk
	held       map[*Session]struct{} // with rollups that wait
	hold       time.Duration         // how long they wait now
	HeldAccs   int                   // accumulators of all sessions
	leaving    bool                  // the owner stops: nothing is held back
	rush       bool                  // nothing is held back in this chunk
	budget     *nameBudget           // names.go
	nameBytes  int                   // of this partition in it
	named      map[*Session]struct{} // the sessions whose names they are
	pending    int                   // bytes of what waits, pending.go
	pendings   map[*Session]struct{} // of these sessions
	tombstones map[SessionKey]tombstone
	closing    map[*Session]struct{} // ended, to be finalized
	unnamed    []*Session            // taken over with rows to come, names not loaded yet
	missing    map[*Session]missing  // names that neither NATS nor ClickHouse had, missing.go
	usage      map[usageKey]*Counts  // of the open chunk
	texts      texts                 // of names, shared by sessions
	names      []nameEntries         // dictionary entries of the open chunk, to be stored before it is published
	removed    []SessionKey          // dropped since the last published state

	deletions      map[deletionKey]deletion // what was deleted; see delete.go
	freshDeletions []deletionKey            // of them, those that are not in a published state change yet
	deletes        []stream.Deletion        // tombstones of the open chunk

	OutSerial uint64       // moves whenever the batches are reset
	section   state.Writer // scratch of appendState
}

type usageKey struct {
	tenant, source string
	day            int32
	days           uint16
}

// Counts are events and bytes of parts, by what became of them.
type Counts struct {
	Events, bytes, Stored, rejected, Duplicates uint64

	doorEvents, doorBytes, lost uint64 // what gateways say
}

// NewFold returns a fold without an owner, so that nothing of it is published: for tests and benchmarks of sources.
func NewFold(cfg Config) *Fold {
	cfg = cfg.withDefaults()
	return newFold(&cfg, newCounters(nil))
}

// TakeNames gives a session the names that it has with another owner, as if they had been loaded: for tests of sources.
func (s *Session) TakeNames(from *Session) { s.dicts, s.dictsLoaded = from.dicts, true }

func newFold(cfg *Config, m *counters) *Fold {
	f := &Fold{
		Config: cfg, metrics: m, kinds: map[stream.Kind]int{},
		Sessions: map[SessionKey]*Session{}, tombstones: map[SessionKey]tombstone{}, Out: rows.NewOutput(),
		budget: newNameBudget(cfg.NamesBytes, m), named: map[*Session]struct{}{}, missing: map[*Session]missing{},
		pendings: map[*Session]struct{}{},
		held:     map[*Session]struct{}{}, hold: minHold, closing: map[*Session]struct{}{}, usage: map[usageKey]*Counts{},
	}
	f.open()
	return f
}

// Session returns the state of a part's session, a new one when the session was never seen.
func (f *Fold) Session(p *Part) *Session {
	key := SessionKey{p.Env.Tenant, p.Env.Session}
	s := f.Sessions[key]
	if s == nil {
		s = newSession(key, stream.SessionToken(p.Env.Session))
		f.revive(s)
		f.Sessions[key] = s
	}
	s.nameRoom = f.budget.room()
	return s
}

// Touch makes the session's state part of the open chunk.
func (f *Fold) Touch(s *Session) {
	if !s.touched {
		s.touched = true
		f.touched = append(f.touched, s)
	}
}

// Take folds one part whose body is already decompressed. The caller has loaded the session's dictionaries.
func (f *Fold) Take(p *Part, s *Session, body []byte) {
	f.Touch(s)
	f.metrics.meet(p.Env.Tenant)
	p.Body, p.Session = body, s
	p.Raw = rows.RawDayPartition(p.Env.ReceivedAt, p.Env.RetentionDays)
	if s.firstReceived == 0 {
		s.firstReceived = p.Env.ReceivedAt
	}
	s.LastReceived, s.LastReceivedAt = max(s.LastReceived, p.Env.ReceivedAt), p.Now
	s.RetentionDays, s.RollupDays, s.NoRaw = p.Env.RetentionDays, p.Env.RollupDays, p.Env.NoRaw
	s.source = p.Env.Source
	if s.Completed || s.Shutdown {
		f.closing[s] = struct{}{} // again: more came after the end
	}
	if s.Host == "" {
		s.Host = rows.Clip(p.Env.Host)
	}
	p.usage = f.usageOf(p)
	p.before = *p.usage
	if !f.addPart(s, &p.Env) {
		f.metrics.parts.WithLabelValues("duplicate").Inc()
		p.Received(p.Env.Events)
		p.Duplicate(p.Env.Events)
		return
	}
	f.metrics.parts.WithLabelValues("folded").Inc()
	p.usage.bytes += p.Env.Bytes
	s.Delta.bytes += p.Env.Bytes
	switch p.Env.Kind {
	case stream.KindComplete:
		f.complete(p)
	case stream.KindReject:
		p.Received(p.Env.Events)
		f.rejectPart(p, body)
		f.replayed(p)
	default:
		source, ok := f.kinds[p.Env.Kind]
		if !ok {
			p.Received(p.Env.Events)
			f.Reject(p, Reject{
				Reason: gpuflight.ReasonUnknownType, Detail: "part of kind " + string(p.Env.Kind) + ": upgrade the workers", Events: p.Env.Events,
				Payload: body,
			})
			return
		}
		f.sources[source].folding.Fold(f.stateOf(s, source), p, body)
		f.flushRejects(p)
		f.replayed(p)
	}
}

// addPart reports whether the part is new to the session, and remembers it.
func (f *Fold) addPart(s *Session, e *stream.Envelope) bool {
	h := partHash(e)
	if i, ok := f.kinds[e.Kind]; ok && s.aged == nil && f.sources[i].Resends > 0 {
		s.aged = &state.Aged{Keep: int64(f.sources[i].Resends / time.Minute)}
	}
	if s.aged == nil {
		return s.parts.Add(h)
	}
	return !s.parts.Has(h) && s.aged.Add(h.Lo, e.ReceivedAt)
}

// hasPart reports whether the part was folded before.
func (s *Session) hasPart(e *stream.Envelope) bool {
	h := partHash(e)
	return s.parts.Has(h) || s.aged != nil && s.aged.Has(h.Lo)
}

// partHash identifies a part within its session.
func partHash(e *stream.Envelope) xxh3.Uint128 {
	var h xxh3.Hasher
	h.WriteString(e.Identity)
	var n [9]byte
	binary.LittleEndian.PutUint64(n[1:], uint64(e.Part))
	h.Write(n[:])
	return h.Sum128()
}

package aggregate

import (
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// part is one INGEST message while it is folded.
type part struct {
	env     stream.Envelope
	seq     uint64 // INGEST sequence
	now     int64  // owner's clock, ns; decides only how long halves wait
	raw     table.Partition
	line    int // number of the line in the part, from 1
	usage   *usageAcc
	before  usageAcc                  // usage without this part
	refused []stream.Rejected         // of a part that somebody asks about
	rejects map[rejectKind]*rejectRun // of this part, by reason and type
	keep    bool                      // its object is referred to by a reject and must stay
	body    []byte
	s       *session // whose
	budget  budget
}

// folder turns parts into rows and session state. It belongs to one partition's owner; nothing in it is safe for concurrent use.
type folder struct {
	cfg      *Config
	metrics  *counters
	sessions map[sessionKey]*session
	out      *output
	sources  []opened
	kinds    map[stream.Kind]int // which of sources folds a kind

	touched    []*session            // in the open chunk
	held       map[*session]struct{} // with rollups that wait
	hold       time.Duration         // how long they wait now
	heldAccs   int                   // accumulators of all sessions
	leaving    bool                  // the owner ends: nothing is held back
	rush       bool                  // nothing is held back in this chunk
	budget     *nameBudget           // names.go
	nameBytes  int                   // of this partition in it
	named      map[*session]struct{} // those sessions
	pending    int                   // bytes of what waits, pending.go
	pendings   map[*session]struct{} // of these sessions
	tombstones map[sessionKey]tombstone
	closing    map[*session]struct{}  // ended, to be finalized
	unnamed    []*session             // taken over with rows to come, names not loaded yet
	usage      map[usageKey]*usageAcc // of the open chunk
	names      []nameBlock            // dictionary entries of the open chunk, to be stored before it is published
	removed    []sessionKey           // dropped since the last published state

	deletions      map[deletionKey]deletion // what was deleted; see delete.go
	freshDeletions []deletionKey            // of them, those that are not in a published state change yet
	deletes        []stream.Deletion        // tombstones of the open chunk

	outSerial uint64 // moves whenever the batches are reset
	section   writer // scratch of appendState
}

type usageKey struct {
	tenant, source string
	day            int32
	days           uint16
}

type usageAcc struct{ events, bytes, stored, rejected, duplicates uint64 }

func newFolder(cfg *Config, m *counters) *folder {
	f := &folder{
		cfg: cfg, metrics: m, kinds: map[stream.Kind]int{},
		sessions: map[sessionKey]*session{}, tombstones: map[sessionKey]tombstone{}, out: newOutput(),
		budget: newNameBudget(cfg.NamesBytes, m), named: map[*session]struct{}{}, pendings: map[*session]struct{}{},
		held: map[*session]struct{}{}, hold: minHold, closing: map[*session]struct{}{}, usage: map[usageKey]*usageAcc{},
	}
	f.open()
	return f
}

// session returns the state of a part's session, new when it was never seen.
func (f *folder) session(p *part) *session {
	key := sessionKey{p.env.Tenant, p.env.Session}
	s := f.sessions[key]
	if s == nil {
		s = newSession(key, stream.SessionToken(p.env.Session))
		f.revive(s)
		f.sessions[key] = s
	}
	s.nameRoom = f.budget.room()
	return s
}

// touch makes the session's state part of the open chunk.
func (f *folder) touch(s *session) {
	if !s.touched {
		s.touched = true
		f.touched = append(f.touched, s)
	}
}

// fold folds one part whose body is already decompressed. The caller has loaded the session's dictionaries.
func (f *folder) fold(p *part, s *session, body []byte) {
	f.touch(s)
	f.metrics.meet(p.env.Tenant)
	p.body, p.s = body, s
	p.raw = rawPartition(p.env.ReceivedAt, p.env.RetentionDays)
	if s.firstReceived == 0 {
		s.firstReceived = p.env.ReceivedAt
	}
	s.lastReceived, s.lastReceivedAt = max(s.lastReceived, p.env.ReceivedAt), p.now
	s.retentionDays, s.rollupDays, s.noRaw = p.env.RetentionDays, p.env.RollupDays, p.env.NoRaw
	s.source = p.env.Source
	if s.completed || s.shutdown {
		f.closing[s] = struct{}{} // again: more came after the end
	}
	if s.host == "" {
		s.host = clip(p.env.Host)
	}
	p.usage = f.usageOf(p)
	p.before = *p.usage
	if !s.parts.add(partHash(&p.env)) {
		f.metrics.parts.WithLabelValues("duplicate").Inc()
		p.received(p.env.Events)
		p.duplicate(p.env.Events)
		return
	}
	f.metrics.parts.WithLabelValues("folded").Inc()
	p.usage.bytes += p.env.Bytes
	s.delta.bytes += p.env.Bytes
	switch p.env.Kind {
	case stream.KindComplete:
		f.complete(p)
	case stream.KindReject:
		p.received(p.env.Events)
		f.rejectPart(p, body)
	default:
		source, ok := f.kinds[p.env.Kind]
		if !ok {
			p.received(p.env.Events)
			f.reject(p, rejectRow{
				reason: gpuflight.ReasonUnknownType, detail: "part of kind " + string(p.env.Kind) + ": upgrade the workers", events: p.env.Events, payload: body,
			})
			return
		}
		f.sources[source].folding.Fold(f.stateOf(s, source), p, body)
		f.flushRejects(p)
	}
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

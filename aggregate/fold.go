package aggregate

import (
	"bytes"
	"encoding/binary"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

// part is one INGEST message while it is folded.
type part struct {
	env      stream.Envelope
	seq      uint64 // INGEST sequence
	now      int64  // owner's clock, ns; decides only how long halves wait
	raw      table.Partition
	line     int // number of the line in the part, from 1
	usage    *usageAcc
	before   usageAcc                  // usage without this part
	refused  []stream.Rejected         // of a part that somebody asks about
	rejects  map[rejectKind]*rejectRun // of this part, by reason and type
	keep     bool                      // its object is referred to by a reject and must stay
	body     []byte
	bodyHash uint64 // of body, 0 until it is needed

	bodyAsked, bodySeen bool // see seenBody
	artifacts           partArtifacts
	budget              budget
}

// folder turns parts into rows and session state. It belongs to one partition's owner; nothing in it is safe for concurrent use.
type folder struct {
	cfg      *Config
	metrics  *counters
	sessions map[sessionKey]*session
	out      *output
	decoder  gpuflight.Decoder
	memory   memoryReader

	eventKeys int // of all sessions, or more

	touched         []*session            // in the open chunk
	held            map[*session]struct{} // with rollups that wait
	hold            time.Duration         // how long they wait now
	heldAccs        int                   // accumulators of all sessions
	leaving         bool                  // the owner ends: nothing is held back
	rush            bool                  // nothing is held back in this chunk
	budget          *nameBudget           // names.go
	nameBytes       int                   // of this partition in it
	named           map[*session]struct{} // those sessions
	pending         int                   // bytes of what waits, pending.go
	pendings        map[*session]struct{} // of these sessions
	tombstones      map[sessionKey]tombstone
	waitingSessions map[*session]struct{}  // with rows or details that wait
	closing         map[*session]struct{}  // ended, to be finalized
	scoped          map[*session]struct{}  // with ended scopes that are kept
	unnamed         []*session             // taken over with rows to come, names not loaded yet
	usage           map[usageKey]*usageAcc // of the open chunk
	names           []nameBlock            // dictionary entries of the open chunk, to be stored before it is published
	removed         []sessionKey           // dropped since the last published state

	deletions      map[deletionKey]deletion // what was deleted; see delete.go
	freshDeletions []deletionKey            // of them, those that are not in a published state change yet
	deletes        []stream.Deletion        // tombstones of the open chunk

	freeAccs      []*kernelAcc
	outSerial     uint64 // moves whenever the batches are reset
	emitter       kernelEmitter
	emitterSerial uint64

	events                                      gpuflight.EventDecoder
	memsetHead, markerHead, graphHead, perfHead rowHead
	older                                       olderScratch
}

type usageKey struct {
	tenant, source string
	day            int32
	days           uint16
}

type usageAcc struct{ events, bytes, stored, rejected, duplicates uint64 }

func newFolder(cfg *Config, m *counters) *folder {
	return &folder{
		cfg: cfg, metrics: m, decoder: gpuflight.Decoder{MaxLine: stream.MaxBodyBytes},
		sessions: map[sessionKey]*session{}, tombstones: map[sessionKey]tombstone{}, out: newOutput(),
		budget: newNameBudget(cfg.NamesBytes, m), named: map[*session]struct{}{}, pendings: map[*session]struct{}{},
		waitingSessions: map[*session]struct{}{}, held: map[*session]struct{}{}, hold: minHold, closing: map[*session]struct{}{}, scoped: map[*session]struct{}{}, usage: map[usageKey]*usageAcc{},
	}
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
	p.body = body
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
	p.usage = f.usageOf(s, p)
	p.before = *p.usage
	if !s.parts.add(partHash(&p.env)) {
		f.metrics.parts.WithLabelValues("duplicate").Inc()
		f.received(s, p, p.env.Events)
		f.duplicate(s, p, p.env.Events)
		return
	}
	f.metrics.parts.WithLabelValues("folded").Inc()
	p.usage.bytes += p.env.Bytes
	s.delta.bytes += p.env.Bytes
	switch p.env.Kind {
	case stream.KindComplete:
		f.complete(s, p)
	case stream.KindReject:
		f.received(s, p, p.env.Events)
		f.rejectPart(s, p, body)
	case stream.KindTelemetry:
		f.telemetry(s, p, body)
	case stream.KindSummary:
		f.summary(s, p, body)
	case stream.KindAlerts:
		f.alerts(s, p, body)
	case stream.KindGPUFlight:
		f.lines(s, p, body)
		f.flushRejects(s, p)
	default:
		f.received(s, p, p.env.Events)
		f.reject(s, p, rejectRow{reason: gpuflight.ReasonUnknownType, detail: "part of kind " + string(p.env.Kind) + ": upgrade the workers", events: p.env.Events, payload: body})
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

var detailHead = []byte(`{"version":1,"type":"kernel_detail","session_id":"`)

// lines folds the lines of a GPU Flight part.
func (f *folder) lines(s *session, p *part, body []byte) {
	for {
		n, blank := gpuflight.BlankLines(body)
		p.line += int(blank)
		if body = body[n:]; len(body) == 0 {
			break
		}
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		p.line++
		f.checkLine(p)
		// Half of today's lines are kernel_details; they are told apart, keyed and joined without being decoded.
		if rest, ok := bytes.CutPrefix(line, detailHead); ok {
			if id, ok := bytes.CutPrefix(rest, s.id); ok && len(id) > 0 && id[0] == '"' && f.detail(s, p, line) {
				continue
			}
		}
		f.line(s, p, line)
	}
}

// line folds any line.
func (f *folder) line(s *session, p *part, line []byte) {
	n := uint64(gpuflight.CountEvents(line))
	if n == 0 && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l, err := f.decoder.Decode(line)
	if err == nil && l.Batch != nil {
		n = uint64(l.Batch.WireRows()) // CountEvents counts brackets, and a refused row may hold any number of them
	}
	f.received(s, p, n)
	if err != nil {
		f.rejectLine(s, p, l, line, n, err)
		return
	}
	if string(l.SessionID) != s.key.id || len(l.SessionID) == 0 {
		r := rejectRow{reason: gpuflight.ReasonSessionMismatch, detail: "the line's session_id is not its window's", typ: l.Type, events: n, payload: line}
		if len(l.SessionID) == 0 {
			r.reason, r.detail = gpuflight.ReasonSessionMissing, "the line has no session_id"
		}
		if s.lines.add(lineHash(l.Type, p, line)) {
			f.reject(s, p, r)
		} else {
			f.duplicate(s, p, n) // the same bad line again is no second reject
		}
		return
	}
	if l.Type == gpuflight.KernelDetail {
		d, err := gpuflight.DecodeDetail(line)
		if err != nil {
			f.rejectLine(s, p, l, line, n, err)
			return
		}
		f.slowDetail(s, p, line, &d)
		return
	}
	if l.Type.IsBatch() || allChannels(l.Type) || isArtifact(l.Type) {
		if !s.lines.add(lineHash(l.Type, p, line)) {
			f.duplicate(s, p, n)
			return
		}
	} else if f.seenBody(s, p) || identifiesItself(l.Type) && !s.singles.add(xxh3.Hash128(line)) {
		f.duplicate(s, p, n)
		return
	}
	switch l.Type {
	case gpuflight.KernelEventBatch:
		f.batch(s, p, l, n, f.kernels)
	case gpuflight.MemcpyEventBatch:
		f.batch(s, p, l, n, f.memcpys)
	case gpuflight.ScopeEventBatch:
		f.batch(s, p, l, n, f.scopeBatch)
	case gpuflight.ProfileSampleBatch:
		f.batch(s, p, l, n, f.profileBatch)
	case gpuflight.HostMetricBatch:
		f.batch(s, p, l, n, f.hostMetrics)
	case gpuflight.DeviceMetricBatch:
		f.batch(s, p, l, n, f.deviceMetrics)
	case gpuflight.SynchronizationEventBatch:
		f.batch(s, p, l, n, f.syncs)
	case gpuflight.MemoryAllocEventBatch:
		f.batch(s, p, l, n, f.allocations)
	case gpuflight.PMSampleBatch:
		f.batch(s, p, l, n, f.pmSamples)
	case gpuflight.DictionaryUpdate:
		f.dictionary(s, p, l)
	case gpuflight.JobStart, gpuflight.Init:
		f.jobStart(s, p, l)
	case gpuflight.Shutdown:
		f.jobEnd(s, p, l)
	case gpuflight.KernelEvent, gpuflight.MemcpyEvent, gpuflight.ScopeBegin, gpuflight.ScopeEnd, gpuflight.ProfileSample, gpuflight.SystemSample,
		gpuflight.SynchronizationEvent, gpuflight.MemoryAllocEvent:
		f.olderLine(s, p, l)
	case gpuflight.SegmentStart:
		f.segmentStart(s, p, l)
	case gpuflight.SegmentEnd:
		f.segmentEnd(s, p, l)
	case gpuflight.RunEnd:
		f.runEnd(s, p, l)
	case gpuflight.CaptureCapabilities:
		f.capabilities(s, p, l)
	case gpuflight.DeepWindowEvent:
		f.deepWindow(s, p, l)
	case gpuflight.SourceFileContent, gpuflight.CubinDisassembly, gpuflight.PtxDisassembly:
		f.artifact(s, p, l)
	case gpuflight.TypeUnknown:
		f.reject(s, p, rejectRow{reason: gpuflight.ReasonUnknownType, detail: "type " + quote(l.TypeName) + " is not known to this version", events: n, payload: line, whole: true})
	default:
		if f.single(s, p, l) {
			return
		}
		f.reject(s, p, rejectRow{reason: gpuflight.ReasonNotYet, detail: "kept whole until a version that stores " + l.Type.String(), typ: l.Type, events: n, payload: line, whole: true})
	}
}

// lineHash identifies a line within its session. Lines that the client writes to all channels come four times and batches are numbered,
// so there the content decides. Any other line may rightly be written twice (graph nodes are, at each segment): it was seen before only
// when it stands at the same place of the same bytes, uploaded again in other clothes. Cutting is deterministic, so the part is those
// bytes.
func lineHash(t gpuflight.Type, p *part, line []byte) xxh3.Uint128 {
	h := xxh3.Hash128(line)
	if t.IsBatch() || allChannels(t) || isArtifact(t) {
		return h
	}
	if p.bodyHash == 0 {
		p.bodyHash = xxh3.Hash(p.body) | 1
	}
	h.Lo ^= p.bodyHash * (2*uint64(p.line) + 1)
	return h
}

// allChannels reports whether the client writes lines of this type to every channel.
func allChannels(t gpuflight.Type) bool {
	switch t {
	case gpuflight.JobStart, gpuflight.Init, gpuflight.Shutdown, gpuflight.SegmentStart, gpuflight.SegmentEnd, gpuflight.RunEnd,
		gpuflight.CaptureCapabilities, gpuflight.DictionaryUpdate:
		return true
	}
	return false
}

// batch folds the accepted rows and turns the refused ones into rejects.
func (f *folder) batch(s *session, p *part, l *gpuflight.Line, n uint64, fold func(*session, *part, *gpuflight.Line)) {
	before := s.delta.rejects
	for i := range l.Batch.BadRows {
		bad := &l.Batch.BadRows[i]
		f.reject(s, p, rejectRow{reason: bad.Reason, detail: bad.Detail, typ: l.Type, events: uint64(bad.Count), payload: l.Raw[bad.Start:bad.End]})
	}
	if l.Batch.UnknownColumns > 0 {
		f.extras(s, p, l, gpuflight.ExtraColumns(l), l.Batch.UnknownColumns)
	}
	if l.Batch.UnknownKeys > 0 {
		f.leftovers(s, p, l)
	}
	fold(s, p, l)
	// CountEvents may differ from the rows by what a refused row opened in brackets: rejects are counted in rows, the rest is stored.
	if rejected := s.delta.rejects - before; rejected < n {
		f.stored(s, p, n-rejected)
	}
}

// slowDetail folds a kernel_detail that is not written the client's way; its configuration is known by its content.
func (f *folder) slowDetail(s *session, p *part, line []byte, d *gpuflight.Detail) {
	corr := d.CorrID
	d.CorrID, d.PID, d.App = 0, 0, ""
	hash := detailHash(d)
	config, known := s.configs[hash]
	if !known {
		config = f.newConfig(s, p, hash, d)
		f.detailLeftovers(s, p, line)
	}
	f.applyDetail(s, p, corr, config)
}

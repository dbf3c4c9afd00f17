package gpuflight

import (
	"bytes"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
	"github.com/zeebo/xxh3"
)

var detailHead = []byte(`{"version":1,"type":"kernel_detail","session_id":"`)

// lines folds the lines of a GPU Flight part.
func (f *folding) lines(s *session, p *aggregate.Part, body []byte) {
	for {
		n, blank := gpuflight.BlankLines(body)
		p.Line += int(blank)
		body = body[n:]
		if len(body) == 0 {
			break
		}
		line := body
		if i := bytes.IndexByte(body, '\n'); i >= 0 {
			line, body = body[:i], body[i+1:]
		} else {
			body = nil
		}
		p.Line++
		f.CheckLine(p)
		// Half of today's lines are kernel_details; they are recognised, keyed and joined without being decoded.
		if rest, ok := bytes.CutPrefix(line, detailHead); ok {
			if id, ok := bytes.CutPrefix(rest, s.id); ok && len(id) > 0 && id[0] == '"' && f.detail(s, p, line) {
				continue
			}
		}
		f.line(s, p, line)
	}
}

// line folds any line.
func (f *folding) line(s *session, p *aggregate.Part, line []byte) {
	n := uint64(gpuflight.CountEvents(line))
	if n == 0 && len(bytes.TrimSpace(line)) == 0 {
		return
	}
	l, err := f.decoder.Decode(line)
	if err == nil && l.Batch != nil {
		n = uint64(l.Batch.WireRows()) // CountEvents counts brackets, and a refused row may contain any number of them
	}
	p.Received(n)
	if err != nil {
		f.rejectLine(s, p, l, line, n, err)
		return
	}
	if string(l.SessionID) != s.Key.ID || len(l.SessionID) == 0 {
		r := aggregate.Reject{Reason: gpuflight.ReasonSessionMismatch, Detail: "the line's session_id is not its window's",
			Type: typeName(l.Type), Events: n, Payload: line}
		if len(l.SessionID) == 0 {
			r.Reason, r.Detail = reject.SessionMissing, "the line has no session_id"
		}
		if s.refused(p, f.lineHash(l.Type, p, line)) {
			p.Duplicate(n)
		} else {
			f.Reject(p, r)
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
	if p.Bounded() && f.outside(s, p, l, n) {
		return
	}
	if l.Type.IsBatch() || allChannels(l.Type) || isArtifact(l.Type) {
		if !s.lines.Add(f.lineHash(l.Type, p, line)) {
			if l.Type == gpuflight.DictionaryUpdate && p.Env.Replays() != "" { // it was refused for some of its names
				f.dictionary(s, p, l, true)
				return
			}
			p.Duplicate(n)
			return
		}
	} else if f.seenBody(s, p) || identifiesItself(l.Type) && !s.singles.Add(xxh3.Hash128(line)) {
		p.Duplicate(n)
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
		f.dictionary(s, p, l, false)
	case gpuflight.JobStart, gpuflight.Init:
		f.jobStart(s, p, l)
	case gpuflight.Shutdown:
		f.jobEnd(s, p, l)
	case gpuflight.KernelEvent, gpuflight.MemcpyEvent, gpuflight.ScopeBegin, gpuflight.ScopeEnd, gpuflight.ProfileSample,
		gpuflight.SystemSample,
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
		f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonUnknownType, Detail: "type " + quote(l.TypeName) + " is not known to this version",
			Events: n, Payload: line, Whole: true})
	default:
		if f.single(s, p, l) {
			return
		}
		f.Reject(p, aggregate.Reject{Reason: gpuflight.ReasonNotYet, Detail: "kept whole until a version that stores " + l.Type.String(),
			Type: typeName(l.Type), Events: n, Payload: line, Whole: true})
	}
}

// lineHash identifies a line within its session. Lines that the client writes to all channels come four times, and batches are numbered, so
// for these the content decides. Any other line may rightly be written twice (graph nodes are, at each segment): it was seen before only
// when it stands at the same place of the same bytes, in another upload of them. Cutting is deterministic, so these bytes are the part.
func (f *folding) lineHash(t gpuflight.Type, p *aggregate.Part, line []byte) xxh3.Uint128 {
	h := xxh3.Hash128(line)
	if t.IsBatch() || allChannels(t) || isArtifact(t) {
		return h
	}
	if f.now.bodyHash == 0 {
		f.now.bodyHash = xxh3.Hash(p.Body) | 1
	}
	h.Lo ^= f.now.bodyHash * (2*uint64(p.Line) + 1)
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
func (f *folding) batch(s *session, p *aggregate.Part, l *gpuflight.Line, n uint64, fold func(*session, *aggregate.Part, *gpuflight.Line)) {
	before := s.Delta.Rejects
	for i := range l.Batch.BadRows {
		bad := &l.Batch.BadRows[i]
		f.Reject(p, aggregate.Reject{Reason: bad.Reason, Detail: bad.Detail, Type: typeName(l.Type), Events: uint64(bad.Count),
			Payload: l.Raw[bad.Start:bad.End]})
	}
	if l.Batch.UnknownColumns > 0 {
		f.extras(s, p, l, gpuflight.ExtraColumns(l), l.Batch.UnknownColumns)
	}
	if l.Batch.UnknownKeys > 0 {
		f.leftovers(s, p, l)
	}
	if p.Bounded() {
		f.dropOutside(s, p, l)
	}
	fold(s, p, l)
	// CountEvents may differ from the number of rows when a refused row contains brackets: rejects are counted in rows, the rest is stored.
	if rejected := s.Delta.Rejects - before; rejected < n {
		p.Stored(n - rejected)
	}
}

// slowDetail folds a kernel_detail that is not written the client's way; its configuration is known by its content.
func (f *folding) slowDetail(s *session, p *aggregate.Part, line []byte, d *gpuflight.Detail) {
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

package gpuflight

import (
	"bytes"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/sink/table"
)

// seenBody reports whether the bytes of the whole part were folded before, as a part of another upload. Lines that are not batches and are
// not written to all channels may rightly be written twice (graph nodes are, at each segment), so they were seen before only when they
// stand at the same place of the same bytes. One hash for each part is enough for that. See identifiesItself for lines of which more is
// known.
func (f *folding) seenBody(s *session, p *aggregate.Part) bool {
	if !f.now.bodyAsked {
		h := xxh3.Hash128(p.Body)
		h.Hi = ^h.Hi // a part may be one line, and lines are hashed too
		f.now.bodyAsked, f.now.bodySeen = true, !s.lines.Add(h)
	}
	return f.now.bodySeen
}

// maxSingles is how many lines that identify themselves are remembered for a session. The oldest are forgotten first; a forgotten line
// counts again when it comes once more in a part that was cut in another way.
const maxSingles = 65536

// identifiesItself reports whether no two lines of this type are equal, because each has a time or an ordinal: then the same line is the
// same event, however the upload that brings it again is cut.
func identifiesItself(t gpuflight.Type) bool {
	switch t {
	case gpuflight.MemsetEvent, gpuflight.NvtxMarkerEvent, gpuflight.GraphLaunchEvent, gpuflight.PerfMetricEvent,
		gpuflight.KernelPerfMetricEvent,
		gpuflight.PMSamplingConfig, gpuflight.SassConfig, gpuflight.ExecutionSignature, gpuflight.DeepWindowRuleSummary,
		gpuflight.CounterDataQualitySummary, gpuflight.SystemStart, gpuflight.SystemStop, gpuflight.DeepWindowEvent,
		gpuflight.KernelEvent, gpuflight.MemcpyEvent, gpuflight.ScopeBegin, gpuflight.ScopeEnd, gpuflight.SynchronizationEvent,
		gpuflight.MemoryAllocEvent,
		gpuflight.SystemSample: // not ProfileSample, which may have no time
		return true
	}
	return false
}

// single folds a line that is one event. It reports false if the type is not one of those.
func (f *folding) single(s *session, p *aggregate.Part, l *gpuflight.Line) bool {
	var err error
	switch l.Type {
	case gpuflight.MemsetEvent:
		err = f.memset(s, p, l)
	case gpuflight.NvtxMarkerEvent:
		err = f.marker(s, p, l)
	case gpuflight.GraphLaunchEvent:
		err = f.graphLaunch(s, p, l)
	case gpuflight.GraphNodeDefinition:
		err = f.graphNode(s, p, l)
	case gpuflight.PerfMetricEvent, gpuflight.KernelPerfMetricEvent:
		err = f.perf(s, p, l)
	case gpuflight.PMSamplingConfig:
		err = f.pmConfig(s, p, l)
	case gpuflight.SassConfig:
		err = f.sassConfig(s, p, l)
	case gpuflight.ExecutionSignature:
		err = f.signature(s, p, l)
	case gpuflight.DeepWindowRuleSummary:
		err = f.ruleSummary(s, p, l)
	case gpuflight.CounterDataQualitySummary:
		err = f.counterQuality(s, p, l)
	case gpuflight.SystemStart, gpuflight.SystemStop:
		err = f.system(s, p, l)
	default:
		return false
	}
	if err != nil {
		f.refuse(s, p, l, err)
		return true
	}
	if f.events.Unknown > 0 {
		f.extras(s, p, l, f.events.Extras, f.events.Unknown)
	}
	p.Stored(1)
	return true
}

// rowHead remembers what the last row of a table shared with the one before: its batch, and the indexes of texts that seldom change. So a
// table whose rows come one a line does not cost a look-up for each row.
type rowHead struct {
	s               *session
	b               *table.Batch // nil: nothing is remembered
	part            table.DayPartition
	serial          uint64
	tenant, session int32
	texts           [4]lastText
}

// lastText is the text that the last row had, and its index.
type lastText struct {
	text []byte
	idx  int32
	ok   bool
}

// rawHead returns the batch of a Raw table for a row of this part, with tenant and session appended. nil: the tenant keeps no raw rows.
func (f *folding) rawHead(h *rowHead, s *session, p *aggregate.Part, t *table.Table, head table.Head) *table.Batch {
	if s.NoRaw {
		return nil
	}
	if h.b == nil || h.s != s || h.part != p.Raw || h.serial != f.OutSerial {
		b := f.Out.Batch(t, p.Raw)
		*h = rowHead{s: s, b: b, part: p.Raw, serial: f.OutSerial, tenant: head.Tenant.Index(b, s.Key.Tenant), session: head.SessionID.Index(b,
			s.Key.ID), texts: h.texts}
		for i := range h.texts {
			h.texts[i].ok = false
		}
	}
	head.Tenant.Append(h.b, h.tenant)
	head.SessionID.Append(h.b, h.session)
	f.Out.Saw(p.Env.ReceivedAt)
	return h.b
}

// append adds text to a column, of which the n-th lastText is kept.
func (h *rowHead) append(n int, c table.DictCol, text []byte) {
	if len(text) > rows.MaxTextBytes { // not worth keeping
		c.Append(h.b, c.IndexBytes(h.b, text))
		return
	}
	last := &h.texts[n]
	if !last.ok || !bytes.Equal(last.text, text) {
		last.text, last.idx, last.ok = append(last.text[:0], text...), c.IndexBytes(h.b, text), true
	}
	c.Append(h.b, last.idx)
}

// scopePath is the path of a user scope, empty for "global".
func scopePath(userScope []byte) []byte {
	if string(userScope) == "global" {
		return nil
	}
	return userScope
}

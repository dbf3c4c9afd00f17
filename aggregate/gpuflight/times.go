package gpuflight

import (
	"fmt"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/reject"
)

// A tenant's limits may bound the times of events. What describes a session (its begin and end, its settings, names and code) is taken
// whatever its time is. So are times of another clock than the calendar's, see otherClock.

// outside refuses a line of which no event may be stored, because of its times, and reports whether it did. Such a line is not remembered
// as one that is stored: when it comes again after the limit was raised, it is. Of a batch of which some rows are within the limits
// dropOutside refuses the others.
func (f *folding) outside(s *session, p *aggregate.Part, l *gpuflight.Line, n uint64) bool {
	reason := ""
	if b := l.Batch; b != nil {
		if b.Rows() == 0 || b.Rows() != b.WireRows() {
			return false
		}
		for r := range b.Rows() {
			if reason = outsideRow(p, b, r); reason == "" {
				return false
			}
		}
		if s.lines.Has(f.lineHash(l.Type, p, l.Raw)) {
			return false // stored when it was not too old yet: it is a duplicate
		}
	} else if at, ok := f.timeOf(l); ok {
		if reason = p.Outside(at); reason == "" || s.singles.Has(xxh3.Hash128(l.Raw)) {
			return false
		}
	}
	if reason == "" {
		return false
	}
	if s.refused(p, xxh3.Hash128(l.Raw)) {
		p.Duplicate(n)
		return true
	}
	f.Reject(p, aggregate.Reject{Reason: reason, Detail: "all events of the line are " + p.OutsideWords(reason), Type: typeName(l.Type),
		Events: n, Payload: l.Raw})
	return true
}

// dropOutside takes the rows out of a batch whose times are not within the tenant's limits, and refuses them together.
func (f *folding) dropOutside(s *session, p *aggregate.Part, l *gpuflight.Line) {
	b := l.Batch
	old, future, all := uint64(0), uint64(0), b.Rows()
	b.Keep(func(r int) bool {
		switch outsideRow(p, b, r) {
		case reject.TooOld:
			old++
		case reject.InFuture:
			future++
		default:
			return true
		}
		return false
	})
	refuse := func(reason string, n uint64) {
		if n > 0 {
			detail := fmt.Sprintf("%d of the %d rows of the line are %s", n, all, p.OutsideWords(reason))
			f.Reject(p, aggregate.Reject{Reason: reason, Detail: detail,
				Type: typeName(l.Type), Events: n, Payload: l.Raw[:min(len(l.Raw), 512)], Bytes: uint64(len(l.Raw)), Ref: p.Ref()})
		}
	}
	refuse(reject.TooOld, old)
	refuse(reject.InFuture, future)
}

// outsideRow returns why a row is refused, "" when it is not.
func outsideRow(p *aggregate.Part, b *gpuflight.Batch, r int) string {
	at, ok := b.Time(r)
	if !ok || otherClock(b.Type, at) || b.Type == gpuflight.ProfileSampleBatch &&
		b.At(r, gpuflight.ProfileSampleKind) == activity.SampleSourceMap {
		return ""
	}
	return p.Outside(at)
}

// otherClock reports whether a time need not be the calendar's: AMD's profiler counts from a time of its own, and samples may have none.
func otherClock(t gpuflight.Type, at int64) bool {
	if at >= rows.PlausibleEpoch {
		return false
	}
	switch t {
	case gpuflight.KernelEventBatch, gpuflight.MemcpyEventBatch, gpuflight.SynchronizationEventBatch, gpuflight.MemoryAllocEventBatch,
		gpuflight.ProfileSampleBatch, gpuflight.KernelEvent, gpuflight.MemcpyEvent, gpuflight.SynchronizationEvent,
		gpuflight.MemoryAllocEvent, gpuflight.ProfileSample, gpuflight.MemsetEvent:
		return true
	}
	return false
}

// timeOf returns the time of a line that is one event, if it has one that is bounded. A line that does not decode is refused for that.
func (f *folding) timeOf(l *gpuflight.Line) (at int64, ok bool) {
	var err error
	switch l.Type {
	case gpuflight.MemsetEvent:
		var e *gpuflight.Memset
		if e, err = f.events.Memset(l.Raw); err == nil {
			at = e.StartNS
		}
	case gpuflight.NvtxMarkerEvent:
		var e *gpuflight.Marker
		if e, err = f.events.Marker(l.Raw); err == nil {
			at = e.StartNS
		}
	case gpuflight.GraphLaunchEvent:
		var e *gpuflight.GraphLaunch
		if e, err = f.events.GraphLaunch(l.Raw); err == nil {
			at = e.StartNS
		}
	case gpuflight.PerfMetricEvent:
		var e *gpuflight.Perf
		if e, err = f.events.Perf(l.Raw); err == nil {
			at = e.StartNS
		}
	case gpuflight.SystemStart, gpuflight.SystemStop:
		var e *gpuflight.System
		if e, err = f.events.System(l.Raw); err == nil {
			at = e.TimeNS
		}
	case gpuflight.KernelEvent, gpuflight.MemcpyEvent, gpuflight.ScopeBegin, gpuflight.ScopeEnd, gpuflight.ProfileSample,
		gpuflight.SystemSample, gpuflight.SynchronizationEvent, gpuflight.MemoryAllocEvent:
		if err = gpuflight.DecodeOlder(l.Raw, l.Type, &f.older.event); err == nil {
			at = f.older.event.AtNS
		}
	default:
		return 0, false
	}
	return at, err == nil && !otherClock(l.Type, at)
}

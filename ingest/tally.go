package ingest

import (
	"cmp"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// tally is what one upload came to.
type tally struct {
	receipt
	kind          stream.Kind      // of the parts; "" is stream.KindGPUFlight
	bytes         int64            // published
	lines         int64            // blank ones included
	parts         [2]int           // published, rejects
	refusedBytes  map[string]int64 // by reason
	refusedEvents map[string]uint64
}

// cost is what the upload is charged for. An event is a row, and a line that holds none costs as well.
func (t *tally) cost() cost {
	raw := t.bytes
	for _, n := range t.refusedBytes {
		raw += n
	}
	return cost{events: max(t.Accepted, uint64(t.lines)), raw: raw}
}

func (t *tally) add(p piece) {
	t.lines += p.lines
	if p.kind != pieceReject {
		t.Accepted += p.events
		t.bytes += p.size
		t.parts[0]++
		return
	}
	t.Rejected += p.events
	t.parts[1]++
	t.Whole = t.Whole && p.whole
	if t.refusedBytes == nil {
		t.refusedBytes, t.refusedEvents = map[string]int64{}, map[string]uint64{}
	}
	t.refusedBytes[p.reason] += p.size
	t.refusedEvents[p.reason] += p.events
	if len(t.Errors) < maxListedErrors {
		e := lineError{Line: p.line, Reason: p.reason}
		if kind, _ := gpuflight.Peek(p.body); kind != gpuflight.TypeUnknown {
			e.Type = kind.String()
		}
		t.Errors = append(t.Errors, e)
	}
}

// enterBooks counts a finished upload.
func (g *Gateway) enterBooks(tenantName string, x *exchange, t *tally) {
	m := g.metrics
	x.events, x.bytes, x.refused = t.Accepted, t.bytes, t.Rejected
	m.windows.WithLabelValues(tenantName, x.outcome).Inc()
	m.publishedEvents.WithLabelValues(tenantName).Add(float64(t.Accepted))
	m.publishedBytes.WithLabelValues(tenantName).Add(float64(t.bytes))
	m.parts.WithLabelValues(tenantName, string(cmp.Or(t.kind, stream.KindGPUFlight))).Add(float64(t.parts[0]))
	m.storing.ok()
	m.parts.WithLabelValues(tenantName, string(stream.KindReject)).Add(float64(t.parts[1]))
	events, bytes := t.Accepted, t.bytes
	for reason, n := range t.refusedBytes {
		m.rejectedBytes.WithLabelValues(tenantName, reason).Add(float64(n))
		m.rejectedEvents.WithLabelValues(tenantName, reason).Add(float64(t.refusedEvents[reason]))
		events += t.refusedEvents[reason]
		bytes += n
	}
	m.receivedEvents.WithLabelValues(tenantName).Add(float64(events))
	m.receivedBytes.WithLabelValues(tenantName).Add(float64(bytes))
}

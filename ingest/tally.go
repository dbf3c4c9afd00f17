package ingest

import (
	"github.com/warpline/warpline/ingest/doorbook"
	"github.com/warpline/warpline/proto/stream"
)

// Tally is what one upload came to.
type Tally struct {
	Accepted, Rejected uint64 // events
	// Whole says that every byte was kept: of what was refused too.
	Whole bool
	// Events is what the upload is charged for if that is more than Accepted and Rejected: a line without an event costs as well.
	Events uint64

	bytes         int64            // published
	parts         [2]int           // published, rejects
	refusedBytes  map[string]int64 // by reason
	refusedEvents map[string]uint64
}

// Accept counts what is published: events, and bytes as they came.
func (t *Tally) Accept(events uint64, bytes int64) {
	t.Accepted += events
	t.bytes += bytes
}

// Refuse counts what is refused for a reason.
func (t *Tally) Refuse(reason string, events uint64, bytes int64) {
	t.Rejected += events
	if t.refusedBytes == nil {
		t.refusedBytes, t.refusedEvents = map[string]int64{}, map[string]uint64{}
	}
	t.refusedBytes[reason] += bytes
	t.refusedEvents[reason] += events
}

// sent counts a part.
func (t *Tally) sent(e *stream.Envelope) {
	if e.Kind == stream.KindReject {
		t.parts[1]++
		return
	}
	t.parts[0]++
}

// cost is what the upload is charged for.
func (t *Tally) cost() cost {
	raw := t.bytes
	for _, n := range t.refusedBytes {
		raw += n
	}
	return cost{events: max(t.Accepted+t.Rejected, t.Events), raw: raw}
}

// enterBooks counts a finished upload.
func (g *Gateway) enterBooks(tenantName string, x *exchange, t *Tally, kind stream.Kind) {
	m := g.metrics
	x.events, x.bytes, x.refused = t.Accepted, t.bytes, t.Rejected
	m.windows.WithLabelValues(tenantName, x.outcome).Inc()
	m.publishedEvents.WithLabelValues(tenantName).Add(float64(t.Accepted))
	m.publishedBytes.WithLabelValues(tenantName).Add(float64(t.bytes))
	m.parts.WithLabelValues(tenantName, string(kind)).Add(float64(t.parts[0]))
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

// enterDoor notes in the gateway's own book what JetStream has of an upload. last is where its record says that its last part is, 0 when it
// does not say so.
func (g *Gateway) enterDoor(u *Upload, p *Publisher, c *claim, last uint64) {
	if c == nil || c.key == "" {
		last = 0
	}
	up := doorbook.Upload{Tenant: u.Tenant, Source: p.Envelope.Source, Received: u.Received, RollupDays: p.Envelope.RollupDays, Last: last,
		Own: last > 0 && lostToken(c.key) != stream.ManySessionsToken, Parts: p.stored}
	if up.Own {
		up.Session, up.Window = u.Session, Printable(u.Window, maxUploadName)
	}
	g.door.Enter(up)
}

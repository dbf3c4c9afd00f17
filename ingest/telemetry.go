package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/proto/tenant"
)

// Bounds of the answer.
const (
	maxListedRefusals = 100
	maxMessageBytes   = 512 // of a refusal's message, which may quote the record
)

// recordError is an entry of the answer's "errors".
type recordError struct {
	Index   int    `json:"index"`
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// telemetryReceipt is the answer to an upload of telemetry. It is the same when the upload comes again, save Duplicate.
type telemetryReceipt struct {
	Accepted  uint64        `json:"accepted"` // records
	Rejected  uint64        `json:"rejected"`
	Duplicate bool          `json:"duplicate"` // all of it was stored before
	Sessions  int           `json:"sessions"`  // processes that the records come from
	Errors    []recordError `json:"errors"`    // the first few
	Omitted   uint64        `json:"errors_omitted"`
}

// serveTelemetry takes an upload of memory telemetry: spool, read once to know whether it can be read as events at all, recognise,
// read again and publish record by record, answer.
func (g *Gateway) serveTelemetry(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	m, no := g.enter(r, x)
	if no != nil {
		return no
	}
	defer g.leave(m)
	_, limits := m.current()
	o, no := readTelemetryOptions(r)
	if no != nil {
		return no
	}
	if no := knownEncoding(r); no != nil {
		return no
	}
	u, s, no := g.receive(ctx, w, r, x, m, limits.MaxBodyBytes)
	if no != nil {
		return no
	}
	defer s.close()
	if s.total > s.size {
		return tooLarge(gpuflight.ReasonBodyTooLarge, fmt.Sprintf("the body is longer than limit-body = %d bytes", limits.MaxBodyBytes))
	}
	wk, no := g.takeWorker(ctx, m)
	if no != nil {
		return no
	}
	defer g.giveWorker(m, wk)
	u.asked = g.asks(r, m)
	answer, no := g.acceptTelemetry(ctx, m, limits, u, o, s, wk, x)
	if no != nil {
		return no
	}
	g.answers(ctx, w, m, u.asked)
	x.answer = answer
	return nil
}

// tooLarge is the answer to what is over a limit. Nothing of it is kept: unlike the agent, whoever sends telemetry hears of it.
func tooLarge(code, detail string) *refusal {
	return &refusal{status: http.StatusRequestEntityTooLarge, code: code, detail: detail + "; nothing was stored: send it in pieces, or ask the operator for a higher limit"}
}

// acceptTelemetry stores a spooled upload, or recognises that it is stored.
func (g *Gateway) acceptTelemetry(ctx context.Context, m *meter, limits tenant.Limits, u *upload, o *telemetryOptions, s *spool, wk *worker, x *exchange) (*telemetryReceipt, *refusal) {
	var magic [2]byte // nothing that can be read as events begins with these bytes
	s.ReadAt(magic[:], 0)
	u.gzip = u.gzip || magic == [2]byte{0x1f, 0x8b}
	cut := cutLimits{maxBody: limits.MaxBodyBytes, maxRaw: limits.MaxRawBytes, maxRatio: limits.MaxRatio, maxLine: limits.MaxLineBytes}
	doc := &telemetryDocument{source: &wk.source, spool: s, gzip: u.gzip, o: o, limits: cut}
	content, no := doc.survey()
	if no != nil {
		return nil, no
	}
	// What an upload is known by: what it says and how it was to be read, however it was compressed; or the client's key.
	want := window{id: o.identity(content), limits: cut}
	want.body = want.id
	kind := "content"
	if o.key != "" {
		want.id, kind = digestOf(o.key), "key"
	}
	identity := "telemetry/" + kind + "/" + want.id.String()
	c, err := g.claim(ctx, place{tenant: u.tenant, key: telemetryKey(u.tenant, kind, want.id)}, want, func(*claim) string { return identity })
	if errors.Is(err, errConflict) {
		x.outcome = "conflict"
		g.metrics.windows.WithLabelValues(u.tenant, "conflict").Inc()
		return nil, &refusal{status: http.StatusUnprocessableEntity, code: "idempotency_conflict",
			detail: "this Idempotency-Key was used for another body or other options within the last days; nothing was stored: use a new key for new content"}
	}
	if err != nil {
		return nil, g.failed("recognising the upload", atWindows(err))
	}
	repeat := c.window.state == windowDone
	x.outcome = c.outcome()
	doc.limits = c.window.limits
	reader, err := doc.open()
	if err != nil {
		return nil, asRefusal(err)
	}
	p := g.publisher(u, identity, limits, wk)
	p.envelope.Source, p.envelope.Origin = "telemetry", o.origin()
	if wk.buf == nil {
		wk.buf = make([]byte, stream.PartBytes)
	}
	t := newTelemetrySorter(g, p, wk.buf, repeat)
	t.upload = content
	t.summarize(doc.layout.Summary)
	if o.format == formatTF && doc.layout.AlertsEnd > 0 {
		t.withAlerts(doc.alerts)
	}
	err = t.all(ctx, reader)
	wk.out = p.scratch
	if err != nil {
		p.abandon()
		var de *telemetry.DocumentError
		if errors.As(err, &de) { // the survey has passed it
			err = fmt.Errorf("the spooled body changed: %w", err)
		}
		return nil, g.failed("storing the upload", err)
	}
	answer := &t.telemetryReceipt
	if answer.Omitted = answer.Rejected - uint64(len(answer.Errors)); repeat {
		// It was read again for the sake of the errors alone. What counts is what was stored.
		g.repeated(u.tenant, "telemetry", x, limits, c)
		u.asked.repeat(&c.window)
		if u.asked.mayWait(&c.window) {
			for partition, seq := range g.ends(ctx, t.partitions) {
				u.asked.waits(partition, seq)
			}
		}
		m.charge(time.Now(), cost{events: c.window.accepted + c.window.rejected, raw: t.books.cost().raw})
		answer.Accepted, answer.Rejected, answer.Duplicate = c.window.accepted, c.window.rejected, true
		return answer, nil
	}
	t.books.Accepted, t.books.Rejected, t.books.Whole = t.Accepted, t.Rejected, true
	first, err := g.settle(ctx, c, &t.books, p.last)
	if err != nil {
		return nil, g.failed("recording the upload", atWindows(err))
	}
	if m.charge(time.Now(), cost{events: t.Accepted + t.Rejected + t.summaries() + t.alerted, raw: t.books.cost().raw}); !first {
		g.repeated(u.tenant, "telemetry", x, limits, c)
		return answer, nil
	}
	g.enterBooks(u.tenant, x, &t.books)
	return answer, nil
}

// telemetryKey is the KV key of an upload: each has a record of its own, so that a tenant's many processes never wait for each other.
// Nothing else has a second token of one letter.
func telemetryKey(tenant, kind string, id digest) string {
	return tenant + ".t." + kind + "." + id.String()
}

// serveTelemetrySchema serves the JSON Schema of a record. It is no secret.
func (g *Gateway) serveTelemetrySchema(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *refusal {
	w.Header().Set("Content-Type", "application/schema+json")
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Write(telemetry.Schema())
	return nil
}

// clipText cuts text for people to limit bytes of UTF-8.
func clipText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

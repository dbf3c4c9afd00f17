// Package telemetry is the door of memory telemetry: exports, sink folders and bundles of stormlog, in JSON, NDJSON and CSV.
//
// Start with Source. A document is read once to know whether it can be read as events at all (document.go), recognised by what it says
// (options.go), and read again record by record; the records are sorted by session and published (sort.go). The answer names everything
// that was not taken.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
	"github.com/warpline/warpline/proto/tenant"
)

// Source is memory telemetry, for ingest.Config.Sources. Its sessions are named after processes, which have the same host, pid and rank
// again after a restart.
func Source() ingest.Source {
	s := ingest.Source{
		Name: "telemetry", Prefixes: []string{telemetry.SessionPrefix}, Recurs: true,
		Routes: []ingest.Route{
			{Path: "/api/v1/telemetry", Upload: newUpload},
			{Path: "/api/v1/telemetry/schema", Page: serveSchema},
		},
		Kinds:    []stream.Kind{stream.KindTelemetry},
		Reasons:  []string{reject.TooManySessions},
		Refusals: []string{"bad_option", "idempotency_conflict"},
	}
	for _, c := range telemetry.Codes() {
		s.Reasons, s.Refusals = append(s.Reasons, string(c)), append(s.Refusals, string(c))
	}
	return s
}

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

// answer is the answer to an upload of telemetry. It is the same when the upload comes again, except for Duplicate.
type answer struct {
	Accepted  uint64        `json:"accepted"` // records
	Rejected  uint64        `json:"rejected"`
	Duplicate bool          `json:"duplicate"` // all of it was stored before
	Sessions  int           `json:"sessions"`  // processes that the records come from
	Errors    []recordError `json:"errors"`    // the first few
	Omitted   uint64        `json:"errors_omitted"`
}

// upload is a document with records.
type upload struct {
	options *options
	most    int64 // limit-body
	doc     document
	content ingest.Digest // of what the document says
	answer  answer
}

func newUpload(r *http.Request, limits tenant.Limits) (ingest.Intake, error) {
	o, no := readOptions(r)
	if no != nil {
		return nil, no
	}
	return &upload{options: o, most: limits.MaxBodyBytes}, nil
}

// Received implements ingest.Intake.
func (p *upload) Received(u *ingest.Upload) error {
	if u.Total() > u.Size() {
		return tooLarge(reject.BodyTooLarge, fmt.Sprintf("the body is longer than limit-body = %d bytes", p.most))
	}
	return nil
}

// tooLarge is the answer to what is over a limit. Nothing of it is kept: unlike GPU Flight's agent, senders of telemetry read the answer.
func tooLarge(code, detail string) *ingest.Refusal {
	return &ingest.Refusal{
		Status: http.StatusRequestEntityTooLarge, Code: code,
		Detail: detail + "; nothing was stored: send it in pieces, or ask the operator for a higher limit",
	}
}

// Survey implements ingest.Intake. An upload is known by what it says and how it is to be read, however it was compressed; or by the
// client's Idempotency-Key.
func (p *upload) Survey(u *ingest.Upload) (ingest.Identity, error) {
	p.doc = document{u: u, o: p.options}
	var no *ingest.Refusal
	p.content, no = p.doc.survey()
	if no != nil {
		return ingest.Identity{}, no
	}
	body := p.options.identity(p.content)
	id, kind := body, "content"
	if p.options.key != "" {
		id, kind = ingest.DigestOf(p.options.key), "key"
	}
	known := u.BySource(kind, id, body, "telemetry/"+kind+"/"+id.String())
	known.Again = true
	return known, nil
}

// Conflict implements ingest.Intake.
func (p *upload) Conflict(*ingest.Upload) *ingest.Refusal {
	return &ingest.Refusal{
		Status: http.StatusUnprocessableEntity, Code: "idempotency_conflict",
		Detail: "this Idempotency-Key was used for another body or other options within the last days; nothing was stored: use a new " +
			"key for new content",
	}
}

// Publish implements ingest.Intake.
func (p *upload) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	u.Limits.MaxBody = u.Size() // which was within the limit
	reader, err := p.doc.open()
	if err != nil {
		return ingest.Unavailable("internal", "the gateway failed", err)
	}
	to.Envelope.Kind, to.Envelope.Origin = stream.KindTelemetry, p.options.origin()
	t := newSorter(to, u.Buffer())
	t.upload = p.content
	t.summarize(p.doc.layout.Summary)
	if p.options.format == formatTF && p.doc.layout.AlertsEnd > 0 {
		t.withAlerts(p.doc.alerts)
	}
	err = t.all(ctx, reader)
	var unreadable *telemetry.DocumentError
	if errors.As(err, &unreadable) { // the survey could read it
		err = fmt.Errorf("the spooled body changed: %w", err)
	}
	to.Tally.Whole = true
	to.Tally.Events = to.Tally.Accepted + to.Tally.Rejected + t.summaries() + t.alerted
	p.answer = t.answer
	return err
}

// Answer implements ingest.Intake. A repeat was read again only for its errors. The counts are those of what was stored.
func (p *upload) Answer(o ingest.Outcome) any {
	a := p.answer
	a.Omitted = a.Rejected - uint64(len(a.Errors))
	a.Accepted, a.Rejected, a.Duplicate = o.Accepted, o.Rejected, o.Repeat
	return a
}

// serveSchema serves the JSON Schema of a record.
func serveSchema(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/schema+json")
	w.Header().Set("Cache-Control", "max-age=3600")
	w.Write(telemetry.Schema())
}

// clipText cuts text for people to limit bytes of UTF-8.
func clipText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

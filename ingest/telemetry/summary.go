package telemetry

import (
	"context"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// summaryPart is the number of the part that an upload's summary is; those of its records count from 0.
const summaryPart = -1

// summarize says what the upload's session summary is, nil for none.
func (t *sorter) summarize(s *telemetry.SessionSummary) {
	t.summary = s
	t.p.Envelope.Summarized = s != nil
}

// summaries is what summaries cost, in events: each one may make a worker keep a session.
func (t *sorter) summaries() uint64 {
	if t.summary == nil {
		return 0
	}
	return 1
}

// sendSummary publishes the summary, for the session that its records are of; there may be none.
func (t *sorter) sendSummary(ctx context.Context) error {
	if t.summary == nil {
		return nil
	}
	t.id = appendSession(t.id[:0], &telemetry.Event{SessionID: []byte(t.summary.SessionID), Has: telemetry.HasSession}, t.upload)
	e := t.p.Envelope
	e.Session, e.Kind, e.Part, e.Events, e.Bytes, e.Last = string(t.id), stream.KindSummary, summaryPart, 0, 0, true
	if t.queues[e.Session] == nil {
		t.Sessions++
	}
	body, err := telemetry.AppendSummary(t.body[:0], t.summary)
	if err != nil {
		return err
	}
	return t.p.Send(ctx, &e, body)
}

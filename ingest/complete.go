package ingest

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// completeIdentity is the identity of every session-complete, so that the second one of a session changes nothing.
const completeIdentity = "complete"

// serveComplete publishes that a session has ended. Launcher and agent may both say so, early or twice.
func (g *Gateway) serveComplete(ctx context.Context, _ http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	m, no := g.enter(r, x)
	if no != nil {
		return no
	}
	defer g.leave(m)
	_, limits := m.current()
	session := strings.TrimSpace(r.Header.Get("X-GpuFlight-Session-Id"))
	if session == "" || printable(session, maxSessionBytes) != session {
		return &refusal{status: http.StatusBadRequest, code: "session_missing",
			detail: fmt.Sprintf("send X-GpuFlight-Session-Id: the session that has ended, at most %d bytes without control characters", maxSessionBytes)}
	}
	x.session = session
	// It costs one event: each one may make a worker keep a session.
	if no := m.admit(time.Now(), 0); no != nil {
		return no
	}
	m.charge(time.Now(), cost{events: 1})
	if low := g.disk.check(); low != "" {
		return unavailable("disk_low", low, nil)
	}
	u := &upload{tenant: x.tenant, session: session, host: printable(r.Header.Get("X-GpuFlight-Hostname"), maxHostBytes), received: time.Now()}
	p := g.publisher(u, completeIdentity, limits, nil)
	e := p.envelope
	e.Kind, e.Last = stream.KindComplete, true
	err := p.send(ctx, &e, nil)
	if err == nil {
		err = p.flush(ctx)
	}
	if err != nil {
		p.abandon()
		return g.failed("storing the end of the session", err)
	}
	g.metrics.parts.WithLabelValues(x.tenant, string(stream.KindComplete)).Inc()
	x.answer = struct {
		Session string `json:"session_id"`
		State   string `json:"state"`
	}{session, "complete"}
	return nil
}

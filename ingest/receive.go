package ingest

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// knownEncoding refuses a body that is compressed in a way the gateway does not read.
func knownEncoding(r *http.Request) *refusal {
	switch contentEncoding(r) {
	case "", "identity", "gzip", "x-gzip":
		return nil
	}
	return &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_encoding", header: [2]string{"Accept-Encoding", "gzip, identity"},
		detail: "Content-Encoding must be gzip or identity"}
}

func contentEncoding(r *http.Request) string {
	return strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
}

// receive admits an upload and spools at most limit bytes of its body. The caller closes the spool.
func (g *Gateway) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange, m *meter, limit int64) (*upload, *spool, *refusal) {
	if low := g.disk.check(); low != "" {
		return nil, nil, unavailable("disk_low", low, nil)
	}
	u := &upload{tenant: x.tenant, received: time.Now()}
	switch contentEncoding(r) {
	case "gzip", "x-gzip":
		u.gzip = true
	}
	if no := m.admit(u.received, r.ContentLength); no != nil {
		return nil, nil, no
	}
	s := &spool{budget: g.budget, tenant: x.tenant}
	if err := s.receive(ctx, w, r, g.cfg.SpoolDir, limit, pace{still: g.cfg.ReadTimeout, grace: g.cfg.SlowGrace, least: g.cfg.LeastSpeed}); err != nil {
		s.close()
		return nil, nil, asRefusal(err)
	}
	x.body = s.total
	if r.ContentLength <= 0 {
		m.charge(time.Now(), cost{bytes: s.total})
	}
	g.metrics.bodyBytes.WithLabelValues(x.tenant).Add(float64(s.total))
	if s.unread {
		w.Header().Set("Connection", "close")
	}
	return u, s, nil
}

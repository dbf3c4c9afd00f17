package ingest

import (
	"context"
	"net/http"
	"strings"
	"time"
)

// receive admits an upload and spools its body, for every route that takes bodies of any size. The caller closes the spool.
func (g *Gateway) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange, m *meter) (*upload, *spool, *refusal) {
	_, limits := m.current()
	if low := g.disk.check(); low != "" {
		return nil, nil, unavailable("disk_low", low, nil)
	}
	u := &upload{tenant: x.tenant, received: time.Now()}
	switch enc := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding"))); enc {
	case "gzip", "x-gzip":
		u.gzip = true
	case "", "identity":
	default:
		return nil, nil, &refusal{status: http.StatusUnsupportedMediaType, code: "unsupported_encoding", header: [2]string{"Accept-Encoding", "gzip, identity"},
			detail: "Content-Encoding must be gzip or identity"}
	}
	m.share(int(g.replicas.Load()))
	if no := m.admit(u.received, r.ContentLength); no != nil {
		return nil, nil, no
	}
	s := &spool{budget: g.budget, meter: m}
	if err := s.receive(ctx, w, r, g.cfg.SpoolDir, limits.MaxBodyBytes, g.cfg.ReadTimeout); err != nil {
		s.close()
		return nil, nil, asRefusal(err)
	}
	x.body = s.total
	if r.ContentLength <= 0 {
		m.charge(time.Now(), 0, s.total)
	}
	g.metrics.bodyBytes.WithLabelValues(x.tenant).Add(float64(s.total))
	if s.unread {
		w.Header().Set("Connection", "close")
	}
	return u, s, nil
}

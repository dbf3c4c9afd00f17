package ingest

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// A counter that appears with its first failure looks to Prometheus as if nothing had happened: rate and increase see a change, not a
// beginning. So series start at 0 for all label values that are known. Tenants are not known beforehand: "" stands for one that is yet to
// come, tenant.OtherSeries for all beyond the bound of series, and each of the first tenantSeries tenants that have a key gets series of
// its own at once.
const tenantSeries = 64

// perTenant is a counter whose first label is the tenant. Tenants beyond the bound of series share one of tenant.OtherSeries.
type perTenant struct {
	*prometheus.CounterVec
	of *tenant.Series
}

// WithLabelValues returns the counter of a tenant, and of the values of other labels.
func (p perTenant) WithLabelValues(name string, others ...string) prometheus.Counter {
	return p.CounterVec.WithLabelValues(append([]string{p.of.Label(name, time.Now())}, others...)...)
}

// endSilent removes the series of tenants of which nothing was counted for long.
func (m *metrics) endSilent(now time.Time) {
	for _, name := range m.tenants.Silent(now) {
		for _, c := range m.byTenant {
			c.DeletePartialMatch(prometheus.Labels{"tenant": name})
		}
	}
}

// shares are what tenants have of what they may have.
func (g *Gateway) shares() (all []shares.Share) {
	g.guests.mu.Lock()
	list := slices.Collect(maps.Values(g.guests.by))
	g.guests.mu.Unlock()
	record, recorded := g.uploads.shares(), float64(g.uploads.stored.Load())
	lines, waiting := g.parts.shares()
	workers := g.holdings.Shares(time.Now())
	for _, of := range list {
		l, own := g.bounds(of)
		all = append(all, own...)
		add := func(what string, used, limit float64) {
			all = append(all, shares.Share{Tenant: of.name, Of: what, Used: used, Limit: limit})
		}
		add(shares.EventsPerSecond, -1, l.EventsPerSecond)
		add(shares.BytesPerSecond, -1, l.BytesPerSecond)
		seats, mostSeats := g.seats.share(of.name)
		if l.UploadsAtOnce > 0 {
			mostSeats = min(mostSeats, int64(l.UploadsAtOnce))
		}
		add(shares.UploadsAtOnce, float64(seats), float64(mostSeats))
		spool, mostSpool := g.budget.share(of.name)
		add(shares.Spool, float64(spool), float64(mostSpool))
		all = append(all, workers(of.name)...)
		if own, most := g.backlog.share(of.name); most > 0 {
			add(shares.Ingest, float64(own), float64(most))
		}
		// When the record is full, the one with most has its oldest forgotten. It may have what the others leave.
		if most := float64(g.uploads.room.Load()); most > 0 {
			own := float64(record[of.name])
			add(shares.UploadRecord, own, max(fullAbove*most-max(recorded-own, 0), 1))
		}
		if most := g.parts.room.Load(); most > 0 {
			own := lines[of.name]
			add(shares.LargeLines, float64(own), float64(max((most-waiting+own)/2, 1)))
		}
	}
	return all
}

// listenToWorkers takes over what workers tell of tenants until ctx ends.
func (g *Gateway) listenToWorkers(ctx context.Context) {
	sub, err := g.streams.Conn.Subscribe(stream.HoldingSubject, func(m *nats.Msg) {
		now := time.Now()
		if err := g.holdings.Heard(m.Data, now); err != nil {
			if ok, held := g.quiet.say("holding", now); ok {
				g.cfg.Logger.Warn("what a worker tells of tenants' shares cannot be read, so the metrics do not have it: give all roles one "+
					"version of warpline", "err", err, "alike_since_last_line", held)
			}
		}
	})
	if err != nil {
		g.cfg.Logger.Error("the metrics do not have what tenants have with workers", "err", err)
		return
	}
	defer sub.Unsubscribe()
	<-ctx.Done()
}

// bounds are the limits of a tenant, and what it has of those and of its quotas that do not depend on other tenants.
func (g *Gateway) bounds(of *guest) (l tenant.Limits, all []shares.Share) {
	of.mu.Lock()
	l, u := of.limits.Value(), of.today.Today(time.Now())
	of.mu.Unlock()
	add := func(what string, used, limit float64) {
		all = append(all, shares.Share{Tenant: of.name, Of: what, Used: used, Limit: limit})
	}
	if n := g.active.Active(of.name); n > 0 || l.ActiveSessions > 0 { // where nothing bounds them they are not counted
		add(shares.ActiveSessions, float64(n), float64(l.ActiveSessions))
	}
	add(shares.PendingBytes, float64(g.backlog.owes(of.name)), float64(l.PendingBytes))
	if l.EventsPerDay > 0 {
		add(shares.EventsPerDay, float64(u.Events), l.EventsPerDay)
	}
	if l.BytesPerDay > 0 {
		add(shares.BytesPerDay, float64(u.Bytes), l.BytesPerDay)
	}
	return l, all
}

// Shares are what a tenant has of its limits and quotas. What it has of stores is not among them: how much that may be tells of the others.
func (g *Gateway) Shares(name string) []shares.Share {
	of := g.guests.known(name)
	if of == nil {
		return nil
	}
	_, all := g.bounds(of)
	return all
}

// labels are the values that labels are known to have: the gateway's own and those of its sources.
type labels struct {
	refusals, reasons []string
	kinds             []stream.Kind
	uploads, pages    []string // routes
}

// refusalCodes are the codes of problem documents that are the gateway's own.
var refusalCodes = []string{
	"not_found", "method_not_allowed", "unauthorized", "wrong_scope", "tenant_disabled",
	"starting", "rate_limited", "quota_exceeded", "too_many_requests", tooManySessions, "too_much_pending",
	"unsupported_encoding",
	"disk_low", "spool_full", "spool_failed", "too_slow", "broken_body", "busy", "not_stored", "unknown_upload", "internal",
	reject.SessionReserved, "draining", "messages_full", "message_too_large", "bad_message",
}

// doorReasons are why the gateway refuses events that it keeps as rejects, of any source.
var doorReasons = []string{
	reject.SessionMissing, reject.SessionReserved, reject.LineTooLong, reject.TornGzip, reject.BodyTooLarge, reject.RatioExceeded,
}

var (
	outcomes      = []string{"new", "repeat", "resumed", "conflict", "lost_and_resent", "line", "incomplete_headers"}
	storeFailures = []string{"parts_full", "ingest_share", "full", "no_responders", "disconnected", "timeout", "other"}
	uploadStatus  = []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusPaymentRequired,
		http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusTooManyRequests,
		http.StatusServiceUnavailable}
)

// labelsOf adds what the sources know.
func labelsOf(sources []Source) labels {
	l := labels{
		refusals: slices.Clone(refusalCodes), reasons: slices.Clone(doorReasons), kinds: []stream.Kind{stream.KindReject},
		pages: []string{routeVersion, routeUploads, routeMetrics, routeHealth, routeReady},
	}
	for i := range sources {
		s := &sources[i]
		l.refusals = append(l.refusals, s.Refusals...)
		l.reasons = append(l.reasons, s.Reasons...)
		l.kinds = append(l.kinds, s.Kinds...)
		for _, r := range s.Routes {
			if r.Page != nil {
				l.pages = append(l.pages, r.Path)
			} else {
				l.uploads = append(l.uploads, r.Path)
			}
		}
	}
	return l
}

// begin makes the series whose labels are known from the start.
func (m *metrics) begin() {
	for _, code := range m.known.refusals {
		m.refused.WithLabelValues(code)
	}
	for _, reason := range []string{reject.TornGzip, reject.BodyTooLarge, reject.RatioExceeded} {
		m.refused.WithLabelValues(reason)
	}
	for _, reason := range storeFailures {
		m.failures.WithLabelValues(reason)
	}
	for _, route := range m.known.uploads {
		for _, status := range uploadStatus {
			m.requests.WithLabelValues(route, strconv.Itoa(status))
		}
		m.seconds.WithLabelValues(route)
	}
	for _, route := range m.known.pages {
		m.requests.WithLabelValues(route, "200")
	}
	m.requests.WithLabelValues(routeReady, "503")
	m.requests.WithLabelValues("unknown", "404")
	m.meet("")
	m.meet(tenant.OtherSeries)
}

// meet makes the series of a tenant.
func (m *metrics) meet(name string) {
	if m.met.Add(1) > 2+tenantSeries || !m.tenants.Meet(name, time.Now()) {
		return
	}
	for _, c := range []perTenant{m.receivedEvents, m.receivedBytes, m.publishedEvents, m.publishedBytes,
		m.repeatedEvents, m.droppedRejects, m.forgotten, m.bodyBytes, m.backlogWait} {
		c.WithLabelValues(name)
	}
	for _, reason := range m.known.reasons {
		m.rejectedEvents.WithLabelValues(name, reason)
		m.rejectedBytes.WithLabelValues(name, reason)
	}
	for _, kind := range m.known.kinds {
		m.parts.WithLabelValues(name, string(kind))
	}
	for _, outcome := range outcomes {
		m.windows.WithLabelValues(name, outcome)
	}
}

package ingest

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// A counter that comes into being with its first failure looks to Prometheus as if nothing had happened: rate and increase see a change, not
// a beginning. So series are there at 0 for all values of their labels that are known. Tenants are not known beforehand: "" stands for
// one that is yet to come, and each of the first tenantSeries that has a key gets series of its own at once.
const tenantSeries = 64

// refusalCodes are the codes of problem documents that are the gateway's own; those of telemetry's documents are proto/telemetry's.
var refusalCodes = []string{
	"not_found", "method_not_allowed", "unauthorized", "starting", "rate_limited", "too_many_requests", "unsupported_encoding",
	"disk_low", "spool_full", "spool_failed",
	"too_slow", "broken_body", "crc_mismatch", "window_identity_conflict", "idempotency_conflict", "session_missing",
	"bad_option", "busy", "not_stored", "unknown_upload", "internal",
}

// doorReasons are why the gateway refuses events that it keeps as rejects.
var doorReasons = []string{
	gpuflight.ReasonBadJSON, gpuflight.ReasonSessionMissing, gpuflight.ReasonLineTooLong, gpuflight.ReasonTornGzip,
	gpuflight.ReasonBodyTooLarge, gpuflight.ReasonRatioExceeded, reasonTooManySessions,
}

var (
	outcomes      = []string{"new", "repeat", "resumed", "conflict", "lost_and_resent", "line", "incomplete_headers"}
	storeFailures = []string{"parts_full", "full", "no_responders", "disconnected", "timeout", "other"}
	partKinds     = []stream.Kind{stream.KindGPUFlight, stream.KindTelemetry, stream.KindReject, stream.KindComplete}
	uploadStatus  = []int{http.StatusOK, http.StatusBadRequest, http.StatusUnauthorized, http.StatusMethodNotAllowed,
		http.StatusRequestTimeout, http.StatusConflict,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable}
)

// rejectReasons are doorReasons and those of single records.
func rejectReasons() []string {
	all := slices.Clone(doorReasons)
	for _, c := range telemetry.Codes() {
		if !slices.Contains(all, string(c)) {
			all = append(all, string(c))
		}
	}
	return all
}

// begin makes the series whose labels are known from the start.
func (m *metrics) begin() {
	for _, code := range refusalCodes {
		m.refused.WithLabelValues(code)
	}
	for _, c := range telemetry.Codes() {
		m.refused.WithLabelValues(string(c))
	}
	for _, reason := range []string{gpuflight.ReasonTornGzip, gpuflight.ReasonBodyTooLarge, gpuflight.ReasonRatioExceeded} {
		m.refused.WithLabelValues(reason)
	}
	for _, reason := range storeFailures {
		m.failures.WithLabelValues(reason)
	}
	for _, route := range []string{routeStream, routeComplete, routeLine, routeTelemetry} {
		for _, status := range uploadStatus {
			m.requests.WithLabelValues(route, strconv.Itoa(status))
		}
		m.seconds.WithLabelValues(route)
	}
	for _, route := range []string{routeVersion, routeUploads, routeTelemetrySchema, routeMetrics, routeHealth, routeReady} {
		m.requests.WithLabelValues(route, "200")
	}
	m.requests.WithLabelValues(routeReady, "503")
	m.requests.WithLabelValues("unknown", "404")
	m.meet("")
}

// meet makes the series of a tenant.
func (m *metrics) meet(tenant string) {
	if m.met.Add(1) > 1+tenantSeries {
		return
	}
	for _, c := range []*prometheus.CounterVec{m.receivedEvents, m.receivedBytes, m.publishedEvents, m.publishedBytes,
		m.repeatedEvents, m.droppedRejects, m.forgotten, m.bodyBytes} {
		c.WithLabelValues(tenant)
	}
	for _, reason := range rejectReasons() {
		m.rejectedEvents.WithLabelValues(tenant, reason)
		m.rejectedBytes.WithLabelValues(tenant, reason)
	}
	for _, kind := range partKinds {
		m.parts.WithLabelValues(tenant, string(kind))
	}
	for _, outcome := range outcomes {
		m.windows.WithLabelValues(tenant, outcome)
	}
}

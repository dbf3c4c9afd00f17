package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The routes, which answer as they stand and behind the configured prefix.
const (
	routeStream   = "/api/v1/events/stream"
	routeComplete = "/api/v1/events/session-complete"
	routeVersion  = "/api/v1/info/version"
	routeLine     = "/api/v1/events/{type}"

	routeTelemetry       = "/api/v1/telemetry"
	routeTelemetrySchema = "/api/v1/telemetry/schema"

	routeMetrics = "/metrics"
	routeHealth  = "/healthz"
	routeReady   = "/readyz"
)

// exist lists the routes for who asks for another: as they are, and below the prefix.
func (g *Gateway) exist() (list []string) {
	prefixes := []string{""}
	if g.cfg.PathPrefix != "" {
		prefixes = append(prefixes, g.cfg.PathPrefix)
	}
	for _, prefix := range prefixes {
		list = append(list, "POST "+prefix+routeStream, "POST "+prefix+routeComplete, "POST "+prefix+routeLine, "GET "+prefix+routeVersion, "GET "+prefix+routeUploads,
			"POST "+prefix+routeTelemetry, "GET "+prefix+routeTelemetrySchema, "GET "+prefix+routeMetrics, "GET "+prefix+routeHealth, "GET "+prefix+routeReady)
	}
	return list
}

// exchange is one request while it is handled: what the log line and the metrics will say of it.
type exchange struct {
	route   string
	tenant  string
	session string
	window  string
	outcome string
	body    int64
	events  uint64
	bytes   int64
	refused uint64
	// answer is written as JSON once the handler has given back what it held: who reads slowly must not keep a seat.
	answer any
}

type handlerFunc func(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *refusal

// routes builds the handler. Paths are matched by hand: a handful of routes does not need a router, and unknown paths and wrong methods are
// answered with problem documents.
func (g *Gateway) routes() http.Handler {
	type route struct {
		method string
		handle handlerFunc
	}
	routes := map[string]route{
		routeStream:   {http.MethodPost, g.serveStream},
		routeComplete: {http.MethodPost, g.serveComplete},
		routeVersion:  {http.MethodGet, g.serveVersion},

		routeTelemetry:       {http.MethodPost, g.serveTelemetry},
		routeTelemetrySchema: {http.MethodGet, g.serveTelemetrySchema},
	}
	line := route{http.MethodPost, g.serveLine}
	verdict := route{http.MethodGet, g.serveVerdict}
	for path, to := range map[string]handlerFunc{routeMetrics: g.serveMetrics, routeHealth: g.serveHealth, routeReady: g.serveReady} {
		routes[path] = route{http.MethodGet, to}
	}
	exist := g.exist()
	// find returns the name of the route that a path means, or ok false.
	find := func(path string) (name string, to route, ok bool) {
		if !strings.HasPrefix(path, "/") {
			return "", to, false
		}
		path = "/" + strings.TrimLeft(path, "/") // of an address that was written with a slash at its end
		if to, ok = routes[path]; ok {
			return path, to, true
		}
		if wanted, found := strings.CutPrefix(path, strings.TrimSuffix(routeUploads, "{receipt}")); found && wanted != "" && !strings.Contains(wanted, "/") {
			return routeUploads, verdict, true
		}
		event, found := strings.CutPrefix(path, strings.TrimSuffix(routeLine, "{type}"))
		return routeLine, line, found && event != "" && !strings.Contains(event, "/")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		x := &exchange{}
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		// A proxy may take the prefix away or leave it, and some clients leave the path of an address out: each way leads here.
		name, to, ok := find(r.URL.Path)
		if path, prefixed := strings.CutPrefix(r.URL.Path, g.cfg.PathPrefix); !ok && prefixed {
			name, to, ok = find(path)
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), g.cfg.HandleTimeout)
		defer cancel()
		var no *refusal
		switch {
		case !ok:
			name = "unknown"
			no = &refusal{status: http.StatusNotFound, code: "not_found", routes: exist,
				detail: "there is no such route here; \"routes\" lists what exists"}
		case r.Method != to.method && !(to.method == http.MethodGet && r.Method == http.MethodHead):
			no = &refusal{status: http.StatusMethodNotAllowed, code: "method_not_allowed", header: [2]string{"Allow", to.method},
				detail: fmt.Sprintf("%s takes %s", name, to.method)}
		default:
			x.route = name
			no = to.handle(ctx, rec, r, x)
		}
		if no != nil {
			g.metrics.refused.WithLabelValues(no.code).Inc()
			no.write(rec)
		} else if x.answer != nil {
			writeJSON(rec, x.answer)
		}
		took := time.Since(began)
		g.metrics.requests.WithLabelValues(name, strconv.Itoa(rec.status)).Inc()
		g.metrics.seconds.WithLabelValues(name).Observe(took.Seconds())
		g.log(r, x, rec.status, took, no)
	})
}

// log writes one line a request for debugging; of refusals, one line a code every ten seconds as a warning.
func (g *Gateway) log(r *http.Request, x *exchange, status int, took time.Duration, no *refusal) {
	args := []any{"method", r.Method, "path", r.URL.Path, "status", status, "took", took, "remote", r.RemoteAddr}
	args = append(args, x.known()...)
	if no != nil {
		args = append(args, "error", no.code, "why", no.detail)
		if no.cause != nil {
			args = append(args, "cause", no.cause)
		}
		if ok, held := g.quiet.say(no.code, time.Now()); ok {
			if held > 0 {
				args = append(args, "refused_alike_since_last_line", held)
			}
			g.cfg.Logger.Warn("refused", args...)
		} else {
			g.cfg.Logger.Debug("refused", args...)
		}
		return
	}
	g.cfg.Logger.Debug("request", args...)
}

// known are the fields of x that hold something, as log attributes.
func (x *exchange) known() (args []any) {
	for _, f := range []struct{ key, value string }{{"tenant", x.tenant}, {"session", x.session}, {"window", x.window}, {"outcome", x.outcome}} {
		if f.value != "" {
			args = append(args, f.key, f.value)
		}
	}
	for _, f := range []struct {
		key   string
		value uint64
	}{{"body", uint64(x.body)}, {"bytes", uint64(x.bytes)}, {"events", x.events}, {"rejected", x.refused}} {
		if f.value != 0 {
			args = append(args, f.key, f.value)
		}
	}
	return args
}

// recorder remembers the status, and bounds how long the client may take to read the answer.
type recorder struct {
	http.ResponseWriter
	status int
	begun  bool
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.begin()
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.begin()
	return r.ResponseWriter.Write(p)
}

func (r *recorder) begin() {
	if !r.begun {
		r.begun = true
		http.NewResponseController(r.ResponseWriter).SetWriteDeadline(time.Now().Add(answerTime)) // not every writer can
	}
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (g *Gateway) serveVersion(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *refusal {
	writeJSON(w, struct {
		Supported []string `json:"supported"`
		Server    string   `json:"server,omitempty"`
	}{[]string{"1"}, g.cfg.Version})
	return nil
}

func (g *Gateway) serveMetrics(_ context.Context, w http.ResponseWriter, r *http.Request, _ *exchange) *refusal {
	g.metrics.spooled.Set(float64(g.budget.inUse()))
	g.metrics.handler.ServeHTTP(w, r)
	return nil
}

// serveHealth says that the process answers, no more.
func (g *Gateway) serveHealth(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *refusal {
	fmt.Fprintln(w, "ok")
	return nil
}

// contactLimit is how long JetStream may be silent before the gateway is not ready.
const contactLimit = 10 * time.Second

// serveReady says whether uploads can be taken, in one line. A stream that is nearly full does not make the gateway unready:
// sending elsewhere would not help.
func (g *Gateway) serveReady(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *refusal {
	if why := g.notReady(); why != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, "not ready: "+why)
		return nil
	}
	if fill := g.fill.Load(); fill >= 900 {
		fmt.Fprintf(w, "ready (the ingest stream is %d %% full)\n", fill/10)
		return nil
	}
	fmt.Fprintln(w, "ready")
	return nil
}

func (g *Gateway) notReady() string {
	low := g.disk.check()
	switch {
	case g.draining.Load():
		return "draining: the gateway is stopping"
	case g.streams.Conn.Status() != nats.CONNECTED:
		return "the connection to NATS is down"
	case !g.keys.loaded.Load():
		return "the keys are not loaded yet"
	case time.Since(time.Unix(0, g.contact.Load())) > contactLimit:
		return "JetStream does not answer"
	case low != "":
		return low
	case g.metrics.storing.trouble() != "":
		return g.metrics.storing.trouble()
	case g.cfg.Ready != nil:
		return g.cfg.Ready()
	}
	return ""
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	encode(w, v)
}

// encode writes v as JSON. Kernel names are full of < and >, which no client has to see as \u003c.
func encode(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v)
}

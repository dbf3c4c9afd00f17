package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// The routes that are not a source's. All answer as they are here and below the configured prefix.
const (
	routeVersion = "/api/v1/info/version"
	routeMetrics = "/metrics"
	routeHealth  = "/healthz"
	routeReady   = "/readyz"
	// routeQuestions is the path below which Config.Questions answers.
	routeQuestions = "/clickhouse/"
	// routeAdmin is the path below which Config.Admin answers.
	routeAdmin = "/api/v1/admin/"
)

// exchange is one request while it is handled: what the log line and the metrics will say of it.
type exchange struct {
	meter   *meter // once the key is known
	route   string
	tenant  string
	session string
	window  string
	outcome string
	body    int64
	events  uint64
	bytes   int64
	refused uint64
	// answer is written as JSON once the handler has given back what it held: a client that reads slowly must not keep a seat.
	answer any
}

type handlerFunc func(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *Refusal

// entry is a route with its method and what answers there. It is a handler so that a ServeMux can match it, and is not called as one.
type entry struct {
	method, path string
	handle       handlerFunc
}

// ServeHTTP implements http.Handler.
func (e *entry) ServeHTTP(http.ResponseWriter, *http.Request) {
	panic("BUG: ingest: a route is served by Gateway.serve")
}

// routing is the one list of routes.
type routing struct {
	mux    *http.ServeMux
	list   []string // for answers to other paths: as they are, and below the prefix
	prefix string
}

// routes makes the list: those of the sources and the gateway's own.
func (g *Gateway) routes() *routing {
	var all []*entry
	for i := range g.cfg.Sources {
		s := &g.cfg.Sources[i]
		for j := range s.Routes {
			r := &s.Routes[j]
			switch {
			case r.Upload != nil:
				all = append(all, &entry{http.MethodPost, r.Path, g.take(s, r)})
			case r.Notice != nil:
				all = append(all, &entry{http.MethodPost, r.Path, g.notice(s, r)})
			default:
				all = append(all, &entry{http.MethodGet, r.Path, page(r.Page)})
			}
		}
	}
	all = append(all,
		&entry{http.MethodGet, routeVersion, g.serveVersion}, &entry{http.MethodGet, routeUploads, g.serveVerdict},
		&entry{http.MethodGet, routeMetrics, g.serveMetrics}, &entry{http.MethodGet, routeHealth, g.serveHealth},
		&entry{http.MethodGet, routeReady, g.serveReady},
	)
	r := &routing{mux: http.NewServeMux(), prefix: g.cfg.PathPrefix}
	prefixes := []string{""}
	if r.prefix != "" {
		prefixes = append(prefixes, r.prefix)
	}
	for _, e := range all {
		r.mux.Handle(e.path, e)
	}
	if g.cfg.Questions != nil {
		r.list = append(r.list, http.MethodPost+" "+r.prefix+routeQuestions)
	}
	if g.cfg.AdminHere && g.cfg.Admin != nil {
		r.list = append(r.list, http.MethodGet+" "+r.prefix+routeAdmin+"openapi.json")
	}
	for _, prefix := range prefixes {
		for _, e := range all {
			r.list = append(r.list, e.method+" "+prefix+e.path)
		}
	}
	return r
}

// page is the handler of a route that does not need a key.
func page(serve http.HandlerFunc) handlerFunc {
	return func(_ context.Context, w http.ResponseWriter, r *http.Request, _ *exchange) *Refusal {
		serve(w, r)
		return nil
	}
}

// find returns the route that a path means, nil if there is none. A proxy may take the prefix away or leave it, and some clients leave the
// path of an address out: all of these are found.
func (r *routing) find(path string) *entry {
	if e := r.match(path); e != nil {
		return e
	}
	if rest, ok := strings.CutPrefix(path, r.prefix); ok {
		return r.match(rest)
	}
	return nil
}

// match has the standard library match a path. Where it would redirect, to a path without dots or doubled slashes, there is no route.
func (r *routing) match(path string) *entry {
	if !strings.HasPrefix(path, "/") {
		return nil
	}
	path = "/" + strings.TrimLeft(path, "/") // of an address that was written with a slash at its end
	h, _ := r.mux.Handler(&http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}})
	e, _ := h.(*entry)
	return e
}

// question is what follows routeQuestions in a path. Some drivers have no setting for a path: who asks at / as one asks ClickHouse, asks
// there.
func (r *routing) question(of *http.Request) (string, bool) {
	for _, prefix := range []string{"", r.prefix} {
		if rest, ok := strings.CutPrefix(of.URL.Path+"/", prefix+routeQuestions); ok {
			return "/" + strings.Trim(rest, "/"), true
		}
	}
	_, _, basic := of.BasicAuth()
	return "/", of.URL.Path == "/" && (basic || of.Header.Get("X-ClickHouse-User") != "")
}

// passRaw is pass where the path is the end of the one that was asked for: what is escaped in it stays so.
func passRaw(to http.Handler, w http.ResponseWriter, r *http.Request, path string) {
	raw, ok := strings.CutPrefix(r.URL.RawPath, strings.TrimSuffix(r.URL.Path, path))
	if !ok {
		raw = ""
	}
	passTo(to, w, r, path, raw)
}

// pass lets Config.Questions or Config.Admin answer, which bound and count what they do themselves.
func pass(to http.Handler, w http.ResponseWriter, r *http.Request, path string) {
	passTo(to, w, r, path, "")
}

func passTo(to http.Handler, w http.ResponseWriter, r *http.Request, path, raw string) {
	at := *r.URL
	at.Path, at.RawPath = path, raw
	asked := r.Clone(r.Context())
	asked.URL = &at
	to.ServeHTTP(w, asked)
}

// administers is the path of a request below routeAdmin, without the prefix.
func (r *routing) administers(path string) (string, bool) {
	for _, prefix := range []string{"", r.prefix} {
		if rest, ok := strings.CutPrefix(path, prefix); ok && strings.HasPrefix(rest+"/", routeAdmin) {
			return rest, true
		}
	}
	return "", false
}

// serve answers a request: it finds the route, bounds the time, writes answers and refusals, and counts and logs what was done.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	x := &exchange{}
	rec := &recorder{ResponseWriter: w, status: http.StatusOK}
	if path, ok := g.routing.question(r); ok && g.cfg.Questions != nil {
		pass(g.cfg.Questions, w, r, path)
		return
	}
	if path, ok := g.routing.administers(r.URL.Path); ok && g.cfg.AdminHere && g.cfg.Admin != nil {
		passRaw(g.cfg.Admin, w, r, path)
		return
	}
	to := g.routing.find(r.URL.Path)
	name := "unknown"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), g.cfg.HandleTimeout)
	defer cancel()
	var no *Refusal
	if to != nil {
		name = to.path
	}
	switch {
	case to == nil:
		no = &Refusal{
			Status: http.StatusNotFound, Code: "not_found", routes: g.routing.list,
			Detail: "there is no such route here; \"routes\" lists what exists",
		}
	case r.Method != to.method && !(to.method == http.MethodGet && r.Method == http.MethodHead):
		no = &Refusal{
			Status: http.StatusMethodNotAllowed, Code: "method_not_allowed", Header: [2]string{"Allow", to.method},
			Detail: fmt.Sprintf("%s takes %s", name, to.method),
		}
	default:
		x.route = name
		no = to.handle(ctx, rec, r, x)
	}
	if no != nil {
		g.metrics.refused.WithLabelValues(no.Code).Inc()
		no.Write(rec)
		if x.tenant == "" { // the server reads on for a while, so that the answer is not lost
			http.NewResponseController(rec).SetReadDeadline(time.Now().Add(leaveTime))
		}
	} else if x.answer != nil {
		writeJSON(rec, x.answer)
	}
	took := time.Since(began)
	g.metrics.requests.WithLabelValues(name, strconv.Itoa(rec.status)).Inc()
	g.metrics.seconds.WithLabelValues(name).Observe(took.Seconds())
	g.log(r, x, rec.status, took, no)
}

// log writes one line a request for debugging; of refusals, one line a code every ten seconds as a warning.
func (g *Gateway) log(r *http.Request, x *exchange, status int, took time.Duration, no *Refusal) {
	if no == nil && !g.cfg.Logger.Enabled(r.Context(), slog.LevelDebug) {
		return // the line of an upload that was taken is 20 allocations
	}
	args := []any{"method", r.Method, "path", r.URL.Path, "status", status, "took", took, "remote", r.RemoteAddr}
	args = append(args, x.known()...)
	if no != nil {
		args = append(args, "error", no.Code, "why", no.Detail)
		if no.Cause != nil {
			args = append(args, "cause", no.Cause)
		}
		if ok, held := g.quiet.say(no.Code, time.Now()); ok {
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
	for _, f := range []struct{ key, value string }{{"tenant", x.tenant}, {"session", x.session}, {"window", x.window},
		{"outcome", x.outcome}} {
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

func (g *Gateway) serveVersion(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *Refusal {
	writeJSON(w, struct {
		Supported []string `json:"supported"`
		Server    string   `json:"server,omitempty"`
	}{[]string{"1"}, g.cfg.Version})
	return nil
}

func (g *Gateway) serveMetrics(_ context.Context, w http.ResponseWriter, r *http.Request, _ *exchange) *Refusal {
	if g.cfg.HideMetrics {
		return &Refusal{Status: http.StatusNotFound, Code: "not_found", Detail: "the metrics are not on this address, which others can " +
			"reach: the operator serves them with --metrics-listen"}
	}
	g.metrics.spooled.Set(float64(g.budget.inUse()))
	g.metrics.handler.ServeHTTP(w, r)
	return nil
}

// serveHealth says only that the process answers.
func (g *Gateway) serveHealth(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *Refusal {
	fmt.Fprintln(w, "ok")
	return nil
}

// contactLimit is how long JetStream may be silent before the gateway is not ready.
const contactLimit = 10 * time.Second

// Ready returns what is wrong while uploads cannot be taken, nil while they can.
func (g *Gateway) Ready() error {
	if why := g.notReady(); why != "" {
		return errors.New(why)
	}
	return nil
}

// Loading returns what the gateway has yet to load before it takes uploads, "" for nothing. Ready says the same until it is loaded, where
// nothing else is wrong.
func (g *Gateway) Loading() string {
	switch {
	case !g.keys.loaded.Load():
		return "the keys are not loaded yet"
	case !g.counted.Load():
		return "the active sessions are not known yet"
	case !g.owing.Load():
		return "what is on its way into SQL is not known yet"
	}
	for _, missing := range g.missing {
		if why := missing(); why != "" {
			return why
		}
	}
	return ""
}

// serveReady says whether uploads can be taken, in one line. A stream that is nearly full does not make the gateway unready:
// sending elsewhere would not help.
func (g *Gateway) serveReady(_ context.Context, w http.ResponseWriter, _ *http.Request, _ *exchange) *Refusal {
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
	case !g.keys.loaded.Load(), !g.counted.Load(), !g.owing.Load():
		return g.Loading()
	case time.Since(time.Unix(0, g.contact.Load())) > contactLimit:
		return "JetStream does not answer"
	case low != "":
		return low
	case g.metrics.storing.trouble() != "":
		return g.metrics.storing.trouble()
	}
	if why := g.Loading(); why != "" {
		return why
	}
	if g.cfg.Ready != nil {
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

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
)

// Config says what an API is for. Desk, Authorize, Gateway, Streams and Schema are required.
type Config struct {
	Desk *Desk
	// Authorize finds the key of a secret, if it is one of scope admin or an operator's.
	Authorize func(ctx context.Context, secret string) (tenant.Key, *ingest.Refusal)
	// Gateway is where replays go.
	Gateway http.Handler
	// Open connects to ClickHouse as a user that may read all; the API closes the connection. nil: there is none.
	Open     func(ctx context.Context) (driver.Conn, error)
	Database string
	Version  string
	// Streams and Schema are of the service. Repair connects to ClickHouse as a user who may write, and the API closes the connection; nil:
	// there is none.
	Streams *broker.Streams
	Schema  *table.Schema
	Repair  func(ctx context.Context) (sink.Replayer, error)
	// Ready returns what is wrong while uploads cannot be taken; Stores how full NATS's are. Both may be nil.
	Ready  func() error
	Stores func() map[string]float64
	// TenantRate is how often in a second whoever has keys of one tenant may ask (default 10), with bursts of three times that; the operator
	// ten times as often.
	TenantRate int
	Logger     *slog.Logger
	// Registerer receives the metrics; nil for none.
	Registerer prometheus.Registerer
	// Shares returns what a tenant has of its limits and quotas, Windows how far back streams can be replayed. Both may be nil.
	Shares  func(tenant string) []shares.Share
	Windows func(ctx context.Context) ([]broker.Window, error)
}

const (
	// callTime bounds a request. A replay of rejects and a deletion wait for SQL and have longer, and what looks at many rows longest.
	callTime   = 30 * time.Second
	replayTime = 4 * time.Minute
	eraseTime  = callTime + waitMost*time.Second
	repairTime = 9 * time.Minute // below what the engine gives a reader's question
	// callsAtOnce is how many are answered at once, callWait how long others wait. Each may read all keys.
	callsAtOnce = 4
	callWait    = 10 * time.Second
	// answerTime is how long a client may take to read an answer.
	answerTime = 30 * time.Second
	// retry is a Retry-After for what will be over soon.
	retry = 5 * time.Second
)

// API answers what is asked below Path. Make it with NewAPI. It is safe for concurrent use, and holds nothing that must be closed.
type API struct {
	Config
	description map[string]any
	turns       chan struct{}
	replaying   chan struct{}
	asked       *prometheus.CounterVec

	mu    sync.Mutex
	rates map[string]*rate.Limiter // by tenant; "" is the operator
	rests map[string]time.Time     // until when a tenant's administrators leave long work to others that wait
	waits map[string]time.Time     // when a tenant ("" is the operator) was told last that another does long work
}

// NewAPI returns an API.
func NewAPI(cfg Config) *API {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.TenantRate <= 0 {
		cfg.TenantRate = 10
	}
	a := &API{Config: cfg, description: describe(cfg.Version), turns: make(chan struct{}, callsAtOnce), replaying: make(chan struct{}, 1),
		rates: map[string]*rate.Limiter{}, rests: map[string]time.Time{}, waits: map[string]time.Time{},
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "warpline", Subsystem: "admin",
			Name: "requests_total", Help: "Requests of administrators, by route and status of the answer."}, []string{"route", "status"})}
	if cfg.Registerer != nil {
		cfg.Registerer.MustRegister(a.asked)
	}
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := "unknown"
	h := w.Header()
	h.Set("Cache-Control", "no-store") // answers have secrets
	h.Set("X-Content-Type-Options", "nosniff")
	path, below := strings.CutPrefix(r.URL.EscapedPath(), Path)
	to, vars, allowed := find(r.Method, path)
	c := &call{api: a, w: w, r: r, vars: vars}
	var answer any
	var err error
	switch {
	case !below || len(allowed) == 0:
		err = &Denied{http.StatusNotFound, "not_found", "there is no such route here: " + Path + "openapi.json lists what exists"}
	case to == nil:
		h.Set("Allow", strings.Join(allowed, ", "))
		err = &Denied{http.StatusMethodNotAllowed, "method_not_allowed", "this takes " + strings.Join(allowed, ", ")}
	default:
		name = to.method + " " + to.path
		answer, err = a.answer(c, to)
	}
	status := http.StatusOK
	if to != nil {
		status = cmp.Or(c.status, to.status)
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime)) // where that is possible
	if err != nil {
		no := refusal(err)
		status = no.Status
		a.say(c, name, status, no)
		no.Write(w)
	} else {
		if c.etag != "" {
			h.Set("ETag", c.etag)
		}
		a.say(c, name, status, nil)
		if answer != nil {
			h.Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		if answer != nil {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			_ = enc.Encode(answer) // a client that is gone hears nothing
		}
	}
	a.asked.WithLabelValues(name, strconv.Itoa(status)).Inc()
}

// answer lets in whoever may come in, in turn, and does what is asked for.
func (a *API) answer(c *call, to *route) (any, error) {
	if to.open {
		return to.handle(c)
	}
	scheme, secret, _ := strings.Cut(strings.TrimSpace(c.r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		secret = ""
	}
	key, no := a.Authorize(c.r.Context(), strings.TrimSpace(secret))
	if no != nil {
		if no.Code == "wrong_scope" {
			no.Header = [2]string{"WWW-Authenticate", `Bearer realm="warpline", error="insufficient_scope"`}
		}
		return nil, no
	}
	c.who = Holder(key)
	if !a.rate(key).Allow() {
		return nil, &ingest.Refusal{Status: http.StatusTooManyRequests, Code: "too_many_requests", RetryAfter: time.Second,
			Detail: fmt.Sprintf("more than %d requests of administrators in a second: ask more slowly", int(a.rate(key).Limit()))}
	}
	if err := c.known(to); err != nil {
		return nil, err
	}
	if c.r.Method != http.MethodGet && c.r.Method != http.MethodHead {
		body, err := readBody(c.w, c.r)
		if err != nil {
			return nil, err
		}
		if c.body = body; to.in == nil && len(body) > 0 {
			return nil, bad(errors.New("there is no body here: leave it out"))
		}
	}
	took := cmp.Or(to.took, callTime)
	_ = http.NewResponseController(c.w).SetWriteDeadline(time.Now().Add(took + answerTime))
	// What was begun is done, also for a client that went away; but what only takes long ends with its client.
	of := context.WithoutCancel(c.r.Context())
	if to.ends {
		of = c.r.Context()
	}
	ctx, cancel := context.WithTimeout(of, took)
	defer cancel()
	if c.ctx = ctx; !to.own {
		end, err := c.enter()
		if err != nil {
			return nil, err
		}
		defer end()
	}
	return to.handle(c)
}

// enter waits for one of the turns in which requests are answered; the caller calls end.
func (c *call) enter() (end func(), err error) {
	wait := time.NewTimer(callWait)
	defer wait.Stop()
	select {
	case c.api.turns <- struct{}{}:
		return func() { <-c.api.turns }, nil
	case <-wait.C:
		return nil, &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "busy", RetryAfter: retry,
			Detail: "too many administrators ask at once: ask again in a few seconds"}
	case <-c.r.Context().Done():
		return nil, c.r.Context().Err()
	}
}

// rate is how often whoever has this key, or another of its tenant, may ask.
func (a *API) rate(k tenant.Key) *rate.Limiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.rates[k.Tenant]
	if l == nil {
		most := a.TenantRate
		if k.Tenant == "" {
			most *= 10
		}
		l = rate.NewLimiter(rate.Limit(most), 3*most)
		a.rates[k.Tenant] = l
	}
	return l
}

// What ClickHouse says to who may not write.
const (
	mayNot    = 497 // ACCESS_DENIED
	onlyReads = 164 // READONLY
)

// refusal is the answer of an error.
func refusal(err error) *ingest.Refusal {
	var no *ingest.Refusal
	var denied *Denied
	var busy UnderWay
	var said *clickhouse.Exception
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &busy):
		return &ingest.Refusal{Status: http.StatusTooManyRequests, Code: string(busy.Work) + "_under_way", RetryAfter: retry,
			Detail: busy.Error()}
	case errors.As(err, &said) && (said.Code == mayNot || said.Code == onlyReads):
		return &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "clickhouse_read_only", Cause: err,
			Detail: "the user that this gateway is in ClickHouse may not do this: the operator names one that may, with --clickhouse-user"}
	case errors.As(err, &denied):
		return &ingest.Refusal{Status: denied.Status, Code: denied.Code, Detail: denied.Why}
	}
	return &ingest.Refusal{Status: http.StatusServiceUnavailable, Code: "unavailable", RetryAfter: retry, Cause: err,
		Detail: "NATS or ClickHouse did not answer as it should: look whether it was done, and ask again"}
}

// say logs what administrators do: changes always, and what failed in the service.
func (a *API) say(c *call, name string, status int, no *ingest.Refusal) {
	args := []any{"what", name, "path", c.r.URL.Path, "status", status, "remote", c.r.RemoteAddr}
	if c.who.key.ID != "" {
		args = append(args, "key", c.who.key.ID)
	}
	if no != nil {
		args = append(args, "error", no.Code)
		if no.Cause != nil {
			args = append(args, "cause", no.Cause)
		}
	}
	switch {
	case status >= http.StatusInternalServerError:
		a.Logger.Warn("an administrator was not answered", args...)
	case no == nil && c.r.Method != http.MethodGet && c.r.Method != http.MethodHead:
		a.Logger.Info("administered", args...)
	default:
		a.Logger.Debug("an administrator asked", args...)
	}
}

package ingest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/warpline/warpline/ingest/rpc"
	"github.com/warpline/warpline/proto/tenant"
)

// RPC is a method of a source's gRPC services. Keys are sent as with HTTP: authorization: Bearer <key>.
type RPC struct {
	// Method is as on the wire: /package.Service/Method.
	Method string
	// Upload says that it brings data. Such a call waits for a seat, as an upload by HTTP does, before any of it is read.
	Upload bool
	// Most is the largest message, at most rpc.MaxMessage (default 64 KiB).
	Most int64
	// Serve answers a call. Its error is answered as one of Intake's methods is; nil is OK.
	Serve func(ctx context.Context, c *Call) error
}

// smallMessage is the largest message of a method that does not say otherwise.
const smallMessage = 64 << 10

// Call is one call of an RPC. It is used by the goroutine of Serve alone.
type Call struct {
	gateway  *Gateway
	source   *Source
	rpc      *RPC
	stream   *rpc.Stream
	meter    *meter
	exchange *exchange
	spool    *spool
	charged  int64
	refused  *Refusal // before it began
	err      error    // the answer
}

// Tenant is who calls.
func (c *Call) Tenant() string { return c.exchange.tenant }

// Limits are those of the caller's key.
func (c *Call) Limits() tenant.Limits {
	_, limits := c.meter.current()
	return limits
}

// Receive reads the next message; io.EOF says that there is none. Messages are valid until Drop, or the end of the call.
func (c *Call) Receive() ([]byte, error) {
	msg, err := c.stream.Receive()
	if c.rpc.Upload {
		came := c.stream.Received()
		c.meter.charge(time.Now(), cost{bytes: came - c.charged})
		c.gateway.metrics.bodyBytes.WithLabelValues(c.Tenant()).Add(float64(came - c.charged))
		c.charged = came
	}
	c.exchange.body = c.stream.Received()
	return msg, err
}

// Drop gives back the memory of what was received.
func (c *Call) Drop() { c.stream.Drop() }

// Send writes a message.
func (c *Call) Send(msg []byte) error { return c.stream.Send(msg) }

// Keep appends to the body that Store stores.
func (c *Call) Keep(p []byte) error {
	if c.spool == nil {
		c.spool = c.gateway.newSpool(c.Tenant())
	}
	return c.spool.write(c.gateway.cfg.SpoolDir, p)
}

// Store stores what was kept, or what the intake has itself, as one upload. It takes the way of an upload by HTTP and returns the answer.
func (c *Call) Store(ctx context.Context, in Intake) (answer any, err error) {
	g := c.gateway
	limits := c.Limits()
	u := &Upload{
		Tenant: c.Tenant(), Received: time.Now(), gateway: g, source: c.source, limits: limits,
		Limits: CutLimits{MaxBody: limits.MaxBodyBytes, MaxRaw: limits.MaxRawBytes, MaxLine: limits.MaxLineBytes, MaxRatio: limits.MaxRatio},
		spool:  c.spool,
	}
	if u.spool == nil {
		u.spool = g.newSpool(c.Tenant())
	}
	c.spool = nil
	defer u.close()
	err = g.store(ctx, c.meter, u, in, c.exchange, nil)
	return c.exchange.answer, err
}

// Warn logs what a client should not do or says of itself, at most one line of a code in ten seconds.
func (c *Call) Warn(code, words string, args ...any) {
	if ok, held := c.gateway.quiet.say(code, time.Now()); ok {
		c.gateway.cfg.Logger.Warn(words, append(args, "tenant", c.Tenant(), "alike_since_last_line", held)...)
	}
}

// calls serves gRPC. Its listener is nil where none is configured.
type calls struct {
	gateway  *Gateway
	rpcs     map[string]*Call // by method: what a call begins with
	server   *rpc.Server
	http     *http.Server
	listener net.Listener
}

type callKey struct{}

func newCalls(g *Gateway) (*calls, error) {
	c := &calls{gateway: g, rpcs: map[string]*Call{}}
	methods := []rpc.Method{{Name: routeHealthCheck, Serve: g.serveHealthCheck}}
	for i := range g.cfg.Sources {
		s := &g.cfg.Sources[i]
		if s.RPCs == nil {
			continue
		}
		for _, r := range s.RPCs(g) {
			if c.rpcs[r.Method] != nil {
				return nil, fmt.Errorf("BUG: ingest: method %s is there twice", r.Method)
			}
			if r.Most <= 0 {
				r.Most = smallMessage
			}
			c.rpcs[r.Method] = &Call{gateway: g, source: s, rpc: &r}
			methods = append(methods, rpc.Method{Name: r.Method, Serve: serveCall})
		}
	}
	c.server = rpc.New(methods, g.cfg.Processors)
	return c, c.listen(g.cfg)
}

func (c *calls) listen(cfg Config) error {
	if cfg.GRPCListen == "" {
		return nil
	}
	l, err := net.Listen("tcp", cfg.GRPCListen)
	if err != nil {
		return fmt.Errorf("gateway, gRPC: %w: is another process using the address?", err)
	}
	conns := boundConnections(l, cfg.MaxConnections, cfg.Registerer, "grpc_")
	c.listener = conns
	if cfg.TLSCert != "" {
		secured, err := secure(cfg, cfg.GRPCClientCA, []string{"h2"})
		if err != nil {
			l.Close()
			return err
		}
		c.listener = tls.NewListener(conns, secured)
	} else if cfg.GRPCClientCA != "" {
		l.Close()
		return errors.New("client certificates need TLS: give a certificate and a key file")
	}
	c.http = &http.Server{
		Handler: conns.busy(http.HandlerFunc(c.gateway.ServeRPC)), ConnContext: conns.context, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, WriteTimeout: cfg.HandleTimeout + 30*time.Second,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	speakBoth(c.http)
	c.http.Protocols.SetHTTP1(false)
	return nil
}

func (c *calls) serve(failed chan<- error) {
	if c.listener == nil {
		return
	}
	if err := c.http.Serve(c.listener); !errors.Is(err, http.ErrServerClosed) {
		failed <- fmt.Errorf("gRPC: %w", err)
	}
}

func (c *calls) shutdown(ctx context.Context) error {
	if c.http == nil {
		return nil
	}
	return c.http.Shutdown(ctx)
}

func (c *calls) close() {
	if c.http != nil {
		c.http.Close()
	}
	if c.listener != nil {
		c.listener.Close()
	}
}

// GRPCAddr returns the address at which it listens for gRPC, "" when it does not.
func (g *Gateway) GRPCAddr() string {
	if g.calls.listener == nil {
		return ""
	}
	return g.calls.listener.Addr().String()
}

// ServeRPC answers one call of gRPC, which is a request of HTTP/2. It is for tests and for servers of one's own.
func (g *Gateway) ServeRPC(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	x := &exchange{}
	c := &Call{gateway: g, exchange: x, refused: nil}
	most, name := int64(smallMessage), "unknown"
	if r.URL.Path == routeHealthCheck {
		name = routeHealthCheck
	}
	if of := g.calls.rpcs[r.URL.Path]; of != nil {
		name = of.rpc.Method
		c.source, c.rpc, x.route, most = of.source, of.rpc, name, of.rpc.Most
		c.meter, c.refused = g.enterCall(r, c)
		if x.meter != nil {
			x.meter.tell(w.Header(), time.Now(), g.active.Active(x.tenant))
		}
		if c.refused == nil && c.rpc.Upload {
			defer g.leave(c.meter)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), callKey{}, c), g.cfg.HandleTimeout)
	defer cancel()
	who := x.tenant // "" of calls that need no key, whose messages are small
	g.calls.server.Serve(w, r.WithContext(ctx), rpc.Bounds{
		Most: most, Still: g.cfg.ReadTimeout, Grace: g.cfg.SlowGrace, LeastSpeed: g.cfg.LeastSpeed,
		Take: func(n int64) error {
			if !g.messages.take(who, n) {
				return g.messagesFull(who)
			}
			return nil
		},
		Give: func(n int64) { g.messages.give(who, n) },
	})
	if c.spool != nil {
		c.spool.close()
	}
	code := codes.Unimplemented
	var no *Refusal
	if c.rpc != nil {
		code = codes.OK
		if c.err != nil {
			no = refusalOf(c.err)
			code = codeOf(no)
			g.metrics.refused.WithLabelValues(no.Code).Inc()
		}
	} else if name == routeHealthCheck {
		code = codes.OK
	}
	took := time.Since(began)
	g.metrics.requests.WithLabelValues(name, code.String()).Inc()
	g.metrics.seconds.WithLabelValues(name).Observe(took.Seconds())
	g.log(r, x, int(code), took, no)
}

// enterCall is what comes before a call: its key, its rate, its seat.
func (g *Gateway) enterCall(r *http.Request, c *Call) (*meter, *Refusal) {
	if g.draining.Load() {
		return nil, Unavailable("draining", "the gateway is stopping", nil)
	}
	if !c.rpc.Upload {
		m, no := g.keys.authenticate(r)
		if no == nil {
			c.exchange.tenant = m.guest.name
			c.exchange.meter = m
			no = m.admitRequest(time.Now())
		}
		return m, no
	}
	m, no := g.enter(r, c.exchange)
	if no != nil {
		return nil, no
	}
	if low := g.disk.check(); low != "" {
		no = Unavailable("disk_low", low, nil)
	} else if no = g.mayOwe(m); no == nil {
		no = m.admit(time.Now(), 0)
	}
	if no != nil {
		g.leave(m)
	}
	return m, no
}

func (g *Gateway) messagesFull(tenant string) *Refusal {
	if g.messages.held(tenant) > g.messages.max/4 {
		return Unavailable("messages_full", fmt.Sprintf("this tenant's calls hold more than half of what the %d bytes for messages of all "+
			"leave it: send fewer at a time", g.messages.max), nil)
	}
	return Unavailable("messages_full", fmt.Sprintf("the calls of all hold more than %d bytes of messages: the operator can start another "+
		"gateway", g.messages.max), nil)
}

// serveCall serves a call that has come through the door, and answers one that has not.
func serveCall(ctx context.Context, s *rpc.Stream) error {
	c := ctx.Value(callKey{}).(*Call)
	if c.refused != nil {
		c.err = c.refused
		return statusOf(c.refused)
	}
	c.stream = s
	// What is stored is stored to the end, also when the client has left.
	deadline, _ := ctx.Deadline()
	store, cancel := context.WithDeadline(context.WithoutCancel(ctx), deadline)
	defer cancel()
	c.err = c.rpc.Serve(store, c)
	if c.err == nil {
		return nil
	}
	return statusOf(refusalOf(c.err))
}

// refusalOf returns an error of a call as a refusal.
func refusalOf(err error) *Refusal {
	var large *rpc.TooLarge
	var slow *rpc.TooSlow
	var damaged *rpc.Damaged
	switch {
	case errors.As(err, &large):
		return &Refusal{Status: http.StatusRequestEntityTooLarge, Code: "message_too_large", Detail: large.Error() + "; nothing was stored"}
	case errors.As(err, &slow):
		return Unavailable("too_slow", "the message came too slowly", err)
	case errors.As(err, &damaged):
		return &Refusal{Status: http.StatusBadRequest, Code: "bad_message", Detail: damaged.Error() + "; nothing was stored"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, context.Canceled):
		return &Refusal{Status: http.StatusBadRequest, Code: "broken_body", Detail: "the call ended before all of its messages had come"}
	}
	return asRefusal(err)
}

// codeOf is how gRPC says a refusal. Parca's agent sends the same again after Unavailable and ResourceExhausted, and gives up after others.
func codeOf(no *Refusal) codes.Code {
	switch no.Status {
	case http.StatusPaymentRequired:
		return codes.FailedPrecondition // which is not tried again
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.NotFound
	case http.StatusConflict:
		return codes.AlreadyExists
	case http.StatusPreconditionFailed:
		return codes.FailedPrecondition
	case http.StatusTooManyRequests:
		return codes.ResourceExhausted
	case http.StatusNotImplemented:
		return codes.Unimplemented
	}
	switch {
	case no.Status < http.StatusInternalServerError:
		return codes.InvalidArgument
	case no.Code == "too_many_requests", no.Code == "messages_full", no.Code == "spool_full", no.Code == "busy":
		return codes.ResourceExhausted
	}
	return codes.Unavailable
}

func statusOf(no *Refusal) error {
	return rpc.Error(codeOf(no), no.Code+": "+no.Detail, no.RetryAfter)
}

// routeHealthCheck is gRPC's own health check, which needs no key. Its other method, Watch, is not served: clients then do without.
const routeHealthCheck = "/grpc.health.v1.Health/Check"

// serveHealthCheck says whether uploads can be taken, as /readyz does, whatever service is asked about.
func (g *Gateway) serveHealthCheck(_ context.Context, s *rpc.Stream) error {
	if _, err := s.Receive(); err != nil {
		return statusOf(refusalOf(err))
	}
	const field, serving, notServing = 1 << 3, 1, 2 // of HealthCheckResponse
	if g.notReady() != "" {
		return s.Send([]byte{field, notServing})
	}
	return s.Send([]byte{field, serving})
}

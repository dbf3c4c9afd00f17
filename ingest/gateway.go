// Package ingest is the door of Warpline: it authenticates uploads, limits them, cuts them into parts on line boundaries, publishes the
// parts to JetStream, and answers success only when all of them are stored.
//
// Start with New and Gateway.Run; Keys makes and revokes keys. The path of one upload is in upload.go: spool (spool.go) → survey →
// recognise (accept.go, windows.go) → publish (publish.go) → answer. Config.Sources says what kinds of data there are, see Source: a source
// brings its routes, and reads, cuts and answers its uploads.
package ingest

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest/active"
	"github.com/warpline/warpline/ingest/doorbook"
	"github.com/warpline/warpline/ingest/peers"
	"github.com/warpline/warpline/ingest/pending"
	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Config configures a Gateway. The zero value of every field except Listen has a default.
type Config struct {
	// Listen is host:port, port 0 for any free one; "" does not listen (for tests that use Handler).
	Listen string
	// GRPCListen is host:port for gRPC, port 0 for any free one; "" does not listen.
	GRPCListen string
	// TLSCert and TLSKey are PEM files of both listeners; both or none. When they change, new connections get the new certificate.
	TLSCert, TLSKey string
	// TLSClientCA and GRPCClientCA are PEM files; with them clients of Listen, and of GRPCListen, must show a certificate that one of these
	// signed. They need TLSCert. When they change, new connections are held to what they are then.
	TLSClientCA, GRPCClientCA string
	// PathPrefix is a path below which every route answers too, such as "/profiler".
	PathPrefix string
	// UIURL is where people see sessions, for answers that say so; "" is nowhere.
	UIURL string
	// SpoolDir holds bodies while they are received (default: the system's folder for temporary files). Its files have no name.
	SpoolDir string
	// SpoolMaxBytes bounds the spooled bytes of all requests together (default 2 GiB); one tenant may use half.
	SpoolMaxBytes int64
	// MessagesMaxBytes bounds the memory for messages of gRPC that are received or handled (default 256 MiB); one tenant may use half.
	MessagesMaxBytes int64
	// Defaults are the limits for keys that do not set their own; zero fields are tenant.DefaultLimits.
	Defaults tenant.Limits
	// Classes are the retention classes of the service (default: class default alone, with the days of Defaults).
	Classes tenant.Classes
	// Sources are the kinds of data that it takes. The list is not changed.
	Sources []Source
	// DevKey, if set, is a key of tenant "dev" with the default limits. For loopback only; the caller checks that.
	DevKey string
	// Version is what the version route answers.
	Version string
	// HandleTimeout bounds one request from its first byte to its answer (default 5 min): the agent itself waits for ever.
	HandleTimeout time.Duration
	// ReadTimeout is how long a body may stand still (default 30 s).
	ReadTimeout time.Duration
	// LeastSpeed is how many bytes a second a body must bring on average, once SlowGrace is over (defaults 1 KiB/s and 10 s): a client that
	// trickles must not hold a seat.
	LeastSpeed int64
	SlowGrace  time.Duration
	// PublishTimeout is how long JetStream may take to acknowledge one part (default 15 s).
	PublishTimeout time.Duration
	// DrainDelay is how long the gateway goes on accepting after it has said that it is not ready (default 0); DrainTimeout is
	// how long running requests may then take to finish (default 30 s).
	DrainDelay, DrainTimeout time.Duration
	// MaxRequests bounds the uploads handled at once (default 256); one tenant may have a quarter. More wait for a while.
	MaxRequests int
	// MaxConnections bounds the connections that are open at once (default: by the limit of descriptors, see maxConnections).
	MaxConnections int
	// MinFreeDiskBytes is what must be free on the volumes of SpoolDir and StoreDir for uploads to be taken; 0 checks nothing.
	MinFreeDiskBytes int64
	// HideMetrics answers 404 at /metrics: it is served elsewhere, or to nobody.
	HideMetrics bool
	// Questions answers what is asked below /clickhouse/, with that taken from the path; nil: there is no such route. It looks at keys by
	// Gateway.Authorize, and bounds and counts what it does.
	Questions http.Handler
	// Admin answers what is asked below /api/v1/admin/, with a path prefix taken away; nil: there is no such route. It looks at keys by
	// Gateway.Authorize. It is on AdminListen, host:port with the same certificate, "" for nowhere, and with AdminHere on Listen.
	Admin       http.Handler
	AdminListen string
	AdminHere   bool
	// Large is the streams through a connection of its own, which large uploads go through, so that small ones do not wait behind them;
	// nil: there is one connection.
	Large *broker.Streams
	// Processors is how many processors there are (default: as many as Go runs goroutines at once).
	Processors int
	// StoreDir is the folder of the embedded NATS server, "" when NATS is elsewhere.
	StoreDir string
	// Refuse says why nothing can be stored just now, "" when all is well: uploads are answered 503 at once. Ready says in the same way
	// what else keeps the gateway from being ready. Both are called often and must not block; nil means that there is never a reason.
	Refuse, Ready func() string
	Logger        *slog.Logger
	// MetricsTenants is how many tenants have series of their own (default tenant.DefaultSeries); the rest is tenant.OtherSeries.
	MetricsTenants int
	// Registerer takes the metrics; /metrics shows what it gathers. nil makes a registry of its own.
	Registerer prometheus.Registerer
}

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	c.Defaults = c.Defaults.Or(tenant.DefaultLimits())
	if len(c.Classes) == 0 {
		c.Classes = tenant.Classes{{Name: tenant.DefaultClass, Raw: c.Defaults.RetentionDays, Rollup: c.Defaults.RollupDays}}
	}
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.HandleTimeout, 5 * time.Minute}, {&c.ReadTimeout, 30 * time.Second}, {&c.SlowGrace, 10 * time.Second},
		{&c.PublishTimeout, 15 * time.Second}, {&c.DrainTimeout, 30 * time.Second}} {
		if *d.field <= 0 {
			*d.field = d.value
		}
	}
	if c.LeastSpeed <= 0 {
		c.LeastSpeed = 1 << 10
	}
	if c.SpoolMaxBytes <= 0 {
		c.SpoolMaxBytes = 2 << 30
	}
	if c.MessagesMaxBytes <= 0 {
		c.MessagesMaxBytes = 256 << 20
	}
	if c.MaxRequests <= 0 {
		c.MaxRequests = 256
	}
	if c.Processors <= 0 {
		c.Processors = runtime.GOMAXPROCS(0)
	}
	if c.MaxConnections <= 0 {
		c.MaxConnections = maxConnections()
	}
	if c.SpoolDir == "" {
		c.SpoolDir = os.TempDir()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	c.PathPrefix = strings.TrimRight(c.PathPrefix, "/")
	if c.PathPrefix != "" && !strings.HasPrefix(c.PathPrefix, "/") {
		c.PathPrefix = "/" + c.PathPrefix
	}
	return c
}

// Gateway is the HTTP server that every source is sent to. Make it with New; end it with the context of Run, or with Close where
// Run is not used. It is safe for concurrent use.
type Gateway struct {
	cfg        Config
	streams    *broker.Streams
	js         jetstream.JetStream // its own, so that its publishes time out
	large      jetstream.JetStream // the same for large uploads
	listener   net.Listener
	conns      *connections // beneath the listener
	handler    http.Handler
	calls      *calls
	desk       *desk // nil: there is none
	routing    *routing
	keys       *keyring
	metrics    *metrics
	disk       *diskGuard
	budget     *pool // bytes to spool
	messages   *pool // bytes of messages of gRPC
	seats      *pool // bounds the uploads being handled
	keySeats   *pool // the same of keys that may have fewer than their tenant
	guests     guests
	cuts       *pool           // uploads being cut
	flight     *pool           // bytes of large uploads on their way to JetStream
	workspaces chan *workspace // buffers for some of them, kept for the next
	backlog    backlog
	holdings   shares.Holdings
	active     *active.Sessions
	quiet      *quiet // keeps refusals from flooding the log
	uploads    *uploads
	parts      *parts
	history    history
	repeats    repeats
	door       *doorbook.Book
	seal       sealer

	draining atomic.Bool
	counted  atomic.Bool     // the sessions that are active elsewhere are known
	owing    atomic.Bool     // what is on its way from elsewhere is known
	missing  []func() string // what sources wait for before they can answer, see ReadyWhen
	contact  atomic.Int64    // when JetStream last answered, unix ns
	fill     atomic.Int64    // of the INGEST stream, in 1/1000

	ctx  context.Context // of what runs in the background
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// workspace is what cutting one upload needs.
type workspace struct {
	body Body
	buf  []byte // stream.PartBytes, nil until first used
	out  []byte
}

// New opens the gateway on s: it listens at once, so that Addr is known, and serves in Run. It fails on a bad address, certificate or
// folder.
func New(s *broker.Streams, cfg Config) (*Gateway, error) {
	cfg = cfg.withDefaults()
	if (cfg.TLSCert == "") != (cfg.TLSKey == "") {
		return nil, errors.New("TLS needs both a certificate and a key file")
	}
	if cfg.TLSCert == "" && cfg.TLSClientCA != "" {
		return nil, errors.New("client certificates need TLS: give a certificate and a key file")
	}
	if err := check(cfg.Sources); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.SpoolDir, 0o700); err != nil {
		return nil, fmt.Errorf("spool folder: %w: make it writable or name another", err)
	}
	if probe, err := os.CreateTemp(cfg.SpoolDir, "warpline-spool-*"); err != nil {
		return nil, fmt.Errorf("spool folder: %w: make it writable or name another", err)
	} else {
		probe.Close()
		os.Remove(probe.Name())
	}
	if cfg.Large == nil {
		cfg.Large = s
	}
	js, err := publishing(s.Conn, cfg)
	if err != nil {
		return nil, err
	}
	large, err := publishing(cfg.Large.Conn, cfg)
	if err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, streams: s, js: js, large: large, metrics: newMetrics(cfg.Registerer, cfg.Sources),
		budget: newPool(cfg.SpoolMaxBytes, cfg.SpoolMaxBytes), messages: newPool(cfg.MessagesMaxBytes, cfg.MessagesMaxBytes),
		quiet: &quiet{interval: 10 * time.Second}, active: active.New()}
	g.metrics.tenants.Bound(cfg.MetricsTenants)
	g.guests.met, g.guests.defaults, g.guests.spending = g.metrics.meet, cfg.Defaults, newSpending()
	g.backlog.elsewhere = pending.New(func() map[string]pending.Amount { return g.backlog.amounts(g.guests.tellPending) })
	g.door = doorbook.New(js, s.Partitions, cfg.Logger, g.backlog.upTo)
	g.parts = &parts{js: js, objects: cfg.Large.Parts, metrics: g.metrics, log: cfg.Logger}
	g.uploads = newUploads(s, js, cfg.Logger, g.metrics, g.quiet)
	g.disk = &diskGuard{dirs: []string{cfg.SpoolDir}, min: cfg.MinFreeDiskBytes, refuse: cfg.Refuse}
	if cfg.StoreDir != "" {
		g.disk.dirs = append(g.disk.dirs, cfg.StoreDir)
	}
	// Cutting is work for the processor: a few uploads at once keep it busy, more only cost memory.
	g.cuts = newPool(cutsAtOnce, cutsPerTenant)
	g.flight = newPool(2*flightBytes, flightBytes)
	g.workspaces = make(chan *workspace, 2*max(2, cfg.Processors))
	g.seats = newPool(int64(cfg.MaxRequests), int64(seatsOf(cfg.MaxRequests)))
	g.keySeats = newPool(1<<40, 1<<30)
	g.keys = &keyring{kv: s.Keys, streams: s, restored: s.Remade("KV_" + stream.KeysBucket), conn: s.Conn, log: cfg.Logger,
		defaults: cfg.Defaults, guests: &g.guests,
		meters: map[string]*meter{}, scoped: map[string]tenant.Key{}, households: map[string]*household{},
		retention: newRetention(cfg.Classes),
		asks:      rate.NewLimiter(maxAsks, maxAsks)}
	if cfg.DevKey != "" {
		g.keys.dev = tenant.Hash(strings.TrimSpace(cfg.DevKey))
		g.keys.meters[g.keys.dev] = newMeter(g.keys.dev, tenant.Key{ID: "dev", Tenant: "dev"}, cfg.Defaults, cfg.Defaults,
			g.guests.of("dev"))
	}
	g.routing = g.routes()
	g.handler = http.HandlerFunc(g.serve)
	if cfg.Listen != "" {
		g.listener, g.conns, err = listen(cfg, cfg.Listen, "")
		if err != nil {
			return nil, err
		}
	}
	if g.desk, err = newDesk(cfg); err != nil {
		g.closeListeners()
		return nil, err
	}
	g.metrics.registry.MustRegister(shares.New(g.shares, g.metrics.tenants.Shown))
	ctx, stop := context.WithCancel(context.Background())
	g.ctx, g.stop = ctx, stop
	g.calls, err = newCalls(g)
	if err != nil {
		g.Close()
		return nil, err
	}
	g.wg.Go(func() { g.keys.run(ctx) })
	g.wg.Go(func() { g.observe(ctx) })
	g.wg.Go(func() { g.shareLimits(ctx) })
	g.wg.Go(func() { g.listenToWorkers(ctx) })
	g.wg.Go(func() { g.keepQuotas(ctx) })
	self := hex.EncodeToString(g.guests.spending.id[:])
	sessions := &peers.Keeper{KV: s.Quotas, Name: "active", Self: self, Log: cfg.Logger, Told: g.active}
	g.wg.Go(func() { sessions.Run(ctx, func() { g.counted.Store(true) }) })
	amounts := &peers.Keeper{KV: s.Quotas, Name: "pending", Self: self, Log: cfg.Logger, Told: g.backlog.elsewhere}
	g.wg.Go(func() { amounts.Run(ctx, func() { g.owing.Store(true) }) })
	g.wg.Go(func() { g.uploads.run(ctx) })
	g.wg.Go(func() { g.backlog.run(ctx, s.Marks, cfg.Logger) })
	counting, counted := context.WithCancel(context.WithoutCancel(ctx))
	g.wg.Go(func() {
		defer counted()
		g.repeats.run(ctx, js, s.Partitions, g.door)
	})
	g.wg.Go(func() { g.door.Run(counting) })
	return g, nil
}

// publishing is JetStream through a connection, for publishes that time out.
func publishing(nc *nats.Conn, cfg Config) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(1024), jetstream.WithPublishAsyncTimeout(cfg.PublishTimeout),
		jetstream.WithDefaultTimeout(cfg.PublishTimeout))
	if err != nil {
		return nil, fmt.Errorf("jetstream: %w", err)
	}
	return js, nil
}

// listen listens with the gateway's certificate and bounds. name begins the names of the listener's series.
func listen(cfg Config, addr, name string) (net.Listener, *connections, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("gateway: %w: is another process using the address?", err)
	}
	conns := boundConnections(l, cfg.MaxConnections, cfg.Registerer, name)
	if cfg.TLSCert == "" {
		return conns, conns, nil
	}
	secured, err := secure(cfg, cfg.TLSClientCA, nextProtos)
	if err != nil {
		l.Close()
		return nil, nil, err
	}
	return tls.NewListener(conns, secured), conns, nil
}

// secure loads the gateway's certificate, and those who sign certificates of clients where these are asked for.
func secure(cfg Config, clientCA string, protocols []string) (*tls.Config, error) {
	c := &certificates{cert: cfg.TLSCert, key: cfg.TLSKey, log: cfg.Logger}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("gateway certificate: %w", err)
	}
	secured := &tls.Config{GetCertificate: c.get, MinVersion: tls.VersionTLS12, NextProtos: protocols}
	if clientCA == "" {
		return secured, nil
	}
	return askClients(secured, clientCA, cfg.Logger)
}

// Go runs what a source needs in the background until the gateway closes; then ctx ends.
func (g *Gateway) Go(run func(ctx context.Context)) { g.wg.Go(func() { run(g.ctx) }) }

// ReadyWhen keeps the gateway unready while missing returns what is not there yet. A source calls it where its RPCs are made; missing may
// be called from several goroutines.
func (g *Gateway) ReadyWhen(missing func() string) { g.missing = append(g.missing, missing) }

// Streams returns what the gateway publishes to.
func (g *Gateway) Streams() *broker.Streams { return g.streams }

// Logger is where the gateway writes.
func (g *Gateway) Logger() *slog.Logger { return g.cfg.Logger }

// Addr returns the address it listens on, "" when it does not.
func (g *Gateway) Addr() string {
	if g.listener == nil {
		return ""
	}
	return g.listener.Addr().String()
}

// Handler returns the HTTP handler, for tests and for servers of one's own.
func (g *Gateway) Handler() http.Handler { return g.handler }

// Run serves until ctx ends. Then it says that it is not ready, waits DrainDelay, stops accepting, lets running requests finish
// for up to DrainTimeout, and closes the gateway. The error is nil after an orderly end.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.Close()
	if g.listener == nil {
		return errors.New("gateway: no address to listen on")
	}
	announce, silent := context.WithCancel(context.WithoutCancel(ctx))
	defer silent()
	g.wg.Go(func() { broker.Announce(announce, g.streams.Leases, "gateway", g.streams.LeaseTTL) })
	srv := server(g.cfg, g.handler, g.conns)
	failed := make(chan error, 3)
	go func() { failed <- srv.Serve(g.listener) }()
	go g.calls.serve(failed)
	go g.desk.serve(failed)
	select {
	case err := <-failed:
		silent()
		return fmt.Errorf("gateway: %w", err)
	case <-ctx.Done():
	}
	g.draining.Store(true)
	srv.SetKeepAlivesEnabled(false)
	time.Sleep(g.cfg.DrainDelay)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), g.cfg.DrainTimeout)
	defer cancel()
	err := errors.Join(g.desk.shutdown(end), srv.Shutdown(end), g.calls.shutdown(end))
	silent()
	if err != nil {
		srv.Close()
		g.calls.close()
		return fmt.Errorf("gateway: requests were still running after %s and were cut off: %w (their senders will send again)",
			g.cfg.DrainTimeout, err)
	}
	return nil
}

// Close stops what runs in the background and the listener. It is safe to call more than once.
func (g *Gateway) Close() {
	g.draining.Store(true)
	g.stop()
	g.closeListeners()
	if g.calls != nil {
		g.calls.close()
	}
	g.wg.Wait()
	g.js.CleanupPublisher()
	g.large.CleanupPublisher()
}

func (g *Gateway) closeListeners() {
	if g.listener != nil {
		g.listener.Close()
	}
	g.desk.close()
}

// observe keeps the number of gateways, JetStream's health and the stream's fill up to date.
func (g *Gateway) observe(ctx context.Context) {
	every := min(max(g.streams.LeaseTTL/2, 200*time.Millisecond), 3*time.Second)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		g.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (g *Gateway) look(ctx context.Context) {
	g.metrics.spooled.Set(float64(g.budget.inUse()))
	g.metrics.endSilent(time.Now())
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if n, err := broker.Alive(ctx, g.streams.Leases, "gateway"); err == nil {
		n = max(n, 1)
		g.metrics.replicas.Set(float64(n))
	}
	st, err := g.js.Stream(ctx, stream.IngestStream)
	if err != nil {
		return
	}
	g.contact.Store(time.Now().UnixNano())
	info := st.CachedInfo()
	g.history.saw(info)
	g.backlog.saw(int64(info.State.Bytes), max(info.Config.MaxBytes, 0))
	g.metrics.ingestBytes.Set(float64(info.State.Bytes))
	g.metrics.ingestMax.Set(float64(max(info.Config.MaxBytes, 0)))
	if info.Config.MaxBytes > 0 {
		g.fill.Store(int64(info.State.Bytes) * 1000 / info.Config.MaxBytes)
	}
	st, err = g.js.Stream(ctx, "KV_"+stream.WindowsBucket)
	if err != nil {
		return
	}
	info = st.CachedInfo()
	g.uploads.stored.Store(int64(info.State.Bytes))
	g.uploads.room.Store(max(info.Config.MaxBytes, 0))
	g.metrics.uploadBytes.Set(float64(info.State.Bytes))
	g.metrics.uploadMax.Set(float64(max(info.Config.MaxBytes, 0)))
	g.parts.look(ctx)
	g.uploads.watchRoom(ctx, float64(info.State.Bytes), float64(info.Config.MaxBytes))
}

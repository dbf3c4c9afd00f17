package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
)

// stackConfig is what all roles in one process need. It has been checked.
type stackConfig struct {
	Dir                    string
	Listen, PathPrefix     string
	TLSCert, TLSKey        string
	NATS                   natsFlags // an address: no embedded server
	NATSListen             string
	ClickHouse             clickhouseFlags // an address: no embedded engine
	EngineHTTP, EngineTCP  int
	EngineMemory           int64
	Fsync                  bool
	Layout                 broker.Layout
	StoreMax               int64 // of the embedded NATS; 0: from the free space
	DevKey                 string
	Limits                 tenant.Limits
	SinkInterval, ChunkAge time.Duration
	NamesMemory            int64 // of the worker; 0: its default
	Log                    *slog.Logger
	Progress               io.Writer // words and bars of a fetch
	// Step is told what is being started, in a few words; may be nil.
	Step func(what string)
}

// stack is a running service: engine, NATS, sink, worker and gateway, in the order in which they started.
type stack struct {
	cfg     stackConfig
	dir     *dataDir
	engine  *engine.Supervisor
	nats    *broker.Supervisor
	nc      *nats.Conn
	Streams *broker.Streams
	Sink    *sink.Sink
	Worker  *aggregate.Worker
	Gateway *ingest.Gateway
	// Server is the ClickHouse that the sink writes to, as its writer.
	Server clickhouseServer
	// Reader is the same for those who only read: the embedded engine's reader, or Server where the engine is not ours.
	Reader clickhouseServer
	// NATSURL is where other processes reach NATS, the embedded one's token included; "" when nothing listens. NATSAddr is the same for
	// people: without the token.
	NATSURL, NATSAddr string
	// Failed delivers the error of a role that ended by itself.
	Failed chan error

	reg     *prometheus.Registry
	watcher *watcher
	flow    *flow

	keeperRole, sinkRole, workerRole, gatewayRole *role
}

// startStack starts everything, downstream first, so that nobody pushes into a void. ctx bounds the start. When it fails,
// what had started is stopped again.
func startStack(ctx context.Context, cfg stackConfig) (s *stack, err error) {
	if cfg.Step == nil {
		cfg.Step = func(string) {}
	}
	s = &stack{cfg: cfg, Failed: make(chan error, 1), reg: newRegistry()}
	s.watcher = newWatcher(cfg.Log, s.reg)
	defer func() {
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err() // what a start says that was interrupted half-way misleads
			}
			quick, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			s.stop(quick, func(string, time.Duration, error) {})
			s = nil
		}
	}()
	if s.dir, err = holdDir(cfg.Dir); err != nil {
		return s, err
	}
	if err = os.MkdirAll(s.dir.file("spool"), 0o700); err != nil {
		return s, fmt.Errorf("spool folder: %w", err)
	}
	if err = s.portsFree(); err != nil {
		return s, err
	}
	cfg.Step("engine")
	if err = s.startEngine(ctx); err != nil {
		return s, err
	}
	cfg.Step("nats")
	if err = s.startNATS(ctx); err != nil {
		return s, err
	}
	cfg.Step("roles")
	reg := s.reg
	sc := s.Server.sinkConfig()
	sc.MinInterval, sc.Fsync, sc.Logger, sc.Registerer = cfg.SinkInterval, cfg.Fsync, cfg.Log, reg // it says its role itself
	if s.Sink, err = sink.New(s.Streams, sc); err != nil {
		return s, fmt.Errorf("sink: %w", err)
	}
	s.sinkRole = start("sink", s.Failed, s.Sink.Run)
	if err = s.awaitSchema(ctx); err != nil {
		return s, err
	}
	names := &nameReader{server: s.Server}
	s.Worker = aggregate.New(s.Streams, aggregate.Config{
		Sources: folds(), ChunkAge: cfg.ChunkAge, NamesBytes: int(cfg.NamesMemory), Schema: schema(), Version: version(), LoadNames: names.load,
		Logger: cfg.Log.With("role", "worker"), Registerer: reg,
	})
	s.workerRole = start("worker", s.Failed, func(ctx context.Context) error {
		defer names.close()
		return s.Worker.Run(ctx)
	})
	if s.Gateway, err = ingest.New(s.Streams, ingest.Config{
		Listen: cfg.Listen, TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, PathPrefix: cfg.PathPrefix, SpoolDir: s.dir.file("spool"),
		Defaults: cfg.Limits, DevKey: cfg.DevKey, Version: version(), StoreDir: s.dir.path, MinFreeDiskBytes: minFreeDisk, Logger: cfg.Log.With("role", "gateway"), Registerer: reg,
		Refuse: s.refuse, Ready: s.watcher.blocked, Sources: doors(),
	}); err != nil {
		return s, fmt.Errorf("gateway: %w", err)
	}
	s.gatewayRole = start("gateway", s.Failed, s.Gateway.Run)
	if err = awaitGateway(ctx, s.Gateway, s.Failed, cfg.Log); err != nil {
		return s, err
	}
	who := "" // a server of others: its own default user, as the commands' flags have it
	if s.engine != nil {
		who = s.Reader.User
	}
	return s, s.dir.publish(running{
		PID: os.Getpid(), Started: time.Now().UTC(), Version: version(), Gateway: s.Gateway.Addr(), GatewayTLS: cfg.TLSCert != "", NATS: s.NATSURL,
		ClickHouse: s.Server.Native, ClickHouseHTTP: s.Server.HTTP, ClickHouseUser: who,
	})
}

// schemaWithin is how long a start waits for the tables. A ClickHouse that is away does not keep the rest from starting.
const schemaWithin = 10 * time.Second

// awaitSchema waits until the sink has made its tables, so that whoever sees "ready" can query them.
func (s *stack) awaitSchema(ctx context.Context) error {
	late := time.NewTimer(schemaWithin)
	defer late.Stop()
	for {
		st := s.Sink.Status()
		if len(st.Lanes) > 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.Failed:
			return err
		case <-late.C:
			s.cfg.Log.Warn("the tables are not there yet; starting without them, rows wait in NATS", "why", st.String())
			return nil
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// gatewayWithin is how long a start waits for the gateway. One that cannot take uploads for a lasting reason, such as a full disk, still
// has to be there to say so.
const gatewayWithin = 10 * time.Second

// awaitGateway waits until uploads are taken: the keys are loaded and JetStream answers. failed may be nil.
func awaitGateway(ctx context.Context, g *ingest.Gateway, failed <-chan error, log *slog.Logger) error {
	late := time.NewTimer(gatewayWithin)
	defer late.Stop()
	for {
		why := gatewayTrouble(ctx, g)
		if why == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-late.C:
			log.Warn("the gateway takes nothing yet; starting without waiting for it", "why", why)
			return nil
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// minFreeDisk is what stays free on the data folder's volume: beneath it the gateway answers 503 disk_low, because a volume that is
// really full makes JetStream refuse everything until a restart.
const minFreeDisk = 512 << 20

// portsFree says at once what would fail after seconds of starting other things.
func (s *stack) portsFree() error {
	for _, p := range []struct{ flag, addr string }{{"--listen", s.cfg.Listen}, {"--nats-listen", s.cfg.NATSListen}} {
		if p.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", p.addr)
		if err != nil {
			return fmt.Errorf("%s: %w: stop what holds it, or name another with %s", p.addr, errors.Unwrap(err), p.flag)
		}
		l.Close()
	}
	return nil
}

func (s *stack) startEngine(ctx context.Context) error {
	if s.cfg.ClickHouse.ClickHouse != "" {
		s.Server = s.cfg.ClickHouse.server()
		s.Reader = s.Server
		return nil
	}
	e, err := engine.Supervise(ctx, engine.Config{
		Dir: s.dir.file("clickhouse"), Secrets: s.dir.path, Readable: s.cfg.ClickHouse.ClickHouseDatabase, HTTPPort: s.cfg.EngineHTTP, TCPPort: s.cfg.EngineTCP, MemoryLimitBytes: s.cfg.EngineMemory,
		Progress: s.cfg.Progress, Logger: slog.New(onlyFirst{s.cfg.Log.Handler()}),
	}, engineWatch(s.cfg.Log))
	if err != nil {
		text := err.Error()
		for port, flag := range map[string]string{"HTTP port": "--clickhouse-http-port", "native port": "--clickhouse-tcp-port"} {
			if strings.Contains(text, port) {
				return fmt.Errorf("%w (%s)", err, flag)
			}
		}
		return err
	}
	s.engine = e
	x := e.Engine()
	s.Server = clickhouseServer{Native: x.TCPAddr(), HTTP: x.HTTPAddr(), User: x.User(), Password: x.Password(), Database: s.cfg.ClickHouse.ClickHouseDatabase}
	s.Reader = s.Server
	s.Reader.User, s.Reader.Password, s.Reader.PasswordFile = engine.Reader, x.ReaderPassword(), s.dir.file(engine.ReaderSecret)
	return nil
}

func (s *stack) startNATS(ctx context.Context) error {
	bc := broker.ConnectConfig{URL: s.cfg.NATS.NATS, CredentialsFile: s.cfg.NATS.NATSCreds, Name: "warpline up", Logger: s.cfg.Log}
	layout := s.cfg.Layout
	s.NATSURL, s.NATSAddr = s.cfg.NATS.NATS, s.cfg.NATS.NATS
	if s.NATSURL == "" {
		var store int64
		var err error
		if layout, store, err = fitStore(s.dir.file("nats"), layout, s.cfg.StoreMax); err != nil {
			return err
		}
		layout.Lower = layout.Lower && (s.cfg.StoreMax > 0 || layout == s.cfg.Layout) // sizes that were scaled to the disk are nobody's wish
		s.cfg.Layout = layout
		token, err := s.dir.secret("nats-token")
		if err != nil {
			return err
		}
		if s.nats, err = broker.Supervise(broker.ServerConfig{
			Dir: s.dir.file("nats"), Listen: s.cfg.NATSListen, MaxStoreBytes: store, Fsync: s.cfg.Fsync, Token: token, Logger: s.cfg.Log,
		}); err != nil {
			return err
		}
		bc.Server, bc.Token = s.nats, token
		if a := s.nats.Addr(); a != nil {
			s.NATSURL, s.NATSAddr = "nats://"+token+"@"+a.String(), "nats://"+a.String()
		}
	}
	nc, js, err := broker.Connect(ctx, bc)
	if err != nil {
		return unreachable(err)
	}
	s.nc = nc
	layout.Logger = s.cfg.Log
	if s.Streams, err = broker.Open(ctx, nc, js, layout); err != nil {
		return fmt.Errorf("open the streams: %w", err)
	}
	if s.nats != nil {
		s.Streams.Barrier = broker.NewBarrier(s.dir.file("nats")).Sync
		if err := s.Streams.Durable(ctx); err != nil { // the streams that were made or changed just now
			return err
		}
	}
	s.flow = newFlow(s.Streams)
	s.keeperRole = start("keeper", s.Failed, func(ctx context.Context) error {
		go s.syncRemade(ctx)
		s.Streams.Keep(ctx, broker.KeeperConfig{Registerer: s.reg, Hold: s.refuse})
		return nil
	})
	return nil
}

// syncRemade makes the descriptions of streams durable that were made anew: a power cut must not take them again. What fails is tried again
// before the next span is inserted.
func (s *stack) syncRemade(ctx context.Context) {
	changed, end := s.Streams.RemadeChanged()
	defer end()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if err := s.Streams.Durable(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("streams that were made anew are not on disk yet", "err", err)
			}
		}
	}
}

// refuse is why nothing can be stored, "" when everything can: uploads are answered 503 at once, instead of after a time-out each.
func (s *stack) refuse() string {
	if s.nats == nil {
		return ""
	}
	if why := s.nats.Stuck(); why != "" {
		return "NATS cannot store and is started again by itself: " + why
	}
	return ""
}

// stop ends everything from the edge inwards: the gateway finishes its requests, the worker publishes its open chunk, the sink
// inserts what is stored, then NATS and the engine end. ctx bounds it all; what is not finished then is finished at the next
// start. told hears of each part: how long it took and what went wrong.
func (s *stack) stop(ctx context.Context, told func(part string, took time.Duration, err error)) {
	step := func(part string, f func() error) {
		began := time.Now()
		err := f()
		told(part, time.Since(began), err)
	}
	if s.gatewayRole != nil {
		step("gateway", func() error { return s.gatewayRole.end(ctx) })
	}
	if s.workerRole != nil {
		step("worker", func() error { return s.workerRole.end(ctx) })
	}
	if s.sinkRole != nil {
		step("sink", func() error {
			drained := s.drainSink(ctx)
			return errors.Join(drained, s.sinkRole.end(ctx))
		})
	}
	if s.keeperRole != nil {
		if err := s.keeperRole.end(ctx); err != nil {
			told("keeper", 0, err)
		}
	}
	if s.nc != nil {
		s.nc.Close()
	}
	if s.nats != nil {
		step("nats", func() error { s.nats.Stop(); return nil })
	}
	if s.engine != nil {
		step("engine", func() error { return s.engine.Stop(ctx) })
	}
	if s.dir != nil {
		s.dir.release()
	}
}

// onlyFirst lets a supervisor's engine speak until it is up: from then on the watch tells what changed, once.
type onlyFirst struct{ slog.Handler }

func (h onlyFirst) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "engine down") || strings.HasPrefix(r.Message, "engine ready") || strings.HasPrefix(r.Message, "engine stop") {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

func (h onlyFirst) WithAttrs(a []slog.Attr) slog.Handler { return onlyFirst{h.Handler.WithAttrs(a)} }
func (h onlyFirst) WithGroup(name string) slog.Handler   { return onlyFirst{h.Handler.WithGroup(name)} }

package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
)

// Stack is a running service: engine, NATS, sink, worker and gateway, in the order in which they started. Start makes it, Stop ends it. Its
// fields are set by Start and not changed after.
type Stack struct {
	// Dir is its data folder, held until Stop.
	Dir     *DataDir
	Streams *broker.Streams
	Gateway *ingest.Gateway
	// Server is the ClickHouse that the sink writes to, as its writer.
	Server ClickHouse
	// Reader is the same for those who only read: the embedded engine's reader, or Server where the engine is not ours.
	Reader ClickHouse
	// TenantsAsk says whether tenants can ask at /clickhouse/ of the gateway.
	TenantsAsk bool
	// Metrics is where /metrics is beside the gateway's address, "" for nowhere.
	Metrics string
	// NATSAddr is where other processes reach NATS, for people: without the token of the embedded one. It is "" when nothing listens.
	NATSAddr string
	// Failed delivers the error of a role that ended by itself, of one at most.
	Failed <-chan error

	cfg      Config
	failed   chan error
	engine   *engine.Supervisor
	nats     *broker.Supervisor
	natsURL  string // NATSAddr with the token
	natsSync string // how often the embedded NATS syncs, "" of a server
	nc       []*nats.Conn
	sink     *sink.Sink
	worker   *aggregate.Worker
	reg      *prometheus.Registry
	watcher  *watcher
	flow     *flow

	// ofSink, ofWorker and ofUploads are Streams through connections of their own, which carry MiB at a time.
	ofSink, ofWorker, ofUploads *broker.Streams

	endTenants, endMetrics func()

	keeperRole, sinkRole, workerRole, gatewayRole *role
}

// Start starts everything, downstream first, so that nobody pushes into a void. ctx bounds the start. When it fails, what had started is
// stopped again. The caller calls Stop.
func Start(ctx context.Context, cfg Config) (s *Stack, err error) {
	if cfg.Step == nil {
		cfg.Step = func(string) {}
	}
	s = &Stack{cfg: cfg, failed: make(chan error, 1), reg: newRegistry()}
	s.Failed = s.failed
	s.watcher = newWatcher(cfg.Log, s.reg)
	defer func() {
		if err != nil {
			if ctx.Err() != nil {
				err = ctx.Err() // what a start says that was interrupted half-way misleads
			}
			quick, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			s.Stop(quick, func(string, time.Duration, error) {})
			s = nil
		}
	}()
	s.Dir, err = Hold(cfg.Dir)
	if err != nil {
		return s, err
	}
	if err := os.MkdirAll(s.Dir.File("spool"), 0o700); err != nil {
		return s, fmt.Errorf("spool folder: %w", err)
	}
	if err := s.portsFree(); err != nil {
		return s, err
	}
	cfg.Step("engine")
	if err := s.startEngine(ctx); err != nil {
		return s, err
	}
	cfg.Step("nats")
	if err := s.startNATS(ctx); err != nil {
		return s, err
	}
	cfg.Step("roles")
	reg := s.reg
	sc := s.Server.sinkConfig(cfg.Sources.Schema)
	sc.MinInterval, sc.Fsync, sc.Logger, sc.Registerer = cfg.SinkInterval, cfg.Fsync, cfg.Log, reg // it says its role itself
	sc.ReplayWindow = cfg.ReplayWindow
	s.sink, err = sink.New(s.ofSink, sc)
	if err != nil {
		return s, fmt.Errorf("sink: %w", err)
	}
	s.sinkRole = startRole("sink", s.failed, s.sink.Run)
	if err := awaitSchema(ctx, s.sink, s.failed, cfg.Log, aWhile); err != nil {
		return s, err
	}
	names := &nameReader{server: s.Server}
	s.worker = aggregate.New(s.ofWorker, aggregate.Config{
		Sources: cfg.Sources.Folds, Schema: cfg.Sources.Schema, ChunkAge: cfg.ChunkAge, NamesBytes: int(cfg.NamesMemory),
		Version: cfg.Version, LoadNames: names.load, MetricsTenants: cfg.MetricsTenants, Logger: cfg.Log.With("role", "worker"), Registerer: reg,
	})
	s.workerRole = startRole("worker", s.failed, func(ctx context.Context) error {
		defer names.close()
		return s.worker.Run(ctx)
	})
	asking := s.questions()
	desk := administration{gateway: func() *ingest.Gateway { return s.Gateway }, streams: s.Streams, reads: s.Reader, writes: s.Server,
		schema: cfg.Sources.Schema, defaults: cfg.Limits,
		version: cfg.Version, log: cfg.Log.With("role", "gateway"), reg: reg}.api()
	s.TenantsAsk = asking != nil
	s.Gateway, err = ingest.New(s.Streams, ingest.Config{
		Listen: cfg.Listen, GRPCListen: cfg.GRPCListen, GRPCClientCA: cfg.GRPCClientCA, TLSClientCA: cfg.TLSClientCA,
		TLSCert: cfg.TLSCert, TLSKey: cfg.TLSKey, PathPrefix: cfg.PathPrefix, UIURL: cfg.UIURL, SpoolDir: s.Dir.File("spool"),
		Defaults: cfg.Limits, Classes: cfg.Classes, DevKey: cfg.DevKey, Version: cfg.Version, StoreDir: s.Dir.Path, MinFreeDiskBytes: minFreeDisk,
		Logger: cfg.Log.With("role", "gateway"), Registerer: reg, Refuse: s.refuse, Ready: s.watcher.blocked, Sources: cfg.Sources.Doors,
		Questions: asking, HideMetrics: public(cfg.Listen), MetricsTenants: cfg.MetricsTenants,
		Admin: desk, AdminListen: cfg.AdminListen, AdminHere: !public(cfg.Listen),
		Large: s.ofUploads, Processors: Processors(),
	})
	if err != nil {
		return s, fmt.Errorf("gateway: %w", err)
	}
	serving, endMetrics := context.WithCancel(context.WithoutCancel(ctx))
	s.endMetrics = endMetrics
	if s.Metrics, err = serveMetrics(serving, cfg.MetricsListen, reg, s.Gateway.Ready); err != nil {
		s.Gateway.Close()
		return s, err
	}
	watch, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	kept, err := keepTenants(watch, cfg.Tenants, newDesk(s.Streams, cfg.Limits, cfg.Log), cfg.Log, reg)
	if err != nil {
		unwatch()
		s.Gateway.Close()
		return s, err
	}
	s.endTenants = func() { unwatch(); kept() }
	if s.engine == nil { // the embedded one has no users of tenants
		go closeUsers(watch, s.Server, s.Streams, cfg.Log.With("role", "sink"))
	}
	go trimRejects(watch, s.Server, s.Streams, cfg.RejectsMax, cfg.Log.With("role", "sink"), reg)
	s.gatewayRole = startRole("gateway", s.failed, s.Gateway.Run)
	if err := awaitGateway(ctx, s.Gateway, s.failed, cfg.Log, aWhile); err != nil {
		return s, err
	}
	who := "" // a server of others: its own default user, as the commands' flags have it
	if s.engine != nil {
		who = s.Reader.User
	}
	return s, s.Dir.publish(Running{
		PID: os.Getpid(), Started: time.Now().UTC(), Version: cfg.Version,
		Gateway: s.Gateway.Addr(), GatewayGRPC: s.Gateway.GRPCAddr(), GatewayTLS: cfg.TLSCert != "", NATS: s.natsURL, NATSSync: s.natsSync,
		ClickHouse: s.Server.Native, ClickHouseHTTP: s.Server.HTTP, ClickHouseUser: who,
	})
}

// minFreeDisk is what stays free on the data folder's volume: beneath it the gateway answers 503 disk_low, because a volume that is
// really full makes JetStream refuse everything until a restart.
const minFreeDisk = 512 << 20

// portsFree says at once what would fail after seconds of starting other things.
func (s *Stack) portsFree() error {
	for _, p := range []struct{ flag, addr string }{{"--listen", s.cfg.Listen}, {"--grpc-listen", s.cfg.GRPCListen},
		{"--nats-listen", s.cfg.NATSListen}, {"--admin-listen", s.cfg.AdminListen}} {
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

// Stop ends everything from the edge inwards: the gateway finishes its requests, the worker publishes its open chunk, the sink
// inserts what is stored, then NATS and the engine end. ctx bounds it all; what is not finished then is finished at the next
// start. report is called for each part: how long it took and what went wrong. Stop is called once, when Watch has returned.
func (s *Stack) Stop(ctx context.Context, report func(part string, took time.Duration, err error)) {
	step := func(part string, f func() error) {
		began := time.Now()
		err := f()
		report(part, time.Since(began), err)
	}
	if s.gatewayRole != nil {
		step("gateway", func() error { return s.gatewayRole.end(ctx) })
	}
	if s.endTenants != nil {
		s.endTenants()
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
			report("keeper", 0, err)
		}
	}
	if s.endMetrics != nil {
		s.endMetrics()
	}
	for _, nc := range s.nc {
		nc.Close()
	}
	if s.nats != nil {
		step("nats", func() error { s.nats.Stop(); return nil })
	}
	if s.engine != nil {
		step("engine", func() error { return s.engine.Stop(ctx) })
	}
	if s.Dir != nil {
		s.Dir.Release()
	}
}

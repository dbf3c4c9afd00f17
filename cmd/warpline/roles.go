package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/sink/engine"
)

// gatewayCmd is the door alone.
type gatewayCmd struct {
	apart
	Listen     string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"${gateway_listen}"`
	GRPCListen string `name:"grpc-listen" placeholder:"HOST:PORT" help:"${gateway_grpc_listen}"`
	PathPrefix string `placeholder:"/PREFIX" help:"Serve the HTTP paths below this prefix too."`
	UIURL      string `name:"ui-url" placeholder:"URL" help:"${gateway_ui_url}"`
	TLSCert    string `name:"tls-cert" placeholder:"FILE" help:"Certificate of --listen and --grpc-listen, PEM."`
	TLSKey     string `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`
	HTTPCA     string `name:"tls-client-ca" placeholder:"FILE" help:"${tls_client_ca}"`
	ClientCA   string `name:"grpc-client-ca" placeholder:"FILE" help:"${grpc_client_ca}"`
	DevKey     string `secret:"" placeholder:"KEY" help:"A fixed key for tenant \"dev\", for trying things out on loopback."`
	DevKeyFile string `placeholder:"FILE" help:"File that holds such a key alone."`
	SpoolDir   string `placeholder:"DIR" help:"Folder for bodies that are being received; by default one below the system's temporary folder."`
	SpoolMax   size   `default:"2GiB" help:"Most that they may take together."`
	Tenants    string `placeholder:"FILE" help:"${gateway_tenants}"`
	Metrics    string `name:"metrics-listen" placeholder:"HOST:PORT" help:"${gateway_metrics_listen}"`
	Admin      string `name:"admin-listen" placeholder:"HOST:PORT" help:"${gateway_admin_listen}"`
	clickhouseFlags
	Series int `name:"metrics-tenants" default:"200" placeholder:"N" help:"${metrics_tenants}"`
	limitFlags
	classesFlag
}

func (c *gatewayCmd) check(p *program) error {
	s := p.Settings
	if err := c.apart.check(s); err != nil {
		return err
	}
	if err := checkAddr(s, "listen", c.Listen); err != nil {
		return err
	}
	if c.GRPCListen != "" {
		if err := checkAddr(s, "grpc-listen", c.GRPCListen); err != nil {
			return err
		}
	}
	for _, l := range []struct{ flag, addr string }{{"listen", c.Listen}, {"grpc-listen", c.GRPCListen}} {
		if c.DevKey != "" && l.addr != "" && !loopback(l.addr) {
			return fmt.Errorf("%s is for loopback only, and %s is %s: listen on 127.0.0.1, or make a real key with \"warpline key create\"",
				s.name("dev-key"), s.name(l.flag), l.addr)
		}
	}
	return errors.Join(checkUI(s, c.UIURL), checkTLS(s, c.TLSCert, c.TLSKey), checkClientCA(s, "tls-client-ca", c.HTTPCA, c.TLSCert),
		checkClientCA(s, "grpc-client-ca", c.ClientCA, c.TLSCert), c.limitFlags.check(s), c.classesFlag.check(s, c.limits()),
		checkTenants(s, c.Tenants, c.classesFlag, c.limits()), metricsFlags{c.Metrics}.check(s), checkSeries(s, c.Series),
		checkAdmin(s, c.Admin), c.clickhouseFlags.check(s))
}

// checkAdmin refuses what is not host:port; "" is nowhere.
func checkAdmin(s *settings, addr string) error {
	if addr == "" {
		return nil
	}
	return checkAddr(s, "admin-listen", addr)
}

// Run serves until a signal, then lets requests under way finish.
func (c *gatewayCmd) Run(ctx context.Context, p *program) error {
	classes, err := c.classes(c.limits())
	if err != nil {
		return err
	}
	return c.role(p).RunGateway(ctx, p.Hard, service.GatewayConfig{
		Listen: c.Listen, GRPCListen: c.GRPCListen, PathPrefix: c.PathPrefix, UIURL: c.UIURL, TLSCert: c.TLSCert, TLSKey: c.TLSKey,
		GRPCClientCA: c.ClientCA, TLSClientCA: c.HTTPCA, DevKey: c.DevKey, Limits: c.limits(), Classes: classes,
		SpoolDir: c.SpoolDir, SpoolMax: int64(c.SpoolMax), Tenants: tenantFile(c.Tenants, classes),
		MetricsListen: c.Metrics, MetricsTenants: c.Series,
		AdminListen: c.Admin, ClickHouse: c.server(),
	})
}

// workerCmd is the fold alone.
type workerCmd struct {
	apart
	metricsFlags
	Series int `name:"metrics-tenants" default:"200" placeholder:"N" help:"${metrics_tenants}"`
	chunkFlags
	clickhouseFlags
}

func (c *workerCmd) check(p *program) error {
	return errors.Join(c.apart.check(p.Settings), c.metricsFlags.check(p.Settings), checkSeries(p.Settings, c.Series),
		c.chunkFlags.check(p.Settings),
		c.clickhouseFlags.check(p.Settings))
}

// Run holds partitions until a signal, then publishes the open chunks.
func (c *workerCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunWorker(ctx, p.Hard, service.WorkerConfig{
		MetricsListen: c.MetricsListen, MetricsTenants: c.Series, ChunkAge: c.ChunkAge, NamesMemory: int64(c.NamesMemory), ClickHouse: c.server(),
	})
}

// sinkCmd is the inserts alone.
type sinkCmd struct {
	apart
	metricsFlags
	clickhouseFlags
	insertFlags
	rejectsFlag
	Durability string `enum:"os,fsync" default:"os" help:"fsync makes ClickHouse sync every insert before it counts as done."`
	Replicated bool   `name:"clickhouse-replicated" help:"Make the tables replicated: for a server with Keeper."`
	Cluster    string `name:"clickhouse-cluster" placeholder:"NAME" help:"Make the tables on every server of this cluster."`
}

func (c *sinkCmd) check(p *program) error {
	if err := c.apart.check(p.Settings); err != nil {
		return err
	}
	if c.ClickHouse == "" {
		return fmt.Errorf("%s is missing: name the native address of a server, as 127.0.0.1:9000, or run \"warpline up\", which has its own",
			p.Settings.name("clickhouse"))
	}
	return errors.Join(c.metricsFlags.check(p.Settings), c.clickhouseFlags.check(p.Settings), c.insertFlags.check(p.Settings))
}

// Run holds lanes until a signal, then inserts what is stored, as far as the drain time-out allows.
func (c *sinkCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunSink(ctx, p.Hard, service.SinkConfig{
		MetricsListen: c.MetricsListen, ClickHouse: c.server(), Interval: c.SinkInterval, ReplayWindow: c.ReplayWindow,
		RejectsMax: int64(c.RejectsMax),
		Fsync:      c.Durability == "fsync", Replicated: c.Replicated, Cluster: c.Cluster,
	})
}

// webCmd is the door for tenants' questions alone.
type webCmd struct {
	apart
	Listen         string `default:"127.0.0.1:8082" placeholder:"HOST:PORT" help:"Where tenants ask, at /clickhouse/, and where /readyz is."`
	PathPrefix     string `placeholder:"/PREFIX" help:"Serve the HTTP paths below this prefix too."`
	TLSCert        string `name:"tls-cert" placeholder:"FILE" help:"Certificate of --listen, PEM."`
	TLSKey         string `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`
	HTTPCA         string `name:"tls-client-ca" placeholder:"FILE" help:"${tls_client_ca}"`
	ClickHouseHTTP string `name:"clickhouse-http" placeholder:"HOST:PORT" help:"ClickHouse server, HTTP protocol."`
	Database       string `name:"clickhouse-database" default:"warpline" help:"Database that holds the tables."`
	ClickHouseTLS  bool   `name:"clickhouse-tls" help:"Speak TLS to it."`
	AtOnce         int    `name:"questions-at-once" default:"16" placeholder:"N" help:"Questions of all tenants at once; more wait."`
	webSecretFlags
	metricsFlags
}

func (c *webCmd) check(p *program) error {
	s := p.Settings
	switch {
	case c.ClickHouseHTTP == "":
		return fmt.Errorf("%s is missing: name the HTTP address of a server, as 127.0.0.1:8123; of \"warpline up\" tenants ask at its --listen",
			s.name("clickhouse-http"))
	case c.WebSecret == "":
		return fmt.Errorf("%s is missing: name the file with the secret that \"warpline tenant sql-user\" was given", s.name("web-secret-file"))
	case c.AtOnce < 1 || c.AtOnce > 10_000:
		return fmt.Errorf("%s: %d is outside 1 to 10000", s.name("questions-at-once"), c.AtOnce)
	}
	return errors.Join(c.apart.check(s), checkAddr(s, "listen", c.Listen), checkAddr(s, "clickhouse-http", c.ClickHouseHTTP),
		checkTLS(s, c.TLSCert, c.TLSKey), checkClientCA(s, "tls-client-ca", c.HTTPCA, c.TLSCert), c.webSecretFlags.check(s),
		c.metricsFlags.check(s))
}

// Run lets tenants ask until a signal, then lets questions under way finish.
func (c *webCmd) Run(ctx context.Context, p *program) error {
	return c.role(p).RunWeb(ctx, p.Hard, service.WebConfig{
		Listen: c.Listen, PathPrefix: c.PathPrefix, TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.HTTPCA, MetricsListen: c.MetricsListen,
		ClickHouse: service.ClickHouse{HTTP: c.ClickHouseHTTP, Database: c.Database, TLS: c.ClickHouseTLS}, Secret: c.WebSecret, AtOnce: c.AtOnce,
	})
}

// natsCmd runs the embedded NATS server as a process of its own, so that it can be killed alone.
type natsCmd struct {
	Data     string `required:"" placeholder:"DIR" help:"Folder for JetStream's files."`
	Listen   string `default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Where clients connect, loopback only: it has no users."`
	Fsync    bool   `help:"Wait for the disk before every acknowledgement."`
	StoreMax size   `default:"0" help:"Most that it may write; 0 for 75 % of the free space."`
}

func (c *natsCmd) check(p *program) error {
	if err := checkAddr(p.Settings, "listen", c.Listen); err != nil {
		return err
	}
	if !loopback(c.Listen) {
		return fmt.Errorf("%s: %q: this NATS has no users: listen on 127.0.0.1", p.Settings.name("listen"), c.Listen)
	}
	return nil
}

// Run serves until a signal.
func (c *natsCmd) Run(ctx context.Context, p *program) error {
	srv, err := broker.Supervise(broker.ServerConfig{Dir: c.Data, Listen: c.Listen, MaxStoreBytes: int64(c.StoreMax), Fsync: c.Fsync,
		Logger: p.Log})
	if err != nil {
		return err
	}
	p.Log.Info("ready", "addr", srv.Addr().String(), "role", "nats")
	<-ctx.Done()
	srv.Stop()
	return nil
}

// engineCmd runs the embedded ClickHouse as a process of its own, so that it can be killed alone.
type engineCmd struct {
	Data               string `required:"" placeholder:"DIR" help:"The engine's folder."`
	ClickHouseHTTPPort int    `name:"clickhouse-http-port" default:"8123" placeholder:"N" help:"HTTP port on 127.0.0.1; 0 for any free one."`
	ClickHouseTCPPort  int    `name:"clickhouse-tcp-port" default:"9000" placeholder:"N" help:"Native port on 127.0.0.1; 0 for any free one."`
	ClickHouseMemory   size   `name:"clickhouse-memory" default:"2GiB" help:"Most memory that it may take."`
}

func (c *engineCmd) check(p *program) error {
	return errors.Join(checkPort(p.Settings, "clickhouse-http-port", c.ClickHouseHTTPPort),
		checkPort(p.Settings, "clickhouse-tcp-port", c.ClickHouseTCPPort))
}

// Run serves until a signal, the end of stdin, or the engine's own end, which is an error.
func (c *engineCmd) Run(ctx context.Context, p *program) error {
	e, err := engine.Start(ctx, engine.Config{
		Dir: c.Data, HTTPPort: c.ClickHouseHTTPPort, TCPPort: c.ClickHouseTCPPort, MemoryLimitBytes: int64(c.ClickHouseMemory),
		Progress: p.Stderr, Logger: p.Log,
	})
	if err != nil {
		return err
	}
	// The passwords stay in the engine's folder, for this user alone.
	p.Log.Info("ready", "addr", e.TCPAddr(), "http", e.HTTPAddr(), "user", e.User(), "password_file",
		filepath.Join(e.Dir(), engine.WriterSecret),
		"reader_password_file", filepath.Join(e.Dir(), engine.ReaderSecret), "pid", e.Pid(), "role", "engine")
	closed := make(chan struct{})
	go func() { io.Copy(io.Discard, p.Stdin); close(closed) }()
	select {
	case <-ctx.Done():
	case <-closed:
	case <-e.Done():
		if err := e.Err(); err != nil {
			return err
		}
		return errors.New("the engine ended by itself: see its logs folder")
	}
	stop, cancel := context.WithTimeout(p.Hard, 15*time.Second)
	defer cancel()
	return e.Stop(stop)
}

package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
)

// upCmd runs all roles in one process.
type upCmd struct {
	Data       string `default:"./warpline-data" placeholder:"DIR" help:"Folder for everything that is kept. One process at a time."`
	Listen     string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"${gateway_listen}"`
	GRPCListen string `name:"grpc-listen" default:"127.0.0.1:7070" placeholder:"HOST:PORT" help:"${up_grpc_listen}"`
	PathPrefix string `placeholder:"/PREFIX" help:"Serve the HTTP paths below this prefix too."`
	UIURL      string `name:"ui-url" placeholder:"URL" help:"${gateway_ui_url}"`
	TLSCert    string `name:"tls-cert" placeholder:"FILE" help:"Certificate of --listen and --grpc-listen, PEM."`
	TLSKey     string `name:"tls-key" placeholder:"FILE" help:"Its private key, PEM."`
	HTTPCA     string `name:"tls-client-ca" placeholder:"FILE" help:"${tls_client_ca}"`
	ClientCA   string `name:"grpc-client-ca" placeholder:"FILE" help:"${grpc_client_ca}"`
	DevKey     string `secret:"" placeholder:"KEY" help:"A fixed key for tenant \"dev\", for trying things out on loopback."`
	DevKeyFile string `placeholder:"FILE" help:"File that holds such a key alone."`

	ClickHouseHTTPPort int  `name:"clickhouse-http-port" default:"8123" placeholder:"N" help:"${up_clickhouse_http_port}"`
	ClickHouseTCPPort  int  `name:"clickhouse-tcp-port" default:"9000" placeholder:"N" help:"${up_clickhouse_tcp_port}"`
	ClickHouseMemory   size `name:"clickhouse-memory" default:"2GiB" help:"Most memory that the embedded ClickHouse may take."`
	SQLTenants         int  `name:"sql-tenants" default:"16" placeholder:"N" help:"${up_sql_tenants}"`
	OpenSQL            bool `name:"open-sql" default:"true" help:"${up_open_sql}"`
	clickhouseFlags

	Tenants    string `placeholder:"FILE" help:"${gateway_tenants}"`
	Metrics    string `name:"metrics-listen" placeholder:"HOST:PORT" help:"${gateway_metrics_listen}"`
	Admin      string `name:"admin-listen" placeholder:"HOST:PORT" help:"${up_admin_listen}"`
	Series     int    `name:"metrics-tenants" default:"200" placeholder:"N" help:"${metrics_tenants}"`
	NATSListen string `name:"nats-listen" default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"${up_nats_listen}"`
	StoreMax   size   `default:"0" help:"${up_store_max}"`
	Durability string `enum:"os,fsync" default:"os" help:"${up_durability}"`
	natsFlags
	layoutFlags
	limitFlags
	classesFlag
	chunkFlags
	insertFlags
	rejectsFlag

	DrainTimeout time.Duration `default:"30s" help:"Longest to wait at the end for what is still on its way to ClickHouse."`
}

func (c *upCmd) check(p *program) error {
	s := p.Settings
	if c.SQLTenants < 0 || c.SQLTenants > 256 {
		return fmt.Errorf("%s: %d is outside 0 to 256", s.name("sql-tenants"), c.SQLTenants)
	}
	if err := checkAddr(s, "listen", c.Listen); err != nil {
		return err
	}
	if c.GRPCListen != "" {
		if err := checkAddr(s, "grpc-listen", c.GRPCListen); err != nil {
			return err
		}
	}
	if c.NATSListen != "" {
		if err := checkAddr(s, "nats-listen", c.NATSListen); err != nil {
			return err
		}
		if !loopback(c.NATSListen) {
			return fmt.Errorf("%s: %q: the embedded NATS speaks no TLS, so it listens on loopback only; run a NATS of your own and name it with "+
				"--nats", s.name("nats-listen"), c.NATSListen)
		}
	}
	for _, port := range []struct {
		flag string
		n    int
	}{{"clickhouse-http-port", c.ClickHouseHTTPPort}, {"clickhouse-tcp-port", c.ClickHouseTCPPort}} {
		if err := checkPort(s, port.flag, port.n); err != nil {
			return err
		}
	}
	if c.DevKey != "" {
		for _, l := range []struct{ flag, addr string }{{"listen", c.Listen}, {"grpc-listen", c.GRPCListen}} {
			if l.addr != "" && !loopback(l.addr) {
				return fmt.Errorf("%s is for loopback only, and %s is %s: listen on 127.0.0.1, or leave the key out and make a real one with "+
					"\"warpline key create\"",
					s.name("dev-key"), s.name(l.flag), l.addr)
			}
		}
	}
	if c.NATS != "" && c.Durability == "fsync" {
		return fmt.Errorf("%s: fsync is a setting of the embedded NATS; with %s it is the server's own: set sync_interval: always there",
			s.name("durability"), s.name("nats"))
	}
	if c.NATS == "" && c.Replicas != 1 {
		return fmt.Errorf("%s: %d copies need a cluster of NATS servers: name it with --nats, or leave this at 1", s.name("replicas"), c.Replicas)
	}
	if c.DrainTimeout <= 0 {
		return fmt.Errorf("%s: %v: must be above zero", s.name("drain-timeout"), c.DrainTimeout)
	}
	return errors.Join(checkUI(s, c.UIURL), checkTLS(s, c.TLSCert, c.TLSKey), checkClientCA(s, "tls-client-ca", c.HTTPCA, c.TLSCert),
		checkClientCA(s, "grpc-client-ca", c.ClientCA, c.TLSCert), c.classesFlag.check(s, c.limits()),
		checkTenants(s, c.Tenants, c.classesFlag, c.limits()), metricsFlags{c.Metrics}.check(s), checkSeries(s, c.Series), checkAdmin(s, c.Admin),
		c.clickhouseFlags.check(s),
		c.layoutFlags.check(s), c.limitFlags.check(s),
		c.chunkFlags.check(s), c.insertFlags.check(s))
}

// checkTLS loads the pair once, so that a wrong file is reported before anything starts.
func checkTLS(s *settings, cert, key string) error {
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fmt.Errorf("%s and %s go together: give both or none", s.name("tls-cert"), s.name("tls-key"))
	}
	if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
		return fmt.Errorf("%s, %s: %w", s.name("tls-cert"), s.name("tls-key"), err)
	}
	return nil
}

// checkClientCA reads the file once, like checkTLS.
func checkClientCA(s *settings, flag, file, cert string) error {
	if file == "" {
		return nil
	}
	if cert == "" {
		return fmt.Errorf("%s needs %s and %s: clients show certificates over TLS only", s.name(flag), s.name("tls-cert"),
			s.name("tls-key"))
	}
	text, err := os.ReadFile(file)
	if err == nil && !x509.NewCertPool().AppendCertsFromPEM(text) {
		err = fmt.Errorf("%s has no PEM certificate", file)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name(flag), err)
	}
	return nil
}

func (c *upCmd) config(p *program) service.Config {
	layout := c.layout(service.Lanes())
	classes, _ := c.classes(c.limits()) // check has seen the error
	// Only who names a size takes room back from streams that are there.
	layout.Lower = p.Settings.given("ingest-max") || p.Settings.given("rows-max") || p.Settings.given("bucket-max") || c.StoreMax > 0
	return service.Config{
		Dir: c.Data, Listen: c.Listen, PathPrefix: c.PathPrefix, UIURL: c.UIURL, TLSCert: c.TLSCert, TLSKey: c.TLSKey,
		GRPCListen: c.GRPCListen, GRPCClientCA: c.ClientCA, TLSClientCA: c.HTTPCA,
		NATS: c.nats(), NATSListen: c.NATSListen, ClickHouse: c.server(), EngineHTTP: c.ClickHouseHTTPPort, EngineTCP: c.ClickHouseTCPPort,
		EngineMemory: int64(c.ClickHouseMemory), SQLTenants: c.SQLTenants, NoOpenSQL: !c.OpenSQL,
		Fsync: c.Durability == "fsync", Layout: layout, StoreMax: int64(c.StoreMax),
		DevKey: c.DevKey, Limits: c.limits(), Classes: classes, Tenants: tenantFile(c.Tenants, classes),
		MetricsListen: c.Metrics, MetricsTenants: c.Series, AdminListen: c.Admin,
		SinkInterval: c.SinkInterval, ReplayWindow: c.ReplayWindow, RejectsMax: int64(c.RejectsMax),
		ChunkAge: c.ChunkAge, NamesMemory: int64(c.NamesMemory),
		Sources: givenSources(), Version: version(), Log: p.Log, Progress: p.Stderr,
	}
}

// Run starts everything, waits for a signal or the end of a role, and stops everything.
func (c *upCmd) Run(ctx context.Context, p *program) error {
	began := time.Now()
	service.BoundMemory(ctx)
	service.ShareProcessors()
	s, err := service.Start(ctx, c.config(p))
	if err != nil {
		return err
	}
	keyFile, err := s.FirstKey(ctx)
	if err != nil {
		c.stop(p, s)
		return err
	}
	c.banner(p.Stderr, s, keyFile, time.Since(began))
	p.Log.Info("ready", "addr", s.Gateway.Addr(), "grpc", s.Gateway.GRPCAddr(),
		"clickhouse_http", s.Server.HTTP, "clickhouse", s.Server.Native, "nats", s.NATSAddr, "admin", s.Gateway.AdminAddr(),
		"took", time.Since(began).Round(time.Millisecond))
	watchCtx, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() { defer close(watched); s.Watch(watchCtx) }()
	select {
	case <-ctx.Done():
	case err = <-s.Failed:
		err = fmt.Errorf("%w: everything else is being stopped; what was accepted is stored and will be finished at the next start", err)
	}
	stopWatch()
	<-watched
	return errors.Join(err, c.stop(p, s))
}

// stop drains within the time-out and says how long each part took. A second signal ends the waiting.
func (c *upCmd) stop(p *program, s *service.Stack) error {
	ctx, cancel := context.WithTimeout(p.Hard, c.DrainTimeout)
	defer cancel()
	began := time.Now()
	var errs []error
	s.Stop(ctx, func(part string, took time.Duration, err error) {
		if err != nil {
			p.Log.Warn("stopped", "part", part, "took", took.Round(time.Millisecond), "err", err)
			if part != "engine" { // a killed engine loses nothing
				errs = append(errs, err)
			}
			return
		}
		p.Log.Info("stopped", "part", part, "took", took.Round(time.Millisecond))
	})
	p.Log.Info("stopped all", "took", time.Since(began).Round(time.Millisecond))
	return errors.Join(errs...)
}

// tenantsAsk is where tenants ask in SQL.
func (c *upCmd) tenantsAsk(scheme string, s *service.Stack) string {
	if !s.TenantsAsk {
		return "tenants: nowhere"
	}
	return "tenants " + scheme + "://" + s.Gateway.Addr() + c.PathPrefix + "/clickhouse/   (user TENANT, password a key of scope read)"
}

// administers is where the admin API is.
func (c *upCmd) administers(scheme string, s *service.Stack) string {
	at := s.Gateway.AdminAddr()
	if at == "" && loopback(c.Listen) {
		at = s.Gateway.Addr() + c.PathPrefix
	}
	if at == "" {
		return "with commands (--admin-listen has an API)"
	}
	return scheme + "://" + at + admin.Path + "   (warpline key create --operator)"
}

// banner says where everything is, aligned, on stderr.
func (c *upCmd) banner(w io.Writer, s *service.Stack, keyFile string, took time.Duration) {
	scheme := "http"
	if c.TLSCert != "" {
		scheme = "https"
	}
	lines := [][2]string{
		{"send to", scheme + "://" + s.Gateway.Addr() + c.PathPrefix + "   (hostUrl of the GPU Flight agent, or warpline send)"},
		{"", "gRPC " + cmp.Or(s.Gateway.GRPCAddr(), "nowhere") + "   (--remote-store-address of a Parca agent)"},
		{"ask in SQL", askWith(s.Reader)},
		{"", "native " + s.Server.Native + "   database " + s.Server.Database},
		{"", c.tenantsAsk(scheme, s)},
		{"administer", c.administers(scheme, s)},
		{"NATS", orNone(s.NATSAddr)},
		{"data", s.Dir.Path},
		{"key", "in " + keyFile + "   (tenant " + service.DefaultTenant + ")"},
		{"accepted means", c.durability()},
	}
	if c.DevKey != "" {
		lines = append(lines, [2]string{"dev key", "as given   (tenant dev, loopback only)"})
	}
	fmt.Fprintf(w, "\nwarpline %s is up after %.1f s\n", version(), took.Seconds())
	for _, l := range lines {
		fmt.Fprintf(w, "  %-16s%s\n", l[0], l[1])
	}
	fmt.Fprintf(w, "Ctrl-C finishes what is under way and stops; twice stops at once.\n\n")
}

func (c *upCmd) durability() string {
	switch {
	case c.NATS != "" && c.Replicas > 1:
		return fmt.Sprintf("replicated: survives the loss of a machine (%d copies)", c.Replicas)
	case c.NATS != "":
		return "as the NATS at " + c.NATS + " keeps it (1 copy)"
	case c.Durability == "fsync":
		return "fsync: survives a power cut"
	}
	return "os: survives kill -9, not a power cut (--durability fsync does)"
}

func orNone(s string) string {
	if s == "" {
		return "in this process only"
	}
	return s
}

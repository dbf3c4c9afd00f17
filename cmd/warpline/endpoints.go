package main

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// natsFlags say how to reach a NATS that others run.
type natsFlags struct {
	NATS      string `name:"nats" placeholder:"URL" help:"NATS servers, as nats://host:4222,nats://other:4222."`
	NATSCreds string `name:"nats-creds" placeholder:"FILE" help:"NATS credentials file."`
}

func (f natsFlags) nats() service.NATS {
	return service.NATS{URL: f.NATS, CredentialsFile: f.NATSCreds}
}

// reachFlags lead to a running service: its data folder on this machine, or its addresses.
type reachFlags struct {
	Data string `default:"./warpline-data" placeholder:"DIR" help:"Data folder of the \"warpline up\" to talk to."`
	natsFlags
}

// connect reaches NATS by --nats, by the process that runs on --data, or, when nothing runs there, by opening the folder itself.
func (f reachFlags) connect(ctx context.Context) (*service.Connection, error) {
	return service.Connect(ctx, f.Data, f.nats())
}

// clickhouseFlags say how to reach a ClickHouse that others run.
type clickhouseFlags struct {
	ClickHouse         string `name:"clickhouse" placeholder:"HOST:PORT" help:"ClickHouse server, native protocol."`
	ClickHouseHTTP     string `name:"clickhouse-http" placeholder:"HOST:PORT" help:"${clickhouse_http}"`
	ClickHouseUser     string `name:"clickhouse-user" default:"default" help:"User to log in as."`
	ClickHousePassword string `name:"clickhouse-password" secret:"" placeholder:"SECRET" help:"${clickhouse_password}"`
	ClickHouseFile     string `name:"clickhouse-password-file" placeholder:"FILE" help:"File that holds the password alone."`
	ClickHouseDatabase string `name:"clickhouse-database" default:"warpline" help:"Database that holds the tables."`
	ClickHouseTLS      bool   `name:"clickhouse-tls" help:"Speak TLS to it."`
}

func (f clickhouseFlags) check(s *settings) error {
	for _, a := range []struct{ flag, addr string }{{"clickhouse", f.ClickHouse}, {"clickhouse-http", f.ClickHouseHTTP}} {
		if a.addr != "" {
			if err := checkAddr(s, a.flag, a.addr); err != nil {
				return err
			}
		}
	}
	if f.ClickHouse == "" && f.ClickHouseHTTP != "" {
		return fmt.Errorf("%s needs %s too: tables are made over the native protocol", s.name("clickhouse-http"), s.name("clickhouse"))
	}
	return nil
}

// server returns where the flags point.
func (f clickhouseFlags) server() service.ClickHouse {
	http := f.ClickHouseHTTP
	if host, _, err := net.SplitHostPort(f.ClickHouse); http == "" && err == nil {
		http = net.JoinHostPort(host, "8123")
	}
	return service.ClickHouse{
		Native: f.ClickHouse, HTTP: http, TLS: f.ClickHouseTLS,
		User: f.ClickHouseUser, Password: f.ClickHousePassword, Database: f.ClickHouseDatabase,
	}
}

// askFlags lead to a ClickHouse that is only read.
type askFlags struct {
	Data string `default:"./warpline-data" placeholder:"DIR" help:"Data folder of the \"warpline up\" to ask."`
	clickhouseFlags
}

// ask connects to it and returns the name of the database; the caller closes the connection.
func (f askFlags) ask(ctx context.Context) (conn driver.Conn, database string, err error) {
	srv, err := readServer(f.clickhouseFlags, f.Data)
	if err != nil {
		return nil, "", err
	}
	conn, err = srv.Open(ctx)
	return conn, srv.Database, err
}

// readServer is the ClickHouse to read from: --clickhouse, or the engine of the process that runs on data.
func readServer(f clickhouseFlags, data string) (service.ClickHouse, error) {
	if f.ClickHouse != "" {
		return f.server(), nil
	}
	return service.ReaderOf(data, f.ClickHouseDatabase)
}

// writeServer is the same, as a user who may write.
func writeServer(f clickhouseFlags, data string) (service.ClickHouse, error) {
	if f.ClickHouse != "" {
		return f.server(), nil
	}
	return service.WriterOf(data, f.ClickHouseDatabase)
}

// login are the words that tell curl who asks; "" where no password is needed, or none that commands may show.
func login(s service.ClickHouse) string {
	if s.PasswordFile == "" {
		return ""
	}
	return "-u \"" + s.User + ":$(cat " + shellWord(s.PasswordFile) + ")\""
}

// askWith is how people ask it in SQL.
func askWith(s service.ClickHouse) string {
	if login(s) == "" {
		return "http://" + s.HTTP
	}
	return "curl " + login(s) + " http://" + s.HTTP + " --data-binary 'SELECT …'"
}

// shellWord is a path as it stands within $( ) in a shell.
func shellWord(path string) string {
	if !strings.ContainsAny(path, " \t'\"$`\\*?[]();&|<>~#!") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// apart is what the three roles share when they run as processes of their own.
type apart struct {
	natsFlags
	layoutFlags
	DrainTimeout time.Duration `default:"30s" help:"Longest to wait at the end for what is under way."`
}

func (a apart) check(s *settings) error {
	if a.NATS == "" {
		return fmt.Errorf("%s is missing: name a NATS server, as nats://127.0.0.1:4222, or run \"warpline up\", which has its own",
			s.name("nats"))
	}
	if a.DrainTimeout <= 0 {
		return fmt.Errorf("%s: %v: must be above zero", s.name("drain-timeout"), a.DrainTimeout)
	}
	return a.layoutFlags.check(s)
}

// role is what the service needs of any of them.
func (a apart) role(p *program) service.Apart {
	return service.Apart{
		NATS: a.nats(), Layout: a.layout(0), DrainTimeout: a.DrainTimeout, Sources: givenSources(), Version: version(), Log: p.Log,
	}
}

// checkSeries says what is wrong with a number of tenants in metrics.
func checkSeries(s *settings, tenants int) error {
	if tenants < 1 || tenants > 100_000 {
		return fmt.Errorf("%s: %d is outside 1 to 100000", s.name("metrics-tenants"), tenants)
	}
	return nil
}

// metricsFlags give a role that serves nobody a place where it can be watched.
type metricsFlags struct {
	MetricsListen string `default:"127.0.0.1:0" placeholder:"HOST:PORT" help:"Where /metrics, /healthz and /readyz are; empty for nowhere."`
}

func (f metricsFlags) check(s *settings) error {
	if f.MetricsListen == "" {
		return nil
	}
	return checkAddr(s, "metrics-listen", f.MetricsListen)
}

// checkAddr refuses what is not host:port.
func checkAddr(s *settings, flag, addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("%s: %q: write host:port, as 127.0.0.1:8080", s.name(flag), addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("%s: %q: the port must be a number from 0 to 65535", s.name(flag), addr)
	}
	return nil
}

func checkPort(s *settings, flag string, port int) error {
	if port < 0 || port > 65535 {
		return fmt.Errorf("%s: %d: use a port from 1 to 65535, or 0 for any free one", s.name(flag), port)
	}
	return nil
}

// loopback reports whether addr can be reached from this machine alone.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// checkUI returns what is wrong with the address of the UI.
func checkUI(s *settings, address string) error {
	if address == "" {
		return nil
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%s: %q: write https://host/path", s.name("ui-url"), address)
	}
	return nil
}

package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink"
)

// natsFlags say how to reach a NATS that others run.
type natsFlags struct {
	NATS      string `name:"nats" placeholder:"URL" help:"NATS servers, as nats://host:4222,nats://other:4222."`
	NATSCreds string `name:"nats-creds" placeholder:"FILE" help:"NATS credentials file."`
}

// layoutFlags fix the streams when they are created; give every role the same.
type layoutFlags struct {
	Partitions int  `default:"16" help:"Partitions of the streams, fixed when they are created."`
	Lanes      int  `default:"2" help:"Lanes of the sink, fixed when the streams are created."`
	Replicas   int  `default:"1" help:"Copies of each stream: 1, or 3 on a cluster, which makes accepted data survive the loss of a machine."`
	IngestMax  size `default:"4GiB" help:"Most that accepted parts may take; when it is full the gateway answers 503."`
	RowsMax    size `default:"4GiB" help:"Most that chunks may take while ClickHouse is away."`
	BucketMax  size `default:"1GiB" help:"Most that each bucket and object store may take."`
}

func (f layoutFlags) layout() broker.Layout {
	l := broker.DefaultLayout()
	l.Partitions, l.Lanes, l.Replicas = f.Partitions, f.Lanes, f.Replicas
	l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = int64(f.IngestMax), int64(f.RowsMax), int64(f.BucketMax)
	return l
}

func (f layoutFlags) check(s *settings) error {
	switch {
	case f.Partitions < 1 || f.Partitions > 4096:
		return fmt.Errorf("%s: %d is outside 1 to 4096", s.name("partitions"), f.Partitions)
	case f.Lanes < 1 || f.Lanes > f.Partitions:
		return fmt.Errorf("%s: %d is outside 1 to the number of partitions, %d", s.name("lanes"), f.Lanes, f.Partitions)
	case f.Replicas != 1 && f.Replicas != 3 && f.Replicas != 5:
		return fmt.Errorf("%s: %d: use 1, 3 or 5", s.name("replicas"), f.Replicas)
	case f.IngestMax < 1<<20 || f.RowsMax < 16<<20 || f.BucketMax < 1<<20:
		return fmt.Errorf("%s, %s, %s: the least are 1MiB, 16MiB and 1MiB", s.name("ingest-max"), s.name("rows-max"), s.name("bucket-max"))
	}
	return nil
}

// clickhouseFlags say how to reach a ClickHouse that others run.
type clickhouseFlags struct {
	ClickHouse         string `name:"clickhouse" placeholder:"HOST:PORT" help:"ClickHouse server, native protocol."`
	ClickHouseHTTP     string `name:"clickhouse-http" placeholder:"HOST:PORT" help:"The same server's HTTP protocol; by default the host of --clickhouse at port 8123."`
	ClickHouseUser     string `name:"clickhouse-user" default:"default" help:"User to log in as."`
	ClickHousePassword string `name:"clickhouse-password" secret:"" placeholder:"SECRET" help:"That user's password; better by the environment than as a flag."`
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
func (f clickhouseFlags) server() clickhouseServer {
	http := f.ClickHouseHTTP
	if host, _, err := net.SplitHostPort(f.ClickHouse); http == "" && err == nil {
		http = net.JoinHostPort(host, "8123")
	}
	return clickhouseServer{Native: f.ClickHouse, HTTP: http, User: f.ClickHouseUser, Password: f.ClickHousePassword, Database: f.ClickHouseDatabase, TLS: f.ClickHouseTLS}
}

// clickhouseServer is a ClickHouse and who we are there.
type clickhouseServer struct {
	Native, HTTP, User, Password, Database string
	PasswordFile                           string // where Password is kept; "" for nowhere
	TLS                                    bool
}

func (s clickhouseServer) tls() *tls.Config {
	if !s.TLS {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// login are the words that tell curl who asks; "" where no password is needed, or none that commands may show.
func (s clickhouseServer) login() string {
	if s.PasswordFile == "" {
		return ""
	}
	return "-u \"" + s.User + ":$(cat " + shellWord(s.PasswordFile) + ")\""
}

// askWith is how people ask it in SQL.
func (s clickhouseServer) askWith() string {
	if s.login() == "" {
		return "http://" + s.HTTP
	}
	return "curl " + s.login() + " http://" + s.HTTP + " --data-binary 'SELECT …'"
}

// shellWord is a path as it stands within $( ) in a shell.
func shellWord(path string) string {
	if !strings.ContainsAny(path, " \t'\"$`\\*?[]();&|<>~#!") {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}

// open connects with the native protocol, in no particular database: all our own SQL names it. The caller closes the connection.
func (s clickhouseServer) open(ctx context.Context) (driver.Conn, error) {
	return s.openIn(ctx, "default")
}

// openIn connects with database as the one that SQL means where it names none.
func (s clickhouseServer) openIn(ctx context.Context, database string) (driver.Conn, error) {
	conn, err := clickhouse.Open(&clickhouse.Options{
		Addr: []string{s.Native}, TLS: s.tls(), DialTimeout: 3 * time.Second,
		Auth: clickhouse.Auth{Database: database, Username: s.User, Password: s.Password},
	})
	if err != nil {
		return nil, fmt.Errorf("clickhouse at %s: %w", s.Native, err)
	}
	if err := conn.Ping(ctx); err != nil {
		conn.Close()
		return nil, unreachable(fmt.Errorf("clickhouse at %s: %w: is it running, and is this its native port?", s.Native, err))
	}
	return patient{conn}, nil
}

func (s clickhouseServer) sinkConfig() sink.Config {
	return sink.Config{
		HTTPAddr: s.HTTP, NativeAddr: s.Native, Database: s.Database, User: s.User, Password: s.Password, TLS: s.TLS, Schema: schema(),
	}
}

// limitFlags are what a key may do where it has no limits of its own. Their defaults are those of tenant.DefaultLimits (a test compares),
// which a zero means too.
type limitFlags struct {
	EventsPerSecond float64 `name:"limit-events-per-second" default:"5000000" help:"Events a second of one key."`
	BytesPerSecond  size    `name:"limit-bytes-per-second" default:"256MiB" help:"Bytes a second of one key, as received."`
	RawPerSecond    size    `name:"limit-raw-bytes-per-second" default:"1GiB" help:"Bytes a second of one key, after decompression."`
	Requests        float64 `name:"limit-requests-per-second" default:"5000" help:"Requests a second of one key."`
	BurstSeconds    float64 `name:"limit-burst-seconds" default:"2" help:"How many seconds' worth may come at once."`
	MaxBody         size    `name:"limit-body" default:"256MiB" help:"Largest body as received."`
	MaxRaw          size    `name:"limit-raw-body" default:"1GiB" help:"Largest body after decompression."`
	MaxRatio        float64 `name:"limit-ratio" default:"400" help:"Largest decompression ratio, looked at beyond 192 MiB."`
	MaxLine         size    `name:"limit-line" default:"32MiB" help:"Longest line."`
	RetentionDays   uint16  `name:"retention-days" default:"7" help:"Days that raw rows are kept."`
	RollupDays      uint16  `name:"rollup-days" default:"395" help:"Days that rollups are kept."`
}

// keyLimitFlags are the same for one key, whose zeros leave the limit to the service that it is used on.
type keyLimitFlags struct {
	EventsPerSecond float64 `name:"limit-events-per-second" placeholder:"N" help:"Events a second of this key; by default the service's limit, as with all below."`
	BytesPerSecond  size    `name:"limit-bytes-per-second" placeholder:"SIZE" help:"Bytes a second, as received."`
	RawPerSecond    size    `name:"limit-raw-bytes-per-second" placeholder:"SIZE" help:"Bytes a second, after decompression."`
	Requests        float64 `name:"limit-requests-per-second" placeholder:"N" help:"Requests a second."`
	BurstSeconds    float64 `name:"limit-burst-seconds" placeholder:"N" help:"How many seconds' worth may come at once."`
	MaxBody         size    `name:"limit-body" placeholder:"SIZE" help:"Largest body as received."`
	MaxRaw          size    `name:"limit-raw-body" placeholder:"SIZE" help:"Largest body after decompression."`
	MaxRatio        float64 `name:"limit-ratio" placeholder:"N" help:"Largest decompression ratio."`
	MaxLine         size    `name:"limit-line" placeholder:"SIZE" help:"Longest line."`
	RetentionDays   uint16  `name:"retention-days" placeholder:"N" help:"Days that raw rows are kept."`
	RollupDays      uint16  `name:"rollup-days" placeholder:"N" help:"Days that rollups are kept."`
}

func (f limitFlags) limits() tenant.Limits {
	return tenant.Limits{
		EventsPerSecond: f.EventsPerSecond, BytesPerSecond: float64(f.BytesPerSecond),
		RawBytesPerSecond: float64(f.RawPerSecond), RequestsPerSecond: f.Requests, BurstSeconds: f.BurstSeconds,
		MaxBodyBytes: int64(f.MaxBody), MaxRawBytes: int64(f.MaxRaw), MaxRatio: f.MaxRatio, MaxLineBytes: int64(f.MaxLine),
		RetentionDays: f.RetentionDays, RollupDays: f.RollupDays,
	}
}

func (f limitFlags) check(s *settings) error {
	for _, l := range []struct {
		flag  string
		value float64
	}{
		{"limit-events-per-second", f.EventsPerSecond}, {"limit-requests-per-second", f.Requests}, {"limit-burst-seconds", f.BurstSeconds}, {"limit-ratio", f.MaxRatio},
	} {
		if l.value < 0 || l.value != l.value {
			return fmt.Errorf("%s: %v: use a positive number, or 0 for the default", s.name(l.flag), l.value)
		}
	}
	return nil
}

// chunkFlags bound how long rows stay in the worker.
type chunkFlags struct {
	ChunkAge    time.Duration `default:"400ms" help:"Oldest that rows get in the worker before they are passed on."`
	NamesMemory size          `default:"256MiB" help:"Memory for the names of all sessions; what is beyond is loaded again when a session speaks."`
}

func (f chunkFlags) check(s *settings) error {
	if f.ChunkAge < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", s.name("chunk-age"), f.ChunkAge)
	}
	if f.NamesMemory < 1<<20 {
		return fmt.Errorf("%s: use at least 1MiB", s.name("names-memory"))
	}
	return nil
}

// insertFlags trade latency against the number of inserts, each of which makes a part in every table.
type insertFlags struct {
	SinkInterval time.Duration `default:"300ms" help:"Shortest time between two inserts of a lane."`
}

func (f insertFlags) check(s *settings) error {
	if f.SinkInterval < 0 {
		return fmt.Errorf("%s: %v: cannot be negative", s.name("sink-interval"), f.SinkInterval)
	}
	return nil
}

// checkAddr refuses what is no host:port.
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

// Package broker is JetStream as Warpline uses it: the embedded server, the connection, the streams and buckets, and leases.
//
// Start with Serve (the embedded server), Connect and Open.
package broker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/warpline/warpline/proto/stream"
)

// ServerConfig configures the embedded NATS server.
type ServerConfig struct {
	// Dir holds JetStream's files. Required.
	Dir string
	// Listen is host:port for clients, port 0 for any free one; "" serves in-process connections only.
	Listen string
	// MaxStoreBytes is the most that JetStream may write to Dir (0: 75 % of what is free at start, the server's own rule).
	MaxStoreBytes int64
	// Fsync makes every acknowledgement wait for the disk: durability "fsync" instead of "os".
	Fsync bool
	// Token is what every client has to present; "" lets everyone in who can reach Listen.
	Token  string
	Logger *slog.Logger
}

// syncInterval is how often the server syncs what changed, without Fsync: it is how much a power cut can take of INGEST. The server's own
// default is 2 minutes, and then a sync at the end of a burst of writes takes long.
const syncInterval = 10 * time.Second

// Sync is how often the server syncs, for people and programs: always, or a duration.
func (cfg ServerConfig) Sync() string {
	if cfg.Fsync {
		return "always"
	}
	return syncInterval.String()
}

// Serve starts a NATS server with JetStream in this process and waits until it serves. The caller ends it with Shutdown and
// WaitForShutdown.
func Serve(cfg ServerConfig) (*server.Server, error) {
	opts := &server.Options{
		ServerName: "warpline", JetStream: true, StoreDir: cfg.Dir, NoSigs: true,
		MaxPayload: stream.MaxPayloadBytes, MaxPending: 128 << 20, JetStreamMaxStore: cfg.MaxStoreBytes,
		SyncAlways: cfg.Fsync, SyncInterval: syncInterval, Authorization: cfg.Token, DontListen: cfg.Listen == "",
		WriteDeadline: 30 * time.Second, MaxConn: maxConnections(),
	}
	if cfg.Listen != "" {
		host, port, err := net.SplitHostPort(cfg.Listen)
		if err != nil {
			return nil, fmt.Errorf("nats listen address %q: %w (want host:port)", cfg.Listen, err)
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, fmt.Errorf("nats listen address %q: the port is not a number (want host:port)", cfg.Listen)
		}
		opts.Host, opts.Port = host, n
		if n == 0 {
			opts.Port = server.RANDOM_PORT
		}
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("nats server: %w", err)
	}
	log := cfg.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	srv.SetLoggerV2(serverLog{log.With("part", "nats")}, false, false, false)
	go srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		srv.Shutdown()
		return nil, errors.New("nats server did not become ready within 30 s: is another process using " + cfg.Dir + "?")
	}
	if !srv.JetStreamEnabled() {
		srv.Shutdown()
		return nil, fmt.Errorf("nats server: JetStream did not start on %s: check that the folder is writable and has space", cfg.Dir)
	}
	return srv, nil
}

// maxConnections bounds the clients of an embedded server by an eighth of the descriptors that the process may have: a client that floods
// it from this machine must not take the descriptors that its files need.
func maxConnections() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 1024
	}
	return int(min(max(limit.Cur/8, 64), 16384))
}

// serverLog passes the server's warnings and errors on; its notices are its banner and are logged as debug.
type serverLog struct{ log *slog.Logger }

func (l serverLog) Noticef(format string, v ...any) { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Warnf(format string, v ...any)   { l.log.Warn(fmt.Sprintf(format, v...)) }
func (l serverLog) Fatalf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l serverLog) Errorf(format string, v ...any)  { l.log.Error(fmt.Sprintf(format, v...)) }
func (l serverLog) Debugf(format string, v ...any)  { l.log.Debug(fmt.Sprintf(format, v...)) }
func (l serverLog) Tracef(format string, v ...any)  {}

package ingest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The gateway speaks HTTP/1.1 and HTTP/2 on one address: over TLS as the client chooses (ALPN), without TLS HTTP/2 if the connection begins
// with its preface. Each request of HTTP/2 is a stream of a connection. The bounds of requests, seats, turns, rates and speeds hold for
// each stream as for each request of HTTP/1.1. The bounds here, and the bound of connections, are for what streams cost before that.
const (
	// streamsPerConnection may be open at once. A client has four channels a session.
	streamsPerConnection = 60
	// streamBuffer is how much is held of a body that is not read yet, because it waits for a seat. A connection has as much for each of
	// its streams, so one that waits does not stop the others; together less than the 4 MiB that net/http allows.
	streamBuffer = 64 << 10
	// answerTime is how long a client may take to read an answer.
	answerTime = 30 * time.Second
	// leaveTime is how long what is left of a body may still come of a request that was answered, and whose key is not known.
	leaveTime = 2 * time.Second
	// scrapes is how many scrapes of /metrics are served at once. Each holds some 100 kB until it is read, and does not need a key.
	scrapes = 16
)

// nextProtos are the protocols that TLS offers, the preferred one first.
var nextProtos = []string{"h2", "http/1.1"}

// speakBoth lets a server speak both protocols, within the bounds.
func speakBoth(srv *http.Server) {
	srv.Protocols = new(http.Protocols)
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetHTTP2(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: streamsPerConnection, MaxReceiveBufferPerStream: streamBuffer,
		MaxReceiveBufferPerConnection: streamsPerConnection * streamBuffer,
		WriteByteTimeout:              answerTime,
	}
}

// server is an HTTP server within the gateway's bounds.
func server(cfg Config, h http.Handler, conns *connections) *http.Server {
	srv := &http.Server{
		Handler: conns.busy(h), ConnContext: conns.context, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		WriteTimeout:   cfg.HandleTimeout + 30*time.Second, ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
	speakBoth(srv)
	return srv
}

// desk is where administrators are answered apart from uploads: Config.AdminListen. Its methods do nothing on nil.
type desk struct {
	listener net.Listener
	server   *http.Server
}

func newDesk(cfg Config) (*desk, error) {
	if cfg.AdminListen == "" || cfg.Admin == nil {
		return nil, nil
	}
	l, conns, err := listen(cfg, cfg.AdminListen, "admin_")
	if err != nil {
		return nil, fmt.Errorf("--admin-listen: %w", err)
	}
	return &desk{l, server(cfg, cfg.Admin, conns)}, nil
}

func (d *desk) serve(failed chan<- error) {
	if d != nil {
		failed <- d.server.Serve(d.listener)
	}
}

func (d *desk) shutdown(ctx context.Context) error {
	if d == nil {
		return nil
	}
	defer d.server.Close()
	return d.server.Shutdown(ctx)
}

func (d *desk) close() {
	if d != nil {
		d.server.Close()
		d.listener.Close()
	}
}

// AdminAddr returns the address of Config.AdminListen, "" when there is none.
func (g *Gateway) AdminAddr() string {
	if g.desk == nil {
		return ""
	}
	return g.desk.listener.Addr().String()
}

// FrontConfig is what a Front needs. Fields are as in Config.
type FrontConfig struct {
	Listen                       string
	TLSCert, TLSKey, TLSClientCA string
	Logger                       *slog.Logger
	Registerer                   prometheus.Registerer
}

// Front is an HTTP server with the certificates and the bounds on connections of a gateway, for a door that is none. Make it with NewFront.
type Front struct{ desk *desk }

// NewFront listens at once, so that Addr is known, and serves in Run.
func NewFront(c FrontConfig, h http.Handler) (*Front, error) {
	cfg := Config{TLSCert: c.TLSCert, TLSKey: c.TLSKey, TLSClientCA: c.TLSClientCA, Logger: c.Logger, Registerer: c.Registerer}.withDefaults()
	l, conns, err := listen(cfg, c.Listen, "")
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	return &Front{&desk{l, server(cfg, h, conns)}}, nil
}

// Addr is where it listens.
func (f *Front) Addr() string { return f.desk.listener.Addr().String() }

// Run serves until ctx ends, and then lets what is under way finish, for as long as drain.
func (f *Front) Run(ctx context.Context, drain time.Duration) error {
	failed := make(chan error, 1)
	go f.desk.serve(failed)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	f.desk.server.SetKeepAlivesEnabled(false)
	return f.desk.shutdown(end)
}

// Close ends it, where Run is not used.
func (f *Front) Close() { f.desk.close() }

// certificates gives out the certificate that is in two files, and reads them again when they change: who renews it need not restart
// anything. While the files are bad, or one of the two is still the old one, the certificate of before goes on. Safe for concurrent use.
type certificates struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	stamp   [2]fileStamp // of the files that were read last, good or bad
}

// fileStamp tells a file from what it was before.
type fileStamp struct {
	changed time.Time
	size    int64
}

// lookEvery is how often the files are looked at, at most: at connections.
const lookEvery = time.Second

func stampOf(path string) fileStamp {
	info, err := os.Stat(path)
	if err != nil {
		return fileStamp{}
	}
	return fileStamp{info.ModTime(), info.Size()}
}

// load reads the files. The caller holds the lock, or is alone.
func (c *certificates) load() error {
	c.stamp, c.looked = [2]fileStamp{stampOf(c.cert), stampOf(c.key)}, time.Now()
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.current = &pair
	}
	return err
}

// get is for tls.Config.GetCertificate.
func (c *certificates) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.looked) < lookEvery {
		return c.current, nil
	}
	c.looked = time.Now()
	if now := [2]fileStamp{stampOf(c.cert), stampOf(c.key)}; now != c.stamp {
		if err := c.load(); err != nil {
			c.log.Error("the certificate was changed and cannot be used; the one of before goes on", "cert", c.cert, "key", c.key, "err", err)
		} else {
			c.log.Info("the certificate was changed: new connections get it", "cert", c.cert)
		}
	}
	return c.current, nil
}

// authorities are who signs certificates of clients, from a file that is read again when it changes. A client whose authority is not in the
// file any more is refused at its next connection. While the file is bad, those of before go on. Safe for concurrent use.
type authorities struct {
	file string
	log  *slog.Logger
	base *tls.Config // without them

	mu      sync.Mutex
	current *tls.Config
	looked  time.Time
	stamp   fileStamp
}

// askClients makes clients show a certificate that one of the file's signed.
func askClients(base *tls.Config, file string, log *slog.Logger) (*tls.Config, error) {
	a := &authorities{file: file, log: log, base: base}
	if err := a.load(); err != nil {
		return nil, err
	}
	asking := base.Clone()
	asking.GetConfigForClient = a.get
	return asking, nil
}

// load reads the file. The caller holds the lock, or is alone.
func (a *authorities) load() error {
	a.stamp, a.looked = stampOf(a.file), time.Now()
	pem, err := os.ReadFile(a.file)
	if err != nil {
		return fmt.Errorf("certificates of clients: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return fmt.Errorf("certificates of clients: %s has no PEM certificate", a.file)
	}
	a.current = a.base.Clone()
	a.current.ClientCAs, a.current.ClientAuth = pool, tls.RequireAndVerifyClientCert
	a.current.SessionTicketsDisabled = true // who resumes a session is not verified again, also when nobody trusts its authority any more
	return nil
}

// get is for tls.Config.GetConfigForClient.
func (a *authorities) get(*tls.ClientHelloInfo) (*tls.Config, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if time.Since(a.looked) < lookEvery {
		return a.current, nil
	}
	a.looked = time.Now()
	if stampOf(a.file) != a.stamp {
		if err := a.load(); err != nil {
			a.log.Error("the certificates of clients were changed and cannot be used; those of before go on", "file", a.file, "err", err)
		} else {
			a.log.Info("the certificates of clients were changed: new connections are held to them", "file", a.file)
		}
	}
	return a.current, nil
}

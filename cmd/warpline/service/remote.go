package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
	"github.com/warpline/warpline/sink/engine"
)

// Connection is NATS as a command uses it for a moment. It is for one goroutine.
type Connection struct {
	// Alone says that nothing runs on the data folder: this process serves its NATS until Close, and nobody else is there.
	Alone bool

	nc    *nats.Conn
	js    jetstream.JetStream
	close func()
}

// Connect reaches the NATS of others that at names, or else that of the process that runs on the data folder, or, when nothing runs there,
// by opening the folder itself. It gives up after 10 s. The error is an Unreachable if nobody answers. The caller calls Close.
func Connect(ctx context.Context, data string, at NATS) (*Connection, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	quiet := slog.New(slog.DiscardHandler)
	cfg := broker.ConnectConfig{URL: at.URL, CredentialsFile: at.CredentialsFile, Name: "warpline command", Logger: quiet}
	stop, alone := func() {}, false
	if at.URL == "" {
		r, err := ReadRunning(data) // before Hold, which removes it
		if _, statErr := os.Stat(data); statErr != nil && errors.Is(err, fs.ErrNotExist) {
			err := fmt.Errorf("nothing at %s: start \"warpline up --data %s\" first, or name a server with --nats", data, data)
			return nil, Unreachable{err}
		}
		dir, heldErr := Hold(data)
		held := errors.Is(heldErr, errHeld)
		switch {
		case heldErr == nil: // nobody runs it: serve its NATS for this moment
			srv, err := broker.Serve(broker.ServerConfig{Dir: dir.File("nats"), Logger: quiet})
			if err != nil {
				dir.Release()
				return nil, err
			}
			cfg.Server, alone = srv, true
			stop = func() { srv.Shutdown(); srv.WaitForShutdown(); dir.Release() }
		case err == nil && r.NATS != "":
			cfg.URL = r.NATS
		case !held:
			return nil, heldErr
		case errors.Is(err, fs.ErrNotExist):
			return nil, Unreachable{errBetween(data)}
		default:
			err := fmt.Errorf("cannot tell where the warpline on %s listens: name its NATS with --nats: %w", data, heldErr)
			return nil, Unreachable{err}
		}
	}
	nc, js, err := broker.Connect(ctx, cfg)
	if err != nil {
		stop()
		return nil, Unreachable{err}
	}
	return &Connection{alone, nc, js, func() { nc.Close(); stop() }}, nil
}

// Close ends the connection, and the NATS where this process serves it. It is called once.
func (c *Connection) Close() { c.close() }

// Keys opens only the bucket of keys. It is an error where no service ever ran: a bucket made here would have limits of its own.
func (c *Connection) Keys(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, stream.KeysBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("this NATS has no keys yet: start the service once, then try again")
	}
	if err != nil {
		return nil, Unreachable{fmt.Errorf("keys: %w: once NATS is back, run the same again", err)}
	}
	return kv, nil
}

// Desk is what administrators do, with the log of what they change. The service's own limits are not known here, and bind nobody who may
// come here.
func (c *Connection) Desk(ctx context.Context, warn func(error)) (*admin.Desk, error) {
	kv, err := c.Keys(ctx)
	if err != nil {
		return nil, err
	}
	d := admin.NewDesk(ingest.NewKeys(kv), tenant.Limits{})
	if d.Log, err = admin.OpenLog(ctx, c.js); err != nil {
		return nil, fmt.Errorf("the log of changes: %w", err)
	}
	d.Warn = warn
	return d, nil
}

// Streams opens everything with the limits that are in force, which broker.Open would otherwise set to ours.
func (c *Connection) Streams(ctx context.Context) (*broker.Streams, error) {
	l := broker.DefaultLayout()
	for _, st := range []struct {
		name string
		max  *int64
	}{{stream.IngestStream, &l.IngestMaxBytes}, {stream.RowsStream, &l.RowsMaxBytes}, {"KV_" + stream.WindowsBucket, &l.BucketMaxBytes}} {
		s, err := c.js.Stream(ctx, st.name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil, fmt.Errorf("this NATS holds no Warpline streams: start the service once, then try again")
		}
		if err != nil {
			return nil, Unreachable{fmt.Errorf("stream %s: %w: once NATS is back, run the same again", st.name, err)}
		}
		*st.max, l.Replicas = s.CachedInfo().Config.MaxBytes, s.CachedInfo().Config.Replicas
	}
	if s, err := c.js.Stream(ctx, "KV_"+stream.LeasesBucket); err == nil && s.CachedInfo().Config.MaxAge > 0 {
		l.LeaseTTL = s.CachedInfo().Config.MaxAge
	}
	return broker.Open(ctx, c.nc, c.js, l)
}

// ReaderOf is the ClickHouse of the process that runs on the data folder, as a user who only reads; database is that of the tables. The
// error is an Unreachable if nothing runs there.
func ReaderOf(data, database string) (ClickHouse, error) {
	held := Held(data)
	r, err := ReadRunning(data)
	if held && errors.Is(err, fs.ErrNotExist) {
		return ClickHouse{}, Unreachable{errBetween(data)}
	}
	if err != nil || !held {
		err := fmt.Errorf("no warpline runs on %s: start \"warpline up --data %s\", or name a server with --clickhouse", data, data)
		return ClickHouse{}, Unreachable{err}
	}
	srv := ClickHouse{Native: r.ClickHouse, HTTP: r.ClickHouseHTTP, User: "default", Database: database}
	if r.ClickHouseUser != "" {
		file := filepath.Join(data, engine.ReaderSecret)
		if r.ClickHouseUser == engine.Writer { // there is no reader: whoever may open this folder may do anything
			file = filepath.Join(data, engine.WriterSecret)
		}
		password, err := os.ReadFile(file)
		if err != nil {
			return srv, fmt.Errorf("password of ClickHouse's user %s: %w", r.ClickHouseUser, err)
		}
		srv.User, srv.Password, srv.PasswordFile = r.ClickHouseUser, strings.TrimSpace(string(password)), file
	}
	return srv, nil
}

// WriterOf is the ClickHouse of the process that runs on the data folder, as the user who writes for the sink.
func WriterOf(data, database string) (ClickHouse, error) {
	srv, err := ReaderOf(data, database)
	if err != nil || srv.User == "default" {
		return srv, err
	}
	file := filepath.Join(data, engine.WriterSecret)
	password, err := os.ReadFile(file)
	if err != nil {
		return srv, fmt.Errorf("password of ClickHouse's user %s: %w", engine.Writer, err)
	}
	srv.User, srv.Password, srv.PasswordFile = engine.Writer, strings.TrimSpace(string(password)), file
	return srv, nil
}

// GatewayOf is the URL at which the process that runs on the data folder takes uploads, or, when none runs there, where it would by
// default.
func GatewayOf(data string) (url string, runs bool) {
	r, err := ReadRunning(data)
	if err != nil || !Held(data) {
		return "http://127.0.0.1:8080", false
	}
	host, port, err := net.SplitHostPort(r.Gateway)
	if err != nil {
		return "http://127.0.0.1:8080", false
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() { // it listens on all addresses, this machine's own among them
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "localhost"
		}
	}
	scheme := "http://"
	if r.GatewayTLS {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port), true
}

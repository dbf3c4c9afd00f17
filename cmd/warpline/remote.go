package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/engine"
)

// reachFlags lead to a running service: its data folder on this machine, or its addresses.
type reachFlags struct {
	Data string `default:"./warpline-data" placeholder:"DIR" help:"Data folder of the \"warpline up\" to talk to."`
	natsFlags
}

// connection is NATS as a command uses it for a moment.
type connection struct {
	nc    *nats.Conn
	js    jetstream.JetStream
	close func()
	alone bool // nothing runs on the data folder: this command serves its NATS
}

// connect reaches NATS by --nats, by the process that runs on --data, or, when nothing runs there, by opening the folder itself.
func (f reachFlags) connect(ctx context.Context, p *program) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	cfg := broker.ConnectConfig{URL: f.NATS, CredentialsFile: f.NATSCreds, Name: "warpline command", Logger: slog.New(slog.DiscardHandler)}
	stop, alone := func() {}, false
	if f.NATS == "" {
		r, err := readRunning(f.Data)
		dir, heldErr := (*dataDir)(nil), error(nil)
		if _, statErr := freeBytes(f.Data); statErr != nil && errors.Is(err, fs.ErrNotExist) {
			return nil, unreachable(fmt.Errorf("nothing at %s: start \"warpline up --data %s\" first, or name a server with --nats", f.Data, f.Data))
		}
		if dir, heldErr = holdDir(f.Data); heldErr == nil { // nobody runs it: serve its NATS for this moment
			srv, err := broker.Serve(broker.ServerConfig{Dir: dir.file("nats"), Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				dir.release()
				return nil, err
			}
			cfg.Server, alone = srv, true
			stop = func() { srv.Shutdown(); srv.WaitForShutdown(); dir.release() }
		} else if err == nil && r.NATS != "" {
			cfg.URL = r.NATS
		} else if errors.Is(err, fs.ErrNotExist) && errors.Is(heldErr, errHeld) {
			return nil, unreachable(errBetween(f.Data))
		} else if !errors.Is(heldErr, errHeld) {
			return nil, heldErr
		} else {
			return nil, unreachable(fmt.Errorf("cannot tell where the warpline on %s listens: name its NATS with --nats: %w", f.Data, heldErr))
		}
	}
	nc, js, err := broker.Connect(ctx, cfg)
	if err != nil {
		stop()
		return nil, unreachable(err)
	}
	return &connection{nc, js, func() { nc.Close(); stop() }, alone}, nil
}

// keys opens only the bucket of keys. It is an error where no service ever ran: a bucket made here would have limits of its own.
func (c *connection) keys(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, stream.KeysBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, fmt.Errorf("this NATS has no keys yet: start the service once, then try again")
	}
	if err != nil {
		return nil, unreachable(fmt.Errorf("keys: %w", err))
	}
	return kv, nil
}

// streams opens everything with the limits that are in force, which Open would otherwise set to ours.
func (c *connection) streams(ctx context.Context) (*broker.Streams, error) {
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
			return nil, unreachable(fmt.Errorf("stream %s: %w", st.name, err))
		}
		*st.max, l.Replicas = s.CachedInfo().Config.MaxBytes, s.CachedInfo().Config.Replicas
	}
	if s, err := c.js.Stream(ctx, "KV_"+stream.LeasesBucket); err == nil && s.CachedInfo().Config.MaxAge > 0 {
		l.LeaseTTL = s.CachedInfo().Config.MaxAge
	}
	return broker.Open(ctx, c.nc, c.js, l)
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
	conn, err = srv.open(ctx)
	return conn, srv.Database, err
}

// readServer is the ClickHouse to read from: --clickhouse, or the engine of the process that runs on data.
func readServer(f clickhouseFlags, data string) (clickhouseServer, error) {
	if f.ClickHouse != "" {
		return f.server(), nil
	}
	held := isHeld(data)
	r, err := readRunning(data)
	if held && errors.Is(err, fs.ErrNotExist) {
		return clickhouseServer{}, unreachable(errBetween(data))
	}
	if err != nil || !held {
		return clickhouseServer{}, unreachable(fmt.Errorf("no warpline runs on %s: start \"warpline up --data %s\", or name a server with --clickhouse", data, data))
	}
	srv := clickhouseServer{Native: r.ClickHouse, HTTP: r.ClickHouseHTTP, User: "default", Database: f.ClickHouseDatabase}
	if r.ClickHouseUser != "" {
		file := filepath.Join(data, engine.ReaderSecret)
		password, err := os.ReadFile(file)
		if err != nil {
			return srv, fmt.Errorf("password of ClickHouse's user %s: %w", r.ClickHouseUser, err)
		}
		srv.User, srv.Password, srv.PasswordFile = r.ClickHouseUser, strings.TrimSpace(string(password)), file
	}
	return srv, nil
}

package service

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// brief has no patience with what is broken, and all with what is slow.
var brief = waiting{broken: 20 * time.Millisecond, slow: 5 * time.Minute}

// slowly stands before a server at addr and holds back what it says after its first words, until open is closed.
func slowly(t *testing.T, addr string, open <-chan struct{}) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				first := make([]byte, 64<<10)
				n, _ := server.Read(first)
				client.Write(first[:n])
				<-open
				io.Copy(client, server)
			}()
		}
	}()
	return l.Addr().String()
}

// sinkTo runs a sink that makes its tables at native.
func sinkTo(t *testing.T, e *engine.Engine, native, database string) *sink.Sink {
	t.Helper()
	k, err := sink.New(brokertest.Start(t, broker.Layout{Partitions: 2, Lanes: 2}), sink.Config{HTTPAddr: e.HTTPAddr(), NativeAddr: native,
		Database: database, User: e.User(), Password: e.Password(), Schema: tabletest.Schema().WithoutViews()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-done })
	return k
}

// `up` says that it is ready once its tables are there, however long a ClickHouse with much else to do takes to make them.
func TestTablesThatAreMadeSlowlyAreWaitedFor(t *testing.T) {
	e := enginetest.Shared(t)
	enginetest.DropAtEnd(t, e, "await_slow")
	open := make(chan struct{})
	k := sinkTo(t, e, slowly(t, e.TCPAddr(), open), "await_slow")
	time.AfterFunc(20*brief.broken, func() { close(open) })
	var said bytes.Buffer
	if err := awaitSchema(t.Context(), k, nil, slog.New(slog.NewTextHandler(&said, nil)), brief); err != nil {
		t.Fatal(err)
	}
	if len(k.Status().Lanes) == 0 || said.Len() > 0 {
		t.Errorf("it did not wait: %s", said.String())
	}
}

// A ClickHouse that is away keeps nobody from starting.
func TestTablesThatCannotBeMadeAreNotWaitedFor(t *testing.T) {
	e := enginetest.Shared(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	k := sinkTo(t, e, l.Addr().String(), "await_nothing")
	var said bytes.Buffer
	if err := awaitSchema(t.Context(), k, nil, slog.New(slog.NewTextHandler(&said, nil)), brief); err != nil {
		t.Fatal(err)
	}
	if text := said.String(); len(k.Status().Lanes) > 0 || !strings.Contains(text, "starting without them") ||
		!strings.Contains(text, "unreachable") {
		t.Errorf("it says %q", said.String())
	}
}

// A gateway that has yet to load something is waited for; one that waits for a person is there to say so.
func TestGatewaysThatLoadAreWaitedFor(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2})
	var loaded atomic.Bool
	var stuck atomic.Pointer[string]
	nothing := ""
	stuck.Store(&nothing)
	g, err := ingest.New(s, ingest.Config{SpoolDir: t.TempDir(), Registerer: prometheus.NewRegistry(),
		Ready: func() string { return *stuck.Load() },
		Sources: []ingest.Source{{Name: "slow", RPCs: func(g *ingest.Gateway) []ingest.RPC {
			g.ReadyWhen(func() string {
				if loaded.Load() {
					return ""
				}
				return "its record is not loaded yet"
			})
			return nil
		}}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	time.AfterFunc(20*brief.broken, func() { loaded.Store(true) })
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	err = awaitGateway(t.Context(), g, nil, log, waiting{broken: time.Minute, slow: brief.slow})
	if err != nil || !loaded.Load() || said.Len() > 0 {
		t.Errorf("it did not wait: %v, %s", err, said.String())
	}
	why := "the disk is full"
	stuck.Store(&why)
	if err := awaitGateway(t.Context(), g, nil, log, brief); err != nil || !strings.Contains(said.String(), why) {
		t.Errorf("%v, it says %q", err, said.String())
	}
}

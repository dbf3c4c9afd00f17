package broker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
)

// NATS restarts under a living process: its leases come back without anybody restarting the process.
func TestLeasesSurviveARestartOfNATS(t *testing.T) {
	dir := t.TempDir()
	addr := brokertest.FreeAddr(t)
	srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Listen: addr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	layout := broker.DefaultLayout()
	layout.IngestMaxBytes, layout.RowsMaxBytes, layout.BucketMaxBytes, layout.LeaseTTL = 64<<20, 64<<20, 16<<20, time.Second
	s, err := broker.Open(ctx, nc, js, layout)
	if err != nil {
		t.Fatal(err)
	}
	var starts, ends atomic.Int64
	l := &broker.Leases{Bucket: s.Leases, Role: "worker", Count: 4, TTL: s.LeaseTTL, Logger: slog.New(slog.DiscardHandler),
		Run: func(ctx context.Context, i int) {
			starts.Add(1)
			<-ctx.Done()
			ends.Add(1)
		}}
	hold, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { l.Hold(hold); close(done) }()
	defer func() { stop(); <-done }()
	wait := func(runs *atomic.Int64, n int64) {
		t.Helper()
		for runs.Load() < n {
			if ctx.Err() != nil {
				t.Fatalf("%d runs began and %d ended, want %d", starts.Load(), ends.Load(), n)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	wait(&starts, 4)
	srv.Shutdown()
	srv.WaitForShutdown()
	wait(&ends, 4) // longer than the TTL: every lease is lost
	srv, err = broker.Serve(broker.ServerConfig{Dir: dir, Listen: addr})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	wait(&starts, 8)
}

// mortal is a server that the test ends before it is over, and a connection to it by its address.
func mortal(ctx context.Context, t *testing.T) (*server.Server, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	srv, err := broker.Serve(broker.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + srv.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return srv, nc, js
}

// What fails because NATS is away is told apart from what NATS refuses.
func TestDisconnected(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	srv, _, js := mortal(ctx, t)
	_, err := js.KeyValue(ctx, "none")
	if err == nil || broker.Disconnected(err) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	srv.Shutdown()
	srv.WaitForShutdown()
	for !broker.Disconnected(err) { // one that is on its way when the connection ends hears nothing
		one, stop := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err = js.KeyValue(one, "none")
		stop()
		if ctx.Err() != nil {
			t.Fatalf("no NATS: %v", err)
		}
	}
	if _, err := js.Publish(ctx, "subject", nil); !broker.Disconnected(err) {
		t.Errorf("publish without NATS: %v", err)
	}
}

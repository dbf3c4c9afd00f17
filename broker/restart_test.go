package broker_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
)

// NATS restarts under a living process: its leases come back without anybody restarting the process.
func TestLeasesSurviveARestartOfNATS(t *testing.T) {
	dir := t.TempDir()
	srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	addr := srv.Addr().String()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
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

// Package brokertest gives tests a real NATS server with JetStream in one line.
package brokertest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
)

// Start runs an embedded server on a temporary folder and opens Warpline's streams with layout (zero fields from
// broker.DefaultLayout). Everything ends with the test.
func Start(t testing.TB, layout broker.Layout) *broker.Streams {
	t.Helper()
	srv, err := broker.Serve(broker.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{Server: srv, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	d := broker.DefaultLayout()
	d.IngestMaxBytes, d.RowsMaxBytes, d.BucketMaxBytes = 256<<20, 256<<20, 64<<20
	if layout.Partitions > 0 {
		d.Partitions = layout.Partitions
	}
	if layout.Lanes > 0 {
		d.Lanes = layout.Lanes
	}
	if layout.IngestMaxBytes > 0 {
		d.IngestMaxBytes = layout.IngestMaxBytes
	}
	if layout.RowsMaxBytes > 0 {
		d.RowsMaxBytes = layout.RowsMaxBytes
	}
	s, err := broker.Open(ctx, nc, js, d)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Bucket makes an extra bucket with the TTL of the lease bucket, for tests in which processes must not see each other's leases.
func Bucket(t testing.TB, s *broker.Streams, name string) jetstream.KeyValue {
	t.Helper()
	kv, err := s.JS.CreateKeyValue(context.Background(), jetstream.KeyValueConfig{Bucket: name,
		TTL: s.LeaseTTL, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

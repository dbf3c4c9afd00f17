package broker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// everything is each JetStream stream that Warpline has.
var everything = []string{
	stream.IngestStream, stream.RowsStream, "KV_" + stream.KeysBucket, "KV_" + stream.WindowsBucket,
	"KV_" + stream.DictionariesBucket, "KV_" + stream.LeasesBucket,
	"KV_" + stream.MarksBucket, "KV_" + stream.DeletionsBucket, "KV_" + stream.SeenBucket, "KV_" + stream.QuotasBucket,
	"OBJ_" + stream.PartsObjects, "OBJ_" + stream.StateObjects, "OBJ_" + stream.ChunksObjects,
}

// text is a log that tests read while it is written.
type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func (l *text) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func small() broker.Layout {
	l := broker.DefaultLayout()
	l.Partitions, l.Lanes, l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes, l.LeaseTTL = 4, 2, 64<<20, 64<<20, 16<<20, time.Second
	return l
}

// serve starts a server and connects to it.
func serve(t *testing.T, cfg broker.ServerConfig) (*server.Server, *nats.Conn, jetstream.JetStream) {
	t.Helper()
	srv, err := broker.Serve(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return srv, nc, js
}

func config(t *testing.T, js jetstream.JetStream, name string) jetstream.StreamConfig {
	t.Helper()
	st, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return st.CachedInfo().Config
}

// Partitions and lanes are those with which the streams were made, whatever a later start would choose.
func TestOpenKeepsPartitionsAndLanes(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	for _, c := range []struct{ partitions, lanes int }{{4, 2}, {4, 1}, {16, 4}, {1, 1}} {
		l := small()
		l.Partitions, l.Lanes = c.partitions, c.lanes
		s, err := broker.Open(t.Context(), nc, js, l)
		if err != nil {
			t.Fatal(err)
		}
		if s.Partitions != 4 || s.Lanes != 2 {
			t.Errorf("opened with %d partitions and %d lanes: %d and %d, want the 4 and 2 that are there", c.partitions, c.lanes, s.Partitions,
				s.Lanes)
		}
	}
}

// Who opens the streams with other limits takes nothing away; larger limits hold; Lower lowers, but never below what is there.
func TestOpenNeverLowersWhatItFinds(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	open := func(l broker.Layout) {
		t.Helper()
		if _, err := broker.Open(t.Context(), nc, js, l); err != nil {
			t.Fatal(err)
		}
	}
	l := small()
	open(l)
	if _, err := js.Publish(t.Context(), stream.IngestSubject(1, "t", "s"), make([]byte, 6<<20)); err != nil {
		t.Fatal(err)
	}
	less := l
	less.IngestMaxBytes, less.RowsMaxBytes, less.BucketMaxBytes, less.Partitions = 1<<20, 16<<20, 1<<20, 16
	open(less)
	for name, want := range map[string]int64{stream.IngestStream: 64 << 20, stream.RowsStream: 64 << 20, "KV_" + stream.KeysBucket: 16 << 20,
		"OBJ_" + stream.StateObjects: 16 << 20} {
		if have := config(t, js, name).MaxBytes; have != want {
			t.Errorf("%s has %d bytes after a role with smaller flags, want %d", name, have, want)
		}
	}
	more := l
	more.IngestMaxBytes, more.BucketMaxBytes = 128<<20, 32<<20
	open(more)
	if a, b := config(t, js, stream.IngestStream).MaxBytes, config(t, js, "KV_"+stream.KeysBucket).MaxBytes; a != 128<<20 || b != 32<<20 {
		t.Errorf("larger limits were asked for, there are %d and %d", a, b)
	}
	less.Lower = true
	open(less)
	if have := config(t, js, stream.IngestStream).MaxBytes; have < 6<<20 || have > 16<<20 {
		t.Errorf("INGEST holds 6 MiB and was lowered to %d", have)
	}
	if have := config(t, js, stream.RowsStream); have.MaxBytes != 16<<20 || len(have.Subjects) != 4 {
		t.Errorf("ROWS was lowered to %d with %d subjects", have.MaxBytes, len(have.Subjects))
	}
}

// A stream that is there reserves more than the server may have now: it opens all the same, and what is missing fits in.
func TestOpenWithLessRoomThanIsReserved(t *testing.T) {
	dir := t.TempDir()
	srv, nc, js := serve(t, broker.ServerConfig{Dir: dir, MaxStoreBytes: 1 << 40})
	l := small()
	l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes = 4<<30, 4<<30, 1<<30
	if _, err := broker.Open(t.Context(), nc, js, l); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	srv.Shutdown()
	srv.WaitForShutdown()
	_, nc, js = serve(t, broker.ServerConfig{Dir: dir, MaxStoreBytes: 1 << 30})
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	less := small()
	if _, err := broker.Open(ctx, nc, js, less); err != nil {
		t.Fatal(err)
	}
	more := l
	more.IngestMaxBytes = 8 << 30
	if _, err := broker.Open(ctx, nc, js, more); err != nil {
		t.Fatalf("a stream that cannot grow keeps everybody out: %v", err)
	}
}

// What cannot be made is told, with what to do, and waited for; what never will be is an error.
func TestOpenSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 32 << 20})
	var log text
	l := small()
	l.Logger = log.logger()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	opened := make(chan error, 1)
	go func() {
		_, err := broker.Open(ctx, nc, js, l)
		opened <- err
	}()
	eventually(t, 60*time.Second, "it says what it waits for", func() bool {
		return strings.Contains(log.String(), "trouble: waiting for") && strings.Contains(log.String(), "--store-max")
	})
	cancel()
	if err := <-opened; err == nil {
		t.Error("64 MiB fit into 32")
	}
	_, nc, js = serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	three := small()
	three.Replicas = 3
	ctx, cancel = context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if _, err := broker.Open(ctx, nc, js, three); err == nil || !strings.Contains(err.Error(), "--replicas") || ctx.Err() != nil {
		t.Errorf("three copies on one server: %v", err)
	}
	if _, err := broker.Open(t.Context(), nc, js, small()); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Open(ctx, nc, js, three); err == nil || !strings.Contains(err.Error(), "--replicas") {
		t.Errorf("three copies of existing streams on one server: %v", err)
	}
}

// A role without --replicas 3 leaves a cluster's three copies alone; a role with it makes three of one.
func TestOpenLeavesReplicasAlone(t *testing.T) {
	t.Parallel()
	js, nc := trio(t)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	l := small()
	l.Replicas = 3
	if _, err := broker.Open(ctx, nc, js, l); err != nil {
		t.Fatal(err)
	}
	one := l
	one.Replicas, one.IngestMaxBytes = 1, 128<<20
	if _, err := broker.Open(ctx, nc, js, one); err != nil {
		t.Fatal(err)
	}
	for _, name := range everything {
		if have := config(t, js, name).Replicas; have != 3 {
			t.Errorf("%s has %d copies after a role without --replicas", name, have)
		}
	}
	if have := config(t, js, stream.IngestStream).MaxBytes; have != 128<<20 {
		t.Errorf("INGEST has %d bytes", have)
	}
}

// trio is a cluster of three servers in this process.
func trio(t *testing.T) (jetstream.JetStream, *nats.Conn) {
	t.Helper()
	var routes []*url.URL
	var ports []int
	for range 3 {
		at, err := net.ResolveTCPAddr("tcp", brokertest.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, at.Port)
		routes = append(routes, &url.URL{Scheme: "nats", Host: at.String()})
	}
	var urls []string
	for i := range 3 {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("n%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true,
			StoreDir: t.TempDir(), NoSigs: true, MaxPayload: stream.MaxPayloadBytes,
			MaxPending: 64 << 20, JetStreamMaxStore: 1 << 40, Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: ports[i]},
			Routes: routes,
		})
		if err != nil {
			t.Fatal(err)
		}
		go srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		if !srv.ReadyForConnections(60 * time.Second) {
			t.Fatal("a server of the cluster does not start")
		}
		urls = append(urls, srv.ClientURL())
	}
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: strings.Join(urls, ",")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return js, nc
}

// Names are in ClickHouse as well: their bucket makes room for new ones, also one that an earlier version made, and a full one is no
// trouble.
func TestNamesMakeRoom(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir(), MaxStoreBytes: 1 << 40})
	const name = "KV_" + stream.DictionariesBucket
	l := small()
	l.BucketMaxBytes = 1 << 20
	for _, before := range []string{"new", "made by an earlier version"} {
		if before != "new" {
			cfg := config(t, js, name)
			cfg.Discard = jetstream.DiscardNew
			if _, err := js.UpdateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
		}
		s, err := broker.Open(t.Context(), nc, js, l)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 { // 2.5 MiB
			if _, err := s.Dictionaries.Create(t.Context(), fmt.Sprintf("%.3s.%d", before, i), make([]byte, 64<<10)); err != nil {
				t.Fatalf("%s: entry %d: %v", before, i, err)
			}
		}
		first, last := fmt.Sprintf("%.3s.0", before), fmt.Sprintf("%.3s.39", before)
		if _, err := s.Dictionaries.Get(t.Context(), first); !errors.Is(err, jetstream.ErrKeyNotFound) {
			t.Errorf("%s: the oldest entry is still there: %v", before, err)
		}
		if _, err := s.Dictionaries.Get(t.Context(), last); err != nil {
			t.Errorf("%s: the newest entry: %v", before, err)
		}
	}
	if have := config(t, js, "KV_"+stream.KeysBucket).Discard; have != jetstream.DiscardNew {
		t.Error("keys make room too")
	}
}

// The same streams over another connection are the same: what one writes the other reads, and both know what was made anew.
func TestStreamsOverAnotherConnection(t *testing.T) {
	t.Parallel()
	srv, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir()})
	s, err := broker.Open(t.Context(), nc, js, small())
	if err != nil {
		t.Fatal(err)
	}
	other, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	over, err := s.Over(t.Context(), other, js)
	if err != nil {
		t.Fatal(err)
	}
	if over.Conn != other || over.JS != js || over.Partitions != s.Partitions || over.LeaseTTL != s.LeaseTTL {
		t.Errorf("%+v", over)
	}
	if _, err := over.Keys.PutString(t.Context(), "k", "v"); err != nil {
		t.Fatal(err)
	}
	if e, err := s.Keys.Get(t.Context(), "k"); err != nil || string(e.Value()) != "v" {
		t.Errorf("%v %v", e, err)
	}
	if err := s.JS.DeleteKeyValue(t.Context(), stream.KeysBucket); err != nil {
		t.Fatal(err)
	}
	changed, end := over.RemadeChanged()
	defer end()
	go s.Keep(t.Context(), broker.KeeperConfig{Every: 50 * time.Millisecond})
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("nobody is told that a bucket was made anew")
	}
	if over.Remade("KV_"+stream.KeysBucket) != 1 {
		t.Error("who uses the other connection does not know of it")
	}
	if _, err := over.Keys.PutString(t.Context(), "k", "v"); err != nil {
		t.Errorf("the bucket that was made anew: %v", err)
	}
}

// Of several processes that start on an empty server one finds a stream that another has just made, and not yet the rest. Nothing was lost
// then, and nobody is told so. Once there is a message it is a loss.
func TestFirstStartOfSeveral(t *testing.T) {
	t.Parallel()
	_, nc, js := serve(t, broker.ServerConfig{Dir: t.TempDir()})
	open := func() (*broker.Streams, string) {
		t.Helper()
		var log text
		l := small()
		l.Logger = log.logger()
		s, err := broker.Open(t.Context(), nc, js, l)
		if err != nil {
			t.Fatal(err)
		}
		return s, log.String()
	}
	open()
	if err := js.DeleteStream(t.Context(), stream.IngestStream); err != nil {
		t.Fatal(err)
	}
	s, told := open()
	if s.Remade(stream.IngestStream) != 0 || strings.Contains(told, "made anew") {
		t.Errorf("made anew %d times, told %q", s.Remade(stream.IngestStream), told)
	}
	if _, err := js.Publish(t.Context(), stream.RowsSubject(1), []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteStream(t.Context(), stream.IngestStream); err != nil {
		t.Fatal(err)
	}
	s, told = open()
	if s.Remade(stream.IngestStream) != 1 || !strings.Contains(told, "stream INGEST was not there and is made anew") {
		t.Errorf("made anew %d times, told %q", s.Remade(stream.IngestStream), told)
	}
}

package ingest_test

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/tenant"
)

// narrow is a way to a server on which what is written, or what is read, stands still while its lock is held.
type narrow struct {
	srv        *server.Server
	out, in    sync.RWMutex
	waits      chan struct{} // has a value once something that is written stands still
	noteWaiter sync.Once
}

func (n *narrow) InProcessConn() (net.Conn, error) {
	c, err := n.srv.InProcessConn()
	return narrowConn{c, n}, err
}

type narrowConn struct {
	net.Conn
	n *narrow
}

func (c narrowConn) Write(p []byte) (int, error) {
	if !c.n.out.TryRLock() {
		c.n.noteWaiter.Do(func() { close(c.n.waits) })
		c.n.out.RLock()
	}
	defer c.n.out.RUnlock()
	return c.Conn.Write(p)
}

func (c narrowConn) Read(p []byte) (int, error) {
	got, err := c.Conn.Read(p)
	c.n.in.RLock()
	defer c.n.in.RUnlock()
	return got, err
}

// startNarrow is start with a narrow way for large uploads.
func startNarrow(t *testing.T) (*rig, *narrow) {
	t.Helper()
	srv, err := broker.Serve(broker.ServerConfig{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	n := &narrow{srv: srv, waits: make(chan struct{})}
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	layout := broker.DefaultLayout()
	layout.IngestMaxBytes, layout.RowsMaxBytes, layout.BucketMaxBytes = 256<<20, 256<<20, 64<<20
	s, err := broker.Open(t.Context(), nc, js, layout)
	if err != nil {
		t.Fatal(err)
	}
	ofLarge, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: n})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ofLarge.Close)
	large, err := s.Over(t.Context(), ofLarge, js)
	if err != nil {
		t.Fatal(err)
	}
	return startOn(t, s, func(c *ingest.Config) { c.Large, c.PublishTimeout = large, time.Minute }), n
}

// A small upload is stored while a large one stands in the connection to NATS, as one does in front of all that was sent before it.
func TestSmallUploadsDoNotWaitBehindLargeOnes(t *testing.T) {
	r, way := startNarrow(t)
	large := ndjson("large", 30_000) // some 2.7 MB
	way.out.Lock()
	done := make(chan answer)
	go func() { done <- r.post("large", large) }()
	<-way.waits
	for range 3 {
		if a := r.post("small", ndjson("small", 10)); a.status != http.StatusOK || a.Accepted != 10 {
			t.Fatalf("a small upload: %d %s", a.status, a.raw)
		}
	}
	way.out.Unlock()
	if a := <-done; a.status != http.StatusOK || a.Accepted != 30_000 {
		t.Fatalf("the large upload: %d %s", a.status, a.raw)
	}
	if got := kept(r.published(), "large"); got != string(large) {
		t.Errorf("%d bytes of the large upload are in INGEST, want %d", len(got), len(large))
	}
	r.balanced()
}

// While JetStream acknowledges nothing, a tenant has 4 MiB of its large uploads in INGEST, however many they are. Another tenant's come in
// beside them, one part at a time.
func TestLargeUploadsAreBoundedTogether(t *testing.T) {
	r, way := startNarrow(t)
	other, _, err := ingest.NewKeys(r.streams.Keys).Create(t.Context(), "other", "", tenant.Limits{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	large := ndjson("large", 80_000) // some 7.4 MB
	way.in.Lock()
	done := make(chan answer)
	for _, session := range []string{"a", "b", "c"} {
		go func() { done <- r.post(session, large) }()
	}
	parts := func() (of map[string]int) {
		of = map[string]int{}
		for _, m := range r.published() {
			of[m.Tenant]++
		}
		return of
	}
	await := func(tenant string, want int) {
		for deadline := time.Now().Add(time.Minute); parts()[tenant] < want; {
			if time.Now().After(deadline) {
				t.Fatalf("parts in INGEST: %v", parts())
			}
		}
	}
	await("dev", 4)
	go func() { done <- r.post("d", large, "Authorization", "Bearer "+other) }()
	await("other", 1)
	if n := parts(); n["dev"] != 4 || n["other"] != 1 {
		t.Errorf("parts of 1 MiB that are on their way: %v, want 4 and 1", n)
	}
	way.in.Unlock()
	for range 4 {
		if a := <-done; a.status != http.StatusOK || a.Accepted != 80_000 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	r.balanced()
}

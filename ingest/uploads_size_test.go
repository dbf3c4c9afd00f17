package ingest

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

var (
	sizeUploads = flag.Int("uploads", 8000, "uploads that TestBytesOfAnUpload records; the figures in docs/operate.md are of 1000000")
	sizeSeal    = flag.Int("uploads-seal", 128, "uploads that it seals into one block; the gateway does 16384")
)

// An upload takes at most 35 bytes of the bucket at rest, with all that the bucket counts: the default bucket of 1 GiB holds 50 a
// second for 7 days. NATS's files take some three times that, since removed claims leave tombstones there. Half are windows, half are
// known by their bodies; each has a session of its own.
func TestBytesOfAnUpload(t *testing.T) {
	dir := t.TempDir()
	srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	ctx, stop := context.WithCancel(t.Context())
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	layout := broker.DefaultLayout()
	layout.IngestMaxBytes, layout.RowsMaxBytes, layout.BucketMaxBytes = 64<<20, 64<<20, 1<<30
	s, err := broker.Open(ctx, nc, js, layout)
	if err != nil {
		t.Fatal(err)
	}
	u := newUploads(s, js, slog.New(slog.DiscardHandler), newMetrics(nil, nil), &quiet{})
	u.sealAt.most = *sizeSeal
	var wg sync.WaitGroup
	wg.Go(func() { u.run(ctx) })
	defer func() { stop(); wg.Wait() }()
	n, began := *sizeUploads, time.Now()
	const senders = 8
	failed := make(chan error, senders)
	at := func(i int) (place, window) {
		session, body := fmt.Sprint("session-", i), DigestOf(fmt.Sprint("body", i))
		if i%2 == 0 {
			return place{tenant: "acme", key: uploadKey("acme", session, body)}, window{id: body, body: body}
		}
		return place{tenant: "acme", key: windowKey("acme", session, "device", "w")}, window{id: DigestOf("w"), body: body, sequence: 1}
	}
	for sender := range senders {
		go func() {
			for i := sender; i < n; i += senders {
				p, w := at(i)
				c, err := u.claim(ctx, p, w)
				if err == nil {
					_, err = u.settle(ctx, c, 1000, 0, true, uint64(3*i))
				}
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range senders {
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
	}
	took := time.Since(began)
	// What is sealed is removed in the background, and NATS compacts its files every two minutes.
	var info *jetstream.StreamInfo
	var disk int64
	blocks := func() (n int) {
		u.mu.RLock()
		defer u.mu.RUnlock()
		for _, b := range u.tenants["acme"].blocks {
			n += 1 + pagesOf(b.count)
		}
		if u.open >= *sizeSeal {
			return -1
		}
		return n + u.open
	}
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		st, err := js.Stream(ctx, "KV_"+stream.WindowsBucket)
		if err != nil {
			t.Fatal(err)
		}
		info, disk = st.CachedInfo(), diskOf(t, dir)
		if int(info.State.Msgs) == blocks() && (n < 100_000 || disk < 100*int64(n)) {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("%d messages, %d bytes on disk", info.State.Msgs, disk)
			break
		}
	}
	if info.State.Bytes > 35*uint64(n) {
		t.Errorf("%d bytes for %d uploads", info.State.Bytes, n)
	}
	for i := 0; i < n; i += max(1, n/500) {
		p, w := at(i)
		if c, err := u.claim(ctx, p, w); err != nil || c.window.state != windowDone || c.window.accepted != 1000 ||
			c.window.last != uint64(3*i) {
			t.Fatalf("upload %d: %+v, %v", i, c, err)
		}
	}
	u.mu.RLock()
	memory := 0
	for _, b := range u.tenants["acme"].blocks {
		memory += len(b.bloom)
	}
	u.mu.RUnlock()
	t.Logf("%d uploads, %v each; stream %.1f B, disk %.1f B, filters in memory %.2f B an upload; %d messages",
		n, took/time.Duration(n), float64(info.State.Bytes)/float64(n), float64(disk)/float64(n), float64(memory)/float64(n),
		info.State.Msgs)
}

// diskOf is what the bucket's files take on disk.
func diskOf(t *testing.T, dir string) (total int64) {
	err := filepath.WalkDir(filepath.Join(dir, "jetstream", "$G", "streams", "KV_"+stream.WindowsBucket, "msgs"),
		func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if info, err := d.Info(); err == nil {
					total += info.Size()
				}
			}
			return nil
		})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return total
}

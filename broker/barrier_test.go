package broker_test

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
)

// A barrier passes while the server writes, rolls blocks over, purges and compacts beneath it, and refuses once its files cannot be read.
func TestBarrierBesideAServer(t *testing.T) {
	dir := t.TempDir()
	srv, err := broker.Serve(broker.ServerConfig{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{Server: srv})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, err := broker.Open(ctx, nc, js, broker.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Durable(ctx); err != nil {
		t.Errorf("without a barrier: %v", err)
	}
	b := broker.NewBarrier(dir)
	if err := b.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	s.Barrier = b.Sync
	done := make(chan error, 1)
	go func() {
		body := make([]byte, 256<<10)
		for i := range 200 {
			if _, err := js.Publish(ctx, "rows.0", body); err != nil {
				done <- err
				return
			}
			if _, err := s.Marks.Put(ctx, "lane.0", body[:1000]); err != nil {
				done <- err
				return
			}
			if i%20 == 19 {
				if err := s.Rows.Purge(ctx); err != nil {
					done <- err
					return
				}
			}
		}
		done <- nil
	}()
	for running := true; running; {
		if err := s.Durable(ctx); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running = false
		default:
		}
	}
	ended, stop := context.WithCancel(ctx)
	stop()
	if _, err := s.Marks.Put(ctx, "lane.1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if s.Durable(ended) == nil {
		t.Error("a barrier whose caller gave up says that all is on disk")
	}
	// What was not synced because of that is not taken for synced.
	if err := s.Durable(ctx); err != nil {
		t.Error(err)
	}
	if err := broker.NewBarrier(filepath.Join(dir, "elsewhere")).Sync(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

package service

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
)

func TestStoreFitsTheDisk(t *testing.T) {
	dir := t.TempDir()
	full := broker.DefaultLayout()
	sum := func(l broker.Layout) int64 { return l.IngestMaxBytes + l.RowsMaxBytes + 7*l.BucketMaxBytes }
	l, store, err := fitStore(dir, full, 1<<40)
	if err != nil || l != full || store <= sum(l) {
		t.Errorf("with room the layout becomes %+v within %d, %v", l, store, err)
	}
	l, store, err = fitStore(dir, full, 1<<30)
	if err != nil || sum(l) > 1<<30 || store <= sum(l) || l.IngestMaxBytes < 200<<20 || l.BucketMaxBytes < 50<<20 {
		t.Errorf("in 1 GiB the layout becomes %+v within %d, %v", l, store, err)
	}
	if l.IngestMaxBytes != l.RowsMaxBytes {
		t.Errorf("equal streams became unequal: %+v", l)
	}
	_, _, err = fitStore(dir, full, 1<<20)
	if err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("1 MiB is refused with %v", err)
	}
	free, err := freeBytes(dir)
	if err != nil {
		t.Fatal(err)
	}
	huge := full
	huge.IngestMaxBytes = 10 * free
	l, store, err = fitStore(dir, huge, 0)
	if err != nil || float64(store) > storeShare*float64(free)+float64(1<<30) {
		t.Errorf("%d of %d free bytes are taken, %v", store, free, err)
	}
}

// In the bound there is room for all that the layout makes, whatever was added to it.
func TestStoreHasRoomForAll(t *testing.T) {
	for _, most := range []int64{1 << 40, 1 << 30, leastStore} {
		dir := t.TempDir()
		l, store, err := fitStore(dir, broker.DefaultLayout(), most)
		if err != nil {
			t.Fatal(err)
		}
		srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Listen: "127.0.0.1:0", MaxStoreBytes: store})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.WaitForShutdown()
		defer srv.Shutdown()
		nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: srv.ClientURL()})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		if _, err := broker.Open(ctx, nc, js, l); err != nil {
			t.Errorf("within %d of %d bytes: %v", store, most, err)
		}
	}
}

// What the streams in the folder may take already is within the bound, or nothing could be made beside them on a disk that is fuller now.
func TestStoreHasRoomForWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	for name, max := range map[string]int64{"INGEST": 4 << 30, "KV_WL_KEYS": 1 << 30, "OBJ_WL_STATE": -1} {
		folder := filepath.Join(dir, "jetstream", "$G", "streams", name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "meta.inf"), fmt.Appendf(nil, `{"name":%q,"max_bytes":%d}`, name, max), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	l, store, err := fitStore(dir, broker.DefaultLayout(), 1<<30)
	if want := l.IngestMaxBytes + l.RowsMaxBytes + 7*l.BucketMaxBytes + 5<<30; err != nil || store < want {
		t.Errorf("the bound is %d, want %d and more, %v", store, want, err)
	}
}

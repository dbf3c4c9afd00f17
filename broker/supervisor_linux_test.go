package broker_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

var fills = flag.Int("fills", 2, "how often the disk is filled and freed")

// volume mounts a small file system of its own; the test is skipped where that is not allowed.
func volume(t *testing.T, size int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("needs root, to mount a small volume: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// fillUp takes what is left of a volume, and leaves keep bytes.
func fillUp(t *testing.T, path string, keep int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Statfs_t
	if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 64<<10)
	for left := int64(st.Bavail)*st.Bsize - keep; left > 0; left -= int64(len(block)) {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// supervised is a supervised server with the streams open and kept.
func supervised(t *testing.T, dir string, log *text) (*broker.Supervisor, *broker.Streams) {
	t.Helper()
	sv, err := broker.Supervise(broker.ServerConfig{Dir: dir, Listen: "127.0.0.1:0", MaxStoreBytes: 1 << 40, Logger: log.logger()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(sv.Stop)
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: sv})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	s, err := broker.Open(t.Context(), nc, js, broker.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Keep(ctx, broker.KeeperConfig{Hold: sv.Stuck}) }()
	t.Cleanup(func() { cancel(); <-done })
	return sv, s
}

// publish stores one message and keeps its sequence.
func publish(ctx context.Context, s *broker.Streams, acked map[uint64]bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	ack, err := s.JS.Publish(ctx, stream.IngestSubject(0, "t", "s"), make([]byte, 200<<10), jetstream.WithRetryAttempts(0))
	if err == nil {
		acked[ack.Sequence] = true
	}
	return err
}

// afterwards checks that the server came back without help and has everything that it had acknowledged.
func afterwards(t *testing.T, sv *broker.Supervisor, s *broker.Streams, acked map[uint64]bool) {
	t.Helper()
	eventually(t, time.Minute, "it goes on by itself", func() bool { return sv.Stuck() == "" && publish(t.Context(), s, acked) == nil })
	eventually(t, time.Minute, "the leases can be written", func() bool { _, err := s.Leases.Put(t.Context(), "k", nil); return err == nil })
	info, err := s.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for seq := range acked {
		if _, err := s.Ingest.GetMsg(t.Context(), seq); err != nil {
			t.Fatalf("message %d was acknowledged and is gone: %v; the stream has %+v", seq, err, info.State)
		}
	}
	if n := s.Remade(stream.IngestStream); n != 0 {
		t.Errorf("INGEST was made anew %d times", n)
	}
}

// The volume is full for a while, again and again. The server is stuck, says so, and goes on by itself once there is room; what it has
// acknowledged is there.
func TestDiskFullAndFreed(t *testing.T) {
	t.Parallel()
	dir := volume(t, 192<<20)
	var log text
	sv, s := supervised(t, filepath.Join(dir, "nats"), &log)
	addr := sv.Addr().String()
	acked := map[uint64]bool{}
	for range *fills {
		for range 5 {
			eventually(t, 60*time.Second, "a message is stored", func() bool { return publish(t.Context(), s, acked) == nil })
		}
		filler := filepath.Join(dir, "filler")
		fillUp(t, filler, 0)
		eventually(t, 60*time.Second, "it notices that it cannot write", func() bool {
			publish(t.Context(), s, acked)
			return sv.Stuck() != ""
		})
		before := sv.Restarts()
		eventually(t, 60*time.Second, "it says what to do", func() bool { return strings.Contains(sv.Stuck(), "make room") })
		time.Sleep(time.Second) // it looks twice more
		if sv.Restarts() != before || !strings.Contains(sv.Stuck(), "make room") {
			t.Errorf("with a full disk: %d restarts, stuck %q", sv.Restarts()-before, sv.Stuck())
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		afterwards(t, sv, s, acked)
		if err := s.Ingest.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		clear(acked)
	}
	if sv.Restarts() == 0 || sv.Addr().String() != addr || !strings.Contains(log.String(), "NATS cannot store") {
		t.Errorf("%d restarts, at %s and before at %s, log %s", sv.Restarts(), sv.Addr(), addr, log.String())
	}
}

// The process has no descriptors left for a while. It runs in a process of its own with few of them.
func TestDescriptorsExhaustedAndFreed(t *testing.T) {
	if os.Getenv("WARPLINE_TEST_DESCRIPTORS") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDescriptorsExhaustedAndFreed$", "-test.v", fmt.Sprintf("-fills=%d", *fills))
		cmd.Env = append(os.Environ(), "WARPLINE_TEST_DESCRIPTORS=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	allow := func(n uint64) {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: 1024}); err != nil {
			t.Fatal(err)
		}
	}
	allow(512)
	var log text
	sv, s := supervised(t, filepath.Join(t.TempDir(), "nats"), &log)
	acked := map[uint64]bool{}
	for range *fills {
		allow(4) // none more than are open
		eventually(t, 60*time.Second, "it notices that it cannot write", func() bool {
			err := publish(t.Context(), s, acked) // well until it needs another file
			return err != nil && sv.Stuck() != ""
		})
		time.Sleep(time.Second)
		allow(512)
		afterwards(t, sv, s, acked)
	}
	if sv.Restarts() == 0 {
		t.Errorf("no restart: %s", log.String())
	}
}

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

var (
	fills  = flag.Int("fills", 1, "how often the disk under up is filled and freed")
	each   = flag.Bool("each", false, "delete each stream and bucket alone")
	shares = flag.String("shares", "60,95", "parts of the volume, in %, that others have taken when up starts again")
)

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

// take writes a file that leaves so much of the volume free, as others would see it.
func take(t *testing.T, path string, leave int64) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 256<<10)
	for first := true; ; first = false {
		var st syscall.Statfs_t
		if err := syscall.Statfs(filepath.Dir(path), &st); err != nil {
			t.Fatal(err)
		}
		left := int64(st.Bavail)*st.Bsize - leave
		if left <= 0 {
			return
		}
		if at := left - 4<<20; first && at > 0 { // at once, so that it strikes whatever is under way
			if err := syscall.Fallocate(int(f.Fd()), 0, 0, at); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Seek(at, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if _, err := f.Write(block[:min(left, int64(len(block)))]); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Others take more and more of the volume, and up starts again each time. Where there is room it works; where there is too little it
// starts, says why it takes nothing, and goes on by itself once there is room. Everything accepted is there once.
func TestStartOnAFullerDisk(t *testing.T) {
	t.Parallel()
	const size = 1800 << 20
	dir := volume(t, size)
	s := startUp(t, filepath.Join(dir, "data"), 0)
	s.mustPost(3 * time.Minute)
	s.exact(3 * time.Minute)
	filler := filepath.Join(dir, "filler")
	for share := range strings.SplitSeq(*shares, ",") {
		var percent int64
		fmt.Sscan(share, &percent)
		s.stop()
		leave := int64(size) * (100 - percent) / 100
		take(t, filler, leave)
		s.start()
		if leave > 600<<20 {
			s.awaitReadyz(200, 3*time.Minute)
			s.mustPost(3 * time.Minute)
		} else {
			s.awaitReadyz(503, 3*time.Minute)
			eventually(t, 3*time.Minute, fmt.Sprintf("the answer to an upload with %d %% taken", percent), func() (bool, string) {
				status, body := s.post()
				if status == 200 {
					t.Fatalf("with %d %% taken an upload is accepted", percent)
				}
				return status == 503 && strings.Contains(body, "disk_low"), fmt.Sprint(status, " ", body)
			})
			eventually(t, 3*time.Minute, "the log says so", func() (bool, string) {
				return strings.Contains(s.log(), "trouble: the gateway takes nothing"), ""
			})
		}
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.mustPost(3 * time.Minute)
		s.awaitReadyz(200, 3*time.Minute)
		s.exact(3 * time.Minute)
	}
}

// The volume under spool, NATS and ClickHouse is full to the last byte while uploads come, and freed again: up is not ready, says why, and
// goes on by itself; what it accepted is there once.
func TestDiskFullUnderUp(t *testing.T) {
	t.Parallel()
	dir := volume(t, 1400<<20)
	s := startUp(t, filepath.Join(dir, "data"), 0)
	filler := filepath.Join(dir, "filler")
	for range *fills {
		for range 10 {
			s.mustPost(3 * time.Minute)
		}
		take(t, filler, 0)
		for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
			s.post()
			if f, err := os.OpenFile(filler, os.O_APPEND|os.O_WRONLY, 0); err == nil { // and stay so
				for block := make([]byte, 4096); err == nil; {
					_, err = f.Write(block)
				}
				f.Close()
			}
			time.Sleep(50 * time.Millisecond)
		}
		s.awaitReadyz(503, 3*time.Minute)
		if err := os.Remove(filler); err != nil {
			t.Fatal(err)
		}
		s.mustPost(3 * time.Minute)
		s.awaitReadyz(200, 3*time.Minute)
		s.exact(3 * time.Minute)
	}
	eventually(t, 3*time.Minute, "the log says that it began and that it is over", func() (bool, string) {
		return strings.Contains(s.log(), "trouble: ") && strings.Contains(s.log(), "over: "), ""
	})
	t.Logf("NATS was started again %d times", strings.Count(s.log(), "NATS was started again"))
}

// 2 500 connections that never send a key stop nobody, although the process may have 1 024 descriptors.
func TestIdleConnectionsStopNobody(t *testing.T) {
	t.Parallel()
	s := startUp(t, filepath.Join(t.TempDir(), "data"), 1024)
	s.mustPost(3 * time.Minute)
	var idle []net.Conn
	defer func() {
		for _, c := range idle {
			c.Close()
		}
	}()
	for i := range 2500 {
		c, err := net.DialTimeout("tcp", s.addr, 60*time.Second)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		idle = append(idle, c)
		if i%3 == 0 {
			c.Write([]byte("POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\n")) // never ends its header
		}
		if i%100 == 0 {
			if status, body := s.post(); status != 200 && status != 202 { // the client waits for a minute
				t.Fatalf("with %d idle connections an upload is answered %d %s", i, status, body)
			}
		}
	}
	s.awaitReadyz(200, 3*time.Minute)
	s.exact(3 * time.Minute)
}

// Each stream and bucket is deleted while uploads come. The service goes on without a restart, later uploads are there, and the log names
// what was gone.
func TestDeletedUnderUp(t *testing.T) {
	t.Parallel()
	s := startUp(t, filepath.Join(t.TempDir(), "data"), 0)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: s.nats()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	groups := [][]string{
		{"KV_" + stream.KeysBucket, "KV_" + stream.WindowsBucket, "KV_" + stream.DictionariesBucket, "KV_" + stream.LeasesBucket},
		{"KV_" + stream.MarksBucket, "KV_" + stream.DeletionsBucket, "KV_" + stream.CubinsBucket, "OBJ_" + stream.PartsObjects,
			"OBJ_" + stream.StateObjects, "OBJ_" + stream.ChunksObjects},
		{stream.IngestStream},
	}
	if *each {
		var single [][]string
		for _, g := range groups {
			for _, name := range g {
				single = append(single, []string{name})
			}
		}
		groups = single
	}
	for _, names := range groups {
		for range 3 {
			s.mustPost(3 * time.Minute)
		}
		s.exact(3 * time.Minute)
		for _, name := range names {
			if err := js.DeleteStream(ctx, name); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for _, name := range names {
			eventually(t, 3*time.Minute, name+" is there again", func() (bool, string) {
				_, err := js.Stream(ctx, name)
				return err == nil, fmt.Sprint(err)
			})
			what := strings.TrimPrefix(strings.TrimPrefix(name, "KV_"), "OBJ_") + " was gone"
			eventually(t, 3*time.Minute, "the log says that "+what, func() (bool, string) { return strings.Contains(s.log(), what), "" })
		}
		for range 20 { // some to every partition
			s.mustPost(3 * time.Minute)
		}
		s.awaitReadyz(200, 3*time.Minute)
		posted := time.Now()
		s.exact(3 * time.Minute)
		t.Logf("%v: all there %v after the last upload", names, time.Since(posted).Round(100*time.Millisecond))
	}
	// The key of the data folder was in WL_KEYS, and the retention classes: the gateway put both back.
	kv, err := js.KeyValue(ctx, stream.KeysBucket)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, 3*time.Minute, "the keys are back", func() (bool, string) {
		lister, err := kv.ListKeys(ctx)
		if err != nil {
			return errors.Is(err, jetstream.ErrNoKeysFound), err.Error()
		}
		var names []string
		for name := range lister.Keys() {
			names = append(names, name)
		}
		return len(names) == 2 && slices.Contains(names, "retention-classes"), fmt.Sprint(names)
	})
}

// The gateway is ready only while somebody folds what it takes: without a worker it says so, and is ready again once there is one.
func TestReadyOnlyWithAnOwner(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "--partitions", "4")
	s := &service{t: t, addr: c.gatewayAddr, client: &http.Client{Timeout: 60 * time.Second}}
	s.awaitReadyz(200, 3*time.Minute)
	c.kill("worker0")
	eventually(t, 3*time.Minute, "the gateway is not ready without a worker", func() (bool, string) {
		status, body := s.readyz()
		return status == 503 && strings.Contains(body, "no worker"), fmt.Sprint(status, " ", body)
	})
	eventually(t, 3*time.Minute, "the log says so", func() (bool, string) {
		log := c.tail("gateway")
		return strings.Contains(log, "trouble: no worker"), log
	})
	c.start("worker0")
	s.awaitReadyz(200, 3*time.Minute)
}

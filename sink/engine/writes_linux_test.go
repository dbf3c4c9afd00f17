//go:build amd64 || arm64

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// The disk gets full to the last byte, at every moment of inserts and merges, and empty again. What was answered OK can be read: the
// library itself takes a write that failed as done, answers OK, and replaces good data parts by merged ones of empty files.
func TestFullDisk(t *testing.T) {
	enginetest.Need(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=300m"); err != nil {
		t.Skipf("needs root, to mount a small volume: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	var log lines
	s, err := engine.Supervise(t.Context(), engine.Config{Dir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop(context.Background())
	e := s.Engine()
	must(t, e, "CREATE DATABASE warpline")
	var columns []string
	for i := range 20 {
		columns = append(columns, fmt.Sprintf("s%d LowCardinality(String) DEFAULT '%d'", i, i), fmt.Sprintf("a%d UInt64 DEFAULT rand64()", i))
	}
	const tables = 10
	for i := range tables {
		must(t, e, fmt.Sprintf("CREATE TABLE warpline.t%d (n UInt64, %s) ENGINE = MergeTree ORDER BY n", i, strings.Join(columns, ", ")))
	}
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{e.HTTPAddr()}, Protocol: clickhouse.HTTP,
		Auth: clickhouse.Auth{Username: engine.Writer, Password: e.Password()}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	refused, sent := 0, 0
	for round := range 12 {
		answered := map[int][]uint64{} // by table
		over := time.Now().Add(500 * time.Millisecond)
		filled := make(chan error)
		go func() { filled <- fill(filepath.Join(dir, "filler"), time.Duration(round)*5*time.Millisecond, over) }()
		for time.Now().Before(over) {
			sent++
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			err := conn.Exec(ctx, fmt.Sprintf("INSERT INTO warpline.t%d (n) SELECT %d FROM numbers(10)", sent%tables, sent))
			cancel()
			if err == nil {
				answered[sent%tables] = append(answered[sent%tables], uint64(sent))
			} else {
				refused++
			}
		}
		if err := <-filled; err != nil {
			t.Fatal(err)
		}
		for table, want := range answered {
			got, err := rowsOf(t.Context(), conn, fmt.Sprintf("SELECT n, count() + 0 * sum(a3) FROM warpline.t%d GROUP BY n", table))
			if err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			for _, n := range want {
				if got[n] != 10 {
					t.Errorf("round %d: insert %d was answered OK and has %d rows of 10", round, n, got[n])
				}
			}
		}
	}
	if refused == 0 {
		t.Error("the disk was never full")
	}
}

// fill takes all of the volume at once after a while, keeps it so, and gives it back when the time is over.
func fill(path string, after time.Duration, until time.Time) error {
	time.Sleep(after)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer os.Remove(path)
	defer f.Close()
	var volume syscall.Statfs_t
	if err := syscall.Statfs(path, &volume); err != nil {
		return err
	}
	size := int64(volume.Bavail) * volume.Bsize
	if err := syscall.Fallocate(int(f.Fd()), 0, 0, size); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	block := make([]byte, 4096)
	for at := size; time.Now().Before(until); {
		n, err := f.WriteAt(block, at)
		at += int64(n)
		if err != nil {
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

func rowsOf(ctx context.Context, conn driver.Conn, sql string) (map[uint64]uint64, error) {
	rows, err := conn.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	got := map[uint64]uint64{}
	for rows.Next() {
		var n, count uint64
		if err := rows.Scan(&n, &count); err != nil {
			return nil, err
		}
		got[n] = count
	}
	return got, rows.Err()
}

// What the library is given for write(2), failure by failure.
func TestGuardedWrite(t *testing.T) {
	volume := t.TempDir()
	if err := syscall.Mount("none", volume, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("needs root, to mount a small volume: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(volume, syscall.MNT_DETACH) })
	if err := os.WriteFile(filepath.Join(volume, "filler"), make([]byte, 64<<10), 0o600); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	full, err := os.Create(filepath.Join(volume, "full"))
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	good, err := os.Create(filepath.Join(t.TempDir(), "good"))
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	device, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	for _, c := range []struct {
		name  string
		fd    uintptr
		n     int
		errno syscall.Errno
	}{
		{"a file", good.Fd(), 5, 0},
		{"a file on a full disk: try again", full.Fd(), -1, syscall.EINTR},
		{"something else that is full", device.Fd(), -1, syscall.ENOSPC},
		{"nothing that is open", 9999, -1, syscall.EBADF},
	} {
		if n, errno := engine.GuardedWrite(c.fd, []byte("hello")); n != c.n || errno != c.errno {
			t.Errorf("%s: %d, %v; want %d, %v", c.name, n, errno, c.n, c.errno)
		}
	}
	if got, _ := os.ReadFile(good.Name()); string(got) != "hello" {
		t.Errorf("written: %q", got)
	}
	// A file that may not grow is a disk that fails: the process ends.
	if os.Getenv("WARPLINE_TEST_FAILING_DISK") != "" {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1, Max: 1}); err != nil {
			t.Fatal(err)
		}
		n, errno := engine.GuardedWrite(good.Fd(), []byte("x"))
		t.Fatalf("went on after %d, %v", n, errno)
	}
	self := exec.Command(os.Args[0], "-test.run=^TestGuardedWrite$")
	self.Env = append(os.Environ(), "WARPLINE_TEST_FAILING_DISK=1")
	out, err := self.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != engine.ExitDisk {
		t.Errorf("a disk that fails: %v\n%s", err, out)
	}
}

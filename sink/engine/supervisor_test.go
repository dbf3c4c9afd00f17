package engine_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// lines is a log that several goroutines write.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *lines) count(s string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), s)
}

func TestSupervisorRestarts(t *testing.T) {
	enginetest.Need(t)
	var log lines
	var mu sync.Mutex
	var told []engine.Phase
	s, err := engine.Supervise(t.Context(), engine.Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))},
		func(st engine.State) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, st.Phase)
		})
	if err != nil {
		t.Fatal(err)
	}
	first := s.Engine()
	must(t, first, "CREATE DATABASE w")
	must(t, first, "CREATE TABLE w.t (a UInt64) ENGINE = MergeTree ORDER BY a")
	for i := range 3 {
		old := s.Engine()
		must(t, old, "INSERT INTO w.t SELECT number FROM numbers(100)")
		began := time.Now()
		if err := syscall.Kill(old.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 60*time.Second, "another engine is ready", func() bool {
			st := s.State()
			return st.Phase == engine.Ready && st.Pid != old.Pid()
		})
		t.Logf("kill %d: ready again after %v", i+1, time.Since(began))
		if e := s.Engine(); e.HTTPAddr() != first.HTTPAddr() || e.TCPAddr() != first.TCPAddr() || e.Password() != first.Password() {
			t.Fatalf("the next engine is elsewhere: %s %s", e.HTTPAddr(), e.TCPAddr())
		}
	}
	want(t, "rows", must(t, s.Engine(), "SELECT count() FROM w.t"), "300")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !processIsGone(s.Engine().Pid()) {
		t.Error("the engine outlived its supervisor")
	}
	mu.Lock()
	defer mu.Unlock()
	wanted := []engine.Phase{engine.Ready, engine.Down, engine.Ready, engine.Down, engine.Ready, engine.Down, engine.Ready, engine.Stopping,
		engine.Stopped}
	if len(told) != len(wanted) {
		t.Fatalf("told %v, want %v", told, wanted)
	}
	for i := range wanted {
		if told[i] != wanted[i] {
			t.Fatalf("told %v, want %v", told, wanted)
		}
	}
	if n := log.count("engine down"); n != 3 {
		t.Errorf("%d lines about 3 deaths", n)
	}
}

func TestSuperviseReturnsAFirstFailure(t *testing.T) {
	enginetest.Need(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = engine.Supervise(t.Context(), engine.Config{Dir: t.TempDir(), HTTPPort: l.Addr().(*net.TCPAddr).Port}, nil)
	if err == nil || !strings.Contains(err.Error(), "HTTP port") {
		t.Fatalf("a port in use: %v", err)
	}
	_, err = engine.Start(t.Context(), engine.Config{Dir: t.TempDir(), ListenHost: "0.0.0.0"})
	if err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Fatalf("all interfaces: %v", err)
	}
}

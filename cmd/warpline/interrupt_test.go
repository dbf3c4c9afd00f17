package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An interrupted start says so in one word and leaves with a code of its own.
func TestInterruptedBeforeItWasDone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	silent := "nats://" + l.Addr().String()
	for name, args := range map[string][]string{
		"up":     upArgs(filepath.Join(t.TempDir(), "data")),
		"demo":   {"demo", "--data", filepath.Join(t.TempDir(), "demo")},
		"worker": {"worker", "--nats", silent, "--metrics-listen", ""},
		"send":   {"send", "../../testdata/gpuflight/scoped", "--url", "http://127.0.0.1:1", "--key", "k", "--retry", "1h"},
	} {
		t.Run(name, func(t *testing.T) {
			s := launch(t, args...)
			time.Sleep(150 * time.Millisecond)
			s.signals <- syscall.SIGINT
			select {
			case code := <-s.exited:
				s.exited <- code
				if said := s.words.String(); code != exitStopped || !strings.HasSuffix(said, "\nwarpline: interrupted\n") ||
					strings.Contains(said, "context canceled") || strings.Contains(said, "level=ERROR") {
					t.Errorf("exit %d:\n%s", code, said)
				}
			case <-time.After(60 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}

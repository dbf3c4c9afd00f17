package broker_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
)

// Two holders share the things; when one dies without a word, the other has all of them within seconds.
func TestLeasesAreSharedAndInherited(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 8})
	var mu sync.Mutex
	running := [2]map[int]bool{{}, {}}
	holder := func(who int) *broker.Leases {
		return &broker.Leases{Bucket: s.Leases, Role: "worker", Count: 8, TTL: s.LeaseTTL, Logger: slog.New(slog.DiscardHandler),
			Run: func(ctx context.Context, i int) {
				mu.Lock()
				running[who][i] = true
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				delete(running[who], i)
				mu.Unlock()
			}}
	}
	counts := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return len(running[0]), len(running[1])
	}
	wait := func(what string, ok func(a, b int) bool) {
		t.Helper()
		deadline := time.Now().Add(60 * time.Second)
		for {
			a, b := counts()
			if ok(a, b) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: have %d and %d", what, a, b)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	ctx0, stop0 := context.WithCancel(t.Context())
	defer stop0()
	go holder(0).Hold(ctx0)
	wait("first takes all", func(a, b int) bool { return a == 8 })
	ctx1, stop1 := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { holder(1).Hold(ctx1); close(done) }()
	wait("they share", func(a, b int) bool { return a == 4 && b == 4 })
	stop1()
	<-done
	wait("first inherits", func(a, b int) bool { return a == 8 && b == 0 })
}

package sink_test

import (
	"context"
	"flag"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

var kills = flag.Int("kills", 8, "how often TestEngineIsKilled kills the engine")

// own returns a world with an engine of its own, for tests that end it. start starts it, again and again on the same ports.
func own(t testing.TB) (w *world, start func() *engine.Engine) {
	t.Helper()
	enginetest.Need(t)
	port := func() int {
		at, err := net.ResolveTCPAddr("tcp", brokertest.FreeAddr(t))
		if err != nil {
			t.Fatal(err)
		}
		return at.Port
	}
	cfg := engine.Config{Dir: t.TempDir(), HTTPPort: port(), TCPPort: port(), Logger: slog.New(slog.DiscardHandler)}
	start = func() *engine.Engine {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
		defer cancel()
		e, err := engine.Start(ctx, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
			defer cancel()
			e.Stop(ctx)
		})
		return e
	}
	return newWorld(t, start()), start
}

// The engine is killed again and again while two sinks, one of them a zombie, insert.
func TestEngineIsKilled(t *testing.T) {
	w, start := own(t)
	registry := prometheus.NewRegistry()
	w.run(w.sink(func(c *sink.Config) { c.Registerer = registry }))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			w.publish(i%4, 400)
			time.Sleep(4 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			turn, stop := context.WithTimeout(ctx, time.Duration(rand.IntN(3000))*time.Millisecond)
			w.sink().RunUnleased(turn, true)
			stop()
		}
	})
	e := w.e
	for i := range *kills {
		time.Sleep(time.Duration(200+rand.IntN(800)) * time.Millisecond)
		if err := syscall.Kill(e.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		<-e.Done()
		e = start()
		if i%10 == 9 {
			w.settledDuring()
			t.Logf("%d kills", i+1)
		}
	}
	cancel()
	wg.Wait()
	w.settled(5 * time.Minute)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if n := f.GetName(); n == "warpline_sink_retries_total" || n == "warpline_sink_repairs_total" {
			for _, m := range f.Metric {
				t.Log(n, m.Label[0].GetValue(), m.Counter.GetValue())
			}
		}
	}
	t.Logf("%d kernels", w.want.kernels)
}

// settledDuring checks, while things go on, that nothing is doubled.
func (w *world) settledDuring() {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	g, err := w.got(context.Background(), c)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil && (g.kernels > w.want.kernels || g.calls > w.want.calls || g.events > w.want.events) {
		w.t.Fatalf("doubled:\nhave %+v\nwant %+v", g, w.want)
	}
}

// ClickHouse is away for a while: the sink says so in one line, keeps everything, and catches up.
func TestClickHouseAway(t *testing.T) {
	w, start := own(t)
	var lines strings.Builder
	var mu sync.Mutex
	log := slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return lines.Write(p)
	}), nil))
	k := w.sink(func(c *sink.Config) { c.Logger = log })
	w.run(k)
	for i := range 8 {
		w.publish(i%4, 100)
	}
	w.settled(3 * time.Minute)
	if err := w.e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		w.publish(i%4, 100)
		time.Sleep(50 * time.Millisecond)
	}
	says(t, k, func(s sink.Status) bool {
		return strings.Contains(s.String(), "clickhouse unreachable since ") && s.Lanes[0].Pending > 0 && s.Lanes[0].Lag > 0 &&
			strings.Contains(s.String(), "rows wait in JetStream")
	})
	start()
	w.settled(3 * time.Minute)
	says(t, k, func(s sink.Status) bool { return s.String() == "" })
	text := func() string {
		mu.Lock()
		defer mu.Unlock()
		return lines.String()
	}
	says(t, k, func(sink.Status) bool { return strings.Contains(text(), "clickhouse answers again") })
	if strings.Count(text(), "clickhouse is unreachable") != 1 || strings.Count(text(), "clickhouse answers again") != 1 {
		t.Errorf("the log of one outage:\n%s", text())
	}
}

// says waits until the status of a sink is as wanted.
func says(t testing.TB, k *sink.Sink, wanted func(sink.Status) bool) {
	t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !wanted(k.Status()); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the sink says %+v %q", k.Status(), k.Status())
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A sink that starts before ClickHouse waits for it.
func TestSinkStartsFirst(t *testing.T) {
	w, start := own(t)
	if err := w.e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	k := w.sink()
	w.run(k)
	w.publish(0, 10)
	says(t, k, func(s sink.Status) bool { return strings.Contains(s.String(), "unreachable") })
	start()
	w.settled(3 * time.Minute)
}

// NATS restarts under the sink: its consumers are gone. Leases are left out, they have tests of their own.
func TestNATSRestarts(t *testing.T) {
	w := shared(t)
	dir := t.TempDir()
	serve := func(listen string) *server.Server {
		srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Listen: listen, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return srv
	}
	addr := brokertest.FreeAddr(t)
	srv := serve(addr)
	defer func() { srv.Shutdown(); srv.WaitForShutdown() }()
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: "nats://" + addr, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	layout := broker.DefaultLayout()
	layout.Partitions, layout.Lanes, layout.RowsMaxBytes, layout.IngestMaxBytes = 4, 2, 1<<30, 1<<20
	if w.s, err = broker.Open(t.Context(), nc, js, layout); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); w.sink().RunUnleased(ctx, false) }()
	defer func() { cancel(); <-done }()
	for range 4 {
		for i := range 20 {
			w.publish(i%4, 100)
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		srv = serve(addr)
		for !nc.IsConnected() {
			time.Sleep(10 * time.Millisecond)
		}
	}
	for i := range 8 {
		w.publish(i%4, 100)
	}
	w.settled(3 * time.Minute)
}

package aggregate_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// poisonIdentity names the part whose fold fails.
const poisonIdentity = "poison"

// poisoned publishes a load with one part in the middle that cannot be folded, and returns what must be there of the rest.
func poisoned(t testing.TB, s *broker.Streams) (kernels, total uint64) {
	kernels, total = load(t, s, 0, 15)
	publish(t, s, stream.Envelope{Session: "s2", Identity: poisonIdentity}, []byte(`{"version":1,"type":"kernel_event_batch",`+
		`"session_id":"s2","batch_id":999,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns",`+
		`"corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,99,900001,0,32,0],[0,1,7,99,900002,0,32,0],[0,1,7,99,900003,0,32,0]]}`+
		"\n"))
	k, n := load(t, s, 15, 15)
	return kernels + k, total + n
}

// checkPoisoned waits for the rest and checks that the part is one reject, whose three events are in the books, and nothing else.
func checkPoisoned(t *testing.T, s *broker.Streams, kernels, total uint64) {
	t.Helper()
	checkLoad(t, s, kernels, total)
	sum := readRows(t, s)
	for key, want := range map[string]uint64{"rejects_data": 1, "rejects_data.reason=poison": 1, "rejects_data.events": 3,
		"usage_data.rejected": 3, "usage_data.duplicates": 0,
		"usage_data.events": kernels*3/2 + 3 + 5} {
		if sum[key] != want {
			t.Errorf("%s: %d, want %d", key, sum[key], want)
		}
	}
}

// A part whose fold panics, or does not come to an end while it reads lines, is a reject after three tries; its neighbours are exact.
func TestPoisonIsAReject(t *testing.T) {
	for name, fail := range map[string]func(){
		"panics":         func() { panic("on purpose") },
		"panics in map":  func() { var m map[string]int; m["x"]++ },
		"takes too long": func() { time.Sleep(600 * time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := brokertest.Start(t, broker.Layout{Partitions: 2})
			kernels, total := poisoned(t, s)
			var tries atomic.Int32
			start(t, s, fast.WithFold(400*time.Millisecond, time.Minute, func(e stream.Envelope) {
				if e.Identity == poisonIdentity && e.Kind != stream.KindReject {
					tries.Add(1)
					fail()
				}
			}))
			checkPoisoned(t, s, kernels, total)
			if tries.Load() != 3 {
				t.Errorf("%d tries", tries.Load())
			}
		})
	}
}

// A part that only fails twice is stored: what failed may have been something else.
func TestPoisonThatHealsIsStored(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	kernels, total := load(t, s, 0, 10)
	var tries atomic.Int32
	start(t, s, fast.WithFold(0, 0, func(e stream.Envelope) {
		if e.Identity == "w7" && e.Part == 0 && tries.Add(1) <= 2 {
			panic("on purpose")
		}
	}))
	checkLoad(t, s, kernels, total)
	if sum := readRows(t, s); sum["rejects_data"] != 0 || tries.Load() != 3 {
		t.Errorf("%d rejects after %d tries", sum["rejects_data"], tries.Load())
	}
}

// TestMain runs a worker in a process of its own when it is told to: one that a part can kill.
func TestMain(m *testing.M) {
	if url := os.Getenv("WARPLINE_TEST_WORKER"); url != "" {
		os.Exit(mortalWorker(url, os.Getenv("WARPLINE_TEST_DEATH")))
	}
	os.Exit(m.Run())
}

// mortalWorker folds until it dies of the part, or its parent ends it.
func mortalWorker(url, death string) int {
	ctx := context.Background()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: url, Name: "mortal"})
	if err != nil {
		return 3
	}
	defer nc.Close()
	s, err := broker.Open(ctx, nc, js, mortalLayout())
	if err != nil {
		return 3
	}
	cfg := fast
	cfg.ChunkAge, cfg.Logger = 30*time.Millisecond, slog.New(slog.NewTextHandler(os.Stderr, nil))
	aggregate.New(s, cfg.WithFold(300*time.Millisecond, 100*time.Millisecond, func(e stream.Envelope) {
		if e.Identity != poisonIdentity || e.Kind == stream.KindReject {
			return
		}
		if death == "exit" {
			os.Exit(9)
		}
		select {} // nothing can stop this one
	})).Run(ctx)
	return 0
}

func mortalLayout() broker.Layout {
	l := broker.DefaultLayout()
	l.Partitions, l.IngestMaxBytes, l.RowsMaxBytes, l.BucketMaxBytes, l.LeaseTTL = 2, 256<<20, 256<<20, 64<<20, time.Second
	return l
}

// A part that ends the process without a word, and one whose fold cannot be stopped, are rejects after a few processes.
func TestPoisonThatKillsTheProcess(t *testing.T) {
	for death, most := range map[string]int{"exit": 4, "hang": 3} {
		t.Run(death, func(t *testing.T) {
			t.Parallel()
			srv, err := broker.Serve(broker.ServerConfig{Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
			nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{Server: srv, Name: t.Name()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			s, err := broker.Open(t.Context(), nc, js, mortalLayout())
			if err != nil {
				t.Fatal(err)
			}
			kernels, total := poisoned(t, s)
			ctx, stop := context.WithCancel(context.Background())
			var deaths atomic.Int32
			done := make(chan struct{})
			go func() {
				defer close(done)
				for ctx.Err() == nil {
					cmd := exec.CommandContext(ctx, os.Args[0])
					cmd.Env = append(os.Environ(), "WARPLINE_TEST_WORKER="+srv.ClientURL(), "WARPLINE_TEST_DEATH="+death)
					if testing.Verbose() {
						cmd.Stderr = os.Stderr
					}
					var exit *exec.ExitError
					if err := cmd.Run(); errors.As(err, &exit) && exit.ExitCode() != 3 && ctx.Err() == nil {
						deaths.Add(1)
					}
				}
			}()
			defer func() { stop(); <-done }()
			checkPoisoned(t, s, kernels, total)
			if n := int(deaths.Load()); n < 3 || n > most {
				t.Errorf("%d processes died, at most %d may", n, most)
			}
		})
	}
}

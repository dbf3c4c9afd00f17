package aggregate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// bound sets the size of an object store.
func bound(t testing.TB, s *broker.Streams, bucket string, bytes int64) {
	t.Helper()
	st, err := s.JS.Stream(context.Background(), "OBJ_"+bucket)
	if err != nil {
		t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	cfg.MaxBytes = bytes
	if _, err := s.JS.UpdateStream(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
}

// head is the header of the last chunk.
func head(t testing.TB, s *broker.Streams) stream.Chunk {
	t.Helper()
	msg, err := s.Rows.GetLastMsgForSubject(context.Background(), stream.RowsSubject(0))
	if err != nil {
		return stream.Chunk{}
	}
	c, _, _, err := stream.ParseChunk(msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// sessionsOf publishes sessions whose state is some 8 kB each: lines that are remembered.
func sessionsOf(t testing.TB, s *broker.Streams, from, n int) {
	t.Helper()
	for i := from; i < from+n; i++ {
		var b strings.Builder
		session := fmt.Sprint("s", i)
		for line := range 500 {
			fmt.Fprintf(&b, `{"type":"dictionary_update","session_id":"%s","n":%d}`+"\n", session, line)
		}
		b.WriteString(kernelsOf(session, 1, 1))
		publish(t, s, stream.Envelope{Session: session, Identity: "w"}, []byte(b.String()))
	}
}

// A WL_STATE that is too small for the state: sessions that fell silent are forgotten, the snapshots fit, and everything is counted once,
// over a restart too.
func TestStateFitsItsStore(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	bound(t, s, stream.StateObjects, 300<<10)
	cfg := fast
	cfg.SnapshotChunks = 2
	reg := prometheus.NewRegistry()
	cfg.Registerer = reg
	stop := start(t, s, cfg)
	for i := range 10 {
		sessionsOf(t, s, 10*i, 10)
		waitFor(t, s, "every kernel", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= uint64(10*i+10) })
	}
	if n := metric(t, reg, "warpline_worker_sessions_forgotten_early_total"); n < 50 {
		t.Errorf("%v sessions were forgotten", n)
	}
	if n := metric(t, reg, "warpline_worker_state_bytes"); n > 200<<10 {
		t.Errorf("the state has %v bytes", n)
	}
	stop()
	c := head(t, s)
	if c.Snapshot.Object == "" || c.Number > c.Snapshot.Chunk+20 {
		t.Errorf("no snapshot lately: %d, chunk %d", c.Snapshot.Chunk, c.Number)
	}
	start(t, s, fast)
	sessionsOf(t, s, 95, 10) // five of them again
	sum := waitFor(t, s, "every kernel", func(sum totals) bool { return sum["kernel_stats_data.calls"] >= 105 })
	if sum["kernels_data"] != 105 || sum["kernel_stats_data.calls"] != 105 || sum["usage_data.duplicates"] < 5*501 {
		t.Errorf("%d kernels, %d in rollups, %d duplicates", sum["kernels_data"], sum["kernel_stats_data.calls"], sum["usage_data.duplicates"])
	}
}

// A WL_STATE that others have filled: snapshots go to WL_CHUNKS; and while that is full, too, the worker goes on without, says so, and gets
// over it by itself.
func TestFullStateStoreStopsNobody(t *testing.T) {
	ctx := context.Background()
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	for _, store := range []struct {
		o    jetstream.ObjectStore
		name string
	}{{s.State, stream.StateObjects}, {s.Chunks, stream.ChunksObjects}} {
		bound(t, s, store.name, 1<<20)
		for size := 1 << 19; size > 256; size /= 2 {
			for n := range 4 {
				try, cancel := context.WithTimeout(ctx, time.Minute)
				_, err := store.o.PutBytes(try, fmt.Sprintf("filler-%d-%d", size, n), make([]byte, size))
				cancel()
				if err != nil && !broker.IsFull(err) {
					t.Fatalf("%v", err)
				}
			}
		}
	}
	cfg := fast
	cfg.SnapshotChunks, cfg.ChunkAge = 2, 30*time.Millisecond
	w := aggregate.New(s, cfg)
	run, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); w.Run(run) }()
	stop := func() { cancel(); <-done }
	defer stop()
	kernels, total := load(t, s, 0, 20)
	checkLoad(t, s, kernels, total)
	said := ""
	for deadline := time.Now().Add(60 * time.Second); said == "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, p := range w.Status().Partitions {
			said = p.SnapshotError
		}
	}
	if !strings.Contains(said, "WL_STATE") || !strings.Contains(said, "WL_CHUNKS") || head(t, s).Snapshot.Object != "" {
		t.Fatalf("it says %q, snapshot %+v", said, head(t, s).Snapshot)
	}
	drop := func(store jetstream.ObjectStore) {
		list, err := store.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if strings.HasPrefix(o.Name, "filler-") {
				if err := broker.DeleteObject(ctx, s.JS, store, o.Name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	drop(s.Chunks)
	n := 20
	for deadline := time.Now().Add(60 * time.Second); head(t, s).Snapshot.Object == "" &&
		time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		k, ns := load(t, s, n, 1)
		kernels, total, n = kernels+k, total+ns, n+1
	}
	name := head(t, s).Snapshot.Object
	if _, err := s.Chunks.GetInfo(ctx, name); name == "" || err != nil {
		t.Fatalf("snapshot %q is not in WL_CHUNKS: %v", name, err)
	}
	stop()
	k, ns := load(t, s, n, 20)
	kernels, total = kernels+k, total+ns
	drop(s.State)
	start(t, s, cfg)
	checkLoad(t, s, kernels, total)
	name = head(t, s).Snapshot.Object
	if _, err := s.State.GetInfo(ctx, name); err != nil {
		t.Errorf("snapshot %q is not in WL_STATE again: %v", name, err)
	}
	if list, err := s.Chunks.List(ctx); err == nil && len(list) > 1 || err != nil && !errors.Is(err, jetstream.ErrNoObjectsFound) {
		t.Errorf("left in WL_CHUNKS: %v %v", list, err)
	}
}

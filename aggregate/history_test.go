package aggregate_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// house is a NATS server that can be stopped and started on its fold, and streams whose connection outlives that.
type house struct {
	t    testing.TB
	dir  string
	addr string
	srv  *server.Server
	s    *broker.Streams
}

func newHouse(t testing.TB, partitions int) *house {
	t.Helper()
	h := &house{t: t, dir: t.TempDir(), addr: brokertest.FreeAddr(t)}
	h.up()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + h.addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close(); h.srv.Shutdown(); h.srv.WaitForShutdown() })
	layout := broker.DefaultLayout()
	layout.Partitions, layout.IngestMaxBytes, layout.RowsMaxBytes, layout.BucketMaxBytes = partitions, 256<<20, 256<<20, 64<<20
	if h.s, err = broker.Open(ctx, nc, js, layout); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *house) up() {
	h.t.Helper()
	var err error
	if h.srv, err = broker.Serve(broker.ServerConfig{Dir: h.dir, Listen: h.addr, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) down() { h.srv.Shutdown(); h.srv.WaitForShutdown() }

// reached waits until the streams' connection is there again.
func (h *house) reached() {
	h.t.Helper()
	for deadline := time.Now().Add(60 * time.Second); !h.s.Conn.IsConnected(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatal("no connection after 30 s")
		}
	}
}

func (h *house) fold(name string) string {
	return filepath.Join(h.dir, "jetstream", "$G", "streams", name)
}

// copyOf stops the server, copies a stream's fold and starts the server again.
func (h *house) copyOf(name string) (copied string) {
	h.t.Helper()
	h.down()
	copied = filepath.Join(h.t.TempDir(), name)
	if err := os.CopyFS(copied, os.DirFS(h.fold(name))); err != nil {
		h.t.Fatal(err)
	}
	h.up()
	h.reached()
	return copied
}

// putBack replaces a stream's fold by an older copy while the server is stopped; between, if there is one, runs before others connect.
func (h *house) putBack(name, copied string) {
	h.t.Helper()
	h.down()
	if err := os.RemoveAll(h.fold(name)); err != nil {
		h.t.Fatal(err)
	}
	if err := os.CopyFS(h.fold(name), os.DirFS(copied)); err != nil {
		h.t.Fatal(err)
	}
	h.up()
	h.reached()
}

// remake deletes INGEST and makes it anew, its first sequence being first (0: 1).
func (h *house) remake(name string, first uint64) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	st, err := h.s.JS.Stream(ctx, name)
	if err != nil {
		h.t.Fatal(err)
	}
	cfg := st.CachedInfo().Config
	if err := h.s.JS.DeleteStream(ctx, name); err != nil {
		h.t.Fatal(err)
	}
	cfg.FirstSeq = first
	if _, err := h.s.JS.CreateStream(ctx, cfg); err != nil {
		h.t.Fatal(err)
	}
}

// oneKernel publishes the n-th part: one kernel of n ns in one of three sessions.
func oneKernel(t testing.TB, s *broker.Streams, n int) {
	session := fmt.Sprintf("s%d", n%3)
	publish(t, s, stream.Envelope{Session: session, Identity: fmt.Sprintf("w%d", n)}, fmt.Appendf(nil,
		`{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":%d,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
			`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,%d,%d,0,32,0]]}`+"\n",
		session, n+1, n, n+1))
}

// tellStored publishes what a gateway says after it has published the parts of oneKernel from first to before end.
func tellStored(t testing.TB, s *broker.Streams, first, end uint64) {
	t.Helper()
	events := make([]uint64, s.Partitions)
	for n := first; n < end; n++ {
		events[stream.Partition("acme", fmt.Sprintf("s%d", n%3), s.Partitions)]++
	}
	for p, n := range events {
		if n == 0 {
			continue
		}
		now := time.Now()
		msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Kind: stream.KindDoor, Source: "door", Identity: "door-gw", Last: true,
			ReceivedAt: now.UnixNano()}, stream.AppendDoor(nil, &stream.Door{Gateway: "gw", Number: end, Since: now.UnixNano(),
			Counts: []stream.DoorCount{{Tenant: "acme", Source: "gpu-flight", Day: int32(now.UnixNano() / int64(24*time.Hour)),
				RollupDays: 395, Events: n, Bytes: 1}}}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JS.Publish(t.Context(), stream.DoorSubject(p, "gw"), msg); err != nil {
			t.Fatal(err)
		}
	}
}

// change publishes that an administrator changed something, in every partition.
func change(t testing.TB, s *broker.Streams, id string) {
	t.Helper()
	for p := range s.Partitions {
		now := time.Now().UnixNano()
		msg, err := stream.AppendEnvelope(nil, &stream.Envelope{Kind: stream.KindAdmin, Tenant: "acme", Source: "admin", Identity: id, Last: true,
			ReceivedAt: now, RollupDays: 395, Admin: &stream.AdminChange{ID: fmt.Sprint(id, "-", p), At: now, Who: "cli", Action: "tenant.set",
				Outcome: stream.AdminDone}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.JS.Publish(t.Context(), stream.IngestSubject(p, stream.NoTenantToken, stream.AdminToken), msg); err != nil {
			t.Fatal(err)
		}
	}
}

// INGEST loses its end or all of it, at rest or while a worker runs, and may have been filled again beyond the old end before a worker
// looks: what comes later is folded, once, and what was folded is not folded or counted again.
func TestIngestLost(t *testing.T) {
	const before, lost = 40, 30
	for _, c := range []struct {
		name    string
		running bool // the worker runs all the time
		after   int  // parts published after the loss, before a worker looks (when none runs)
		lose    func(h *house, old string)
	}{
		{"older copy, at rest", false, 10, func(h *house, old string) { h.putBack(stream.IngestStream, old) }},
		{"older copy, filled again beyond the end", false, 50, func(h *house, old string) { h.putBack(stream.IngestStream, old) }},
		{"older copy, worker running", true, 50, func(h *house, old string) { h.putBack(stream.IngestStream, old) }},
		{"made anew, at rest", false, 10, func(h *house, _ string) { h.remake(stream.IngestStream, 0) }},
		{"made anew, filled again beyond the end", false, 100, func(h *house, _ string) { h.remake(stream.IngestStream, 0) }},
		{"made anew, worker running", true, 100, func(h *house, _ string) { h.remake(stream.IngestStream, 0) }},
		{"made anew beyond all positions, worker running", true, 10, func(h *house, _ string) { h.remake(stream.IngestStream, 1000) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHouse(t, 2)
			reg := prometheus.NewRegistry()
			cfg := fast
			cfg.Registerer, cfg.SnapshotChunks, cfg.ReplayHorizon = reg, 5, time.Hour
			stop := start(t, h.s, cfg)
			n, sum := uint64(0), uint64(0)
			send := func(count int) {
				for range count {
					oneKernel(t, h.s, int(n))
					sum += n
					n++
					if n%5 == 0 {
						tellStored(t, h.s, n-5, n)
						change(t, h.s, fmt.Sprint("change-", n))
					}
				}
			}
			folded := func() {
				t.Helper()
				waitFor(t, h.s, fmt.Sprintf("%d kernels", n), func(got totals) bool {
					return got["kernels_data"] >= n && got["kernel_stats_data.calls"] >= n && got["usage_data.events"] >= n
				})
			}
			send(before / 4) // the first chunk, which will be gone back to, has a part of it
			folded()
			send(before - before/4)
			folded()
			old := h.copyOf(stream.IngestStream)
			send(lost)
			folded()
			if !c.running {
				stop()
				cfg.Registerer = nil
			}
			c.lose(h, old)
			send(c.after)
			if !c.running {
				start(t, h.s, cfg)
			}
			folded()
			send(5)
			folded()
			time.Sleep(300 * time.Millisecond)
			got := readRows(t, h.s)
			for key, want := range map[string]uint64{"kernels_data": n, "kernels_data.duration_ns": sum, "kernel_stats_data.calls": n,
				"usage_data.events": n, "usage_data.duplicates": 0, "usage_data.rejected": 0} {
				if got[key] != want {
					t.Errorf("%s = %d, want %d", key, got[key], want)
				}
			}
			for i := uint64(5); i <= n; i += 5 {
				for p := range 2 {
					if id := fmt.Sprint("change-", i, "-", p); got["admin_log_data.entry_id="+id] == 0 {
						t.Errorf("%s is not in admin_log", id)
					}
				}
			}
			if got["usage_data.door_events"] > n || got["usage_data.door_events"] < before/2 {
				t.Errorf("gateways stored %d events, and %d are counted", n, got["usage_data.door_events"])
			}
			told := losses(t, h.s)
			if len(told) == 0 || !strings.Contains(strings.Join(told, "\n"), "INGEST lost sequences") {
				t.Errorf("the loss is not told: %q", told)
			}
			if c.running && counted(t, reg, "warpline_worker_lost_total") == 0 {
				t.Error("the loss is not counted")
			}
		})
	}
}

// A stream that only gave up what was folded has lost nothing.
func TestPurgedIngestIsNoLoss(t *testing.T) {
	h := newHouse(t, 2)
	stop := start(t, h.s, fast)
	for n := range 20 {
		oneKernel(t, h.s, n)
	}
	waitFor(t, h.s, "20 kernels", func(got totals) bool { return got["kernels_data"] == 20 })
	stop()
	if err := h.s.Ingest.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	start(t, h.s, fast)
	for n := 20; n < 30; n++ {
		oneKernel(t, h.s, n)
	}
	waitFor(t, h.s, "30 kernels", func(got totals) bool { return got["kernels_data"] == 30 })
	if told := losses(t, h.s); len(told) > 0 {
		t.Errorf("told a loss: %q", told)
	}
}

// Names that a session learned in parts that INGEST has lost are still known to the next owner, and those of new parts under old sequences
// are
// not taken for them.
func TestNamesOutliveIngest(t *testing.T) {
	h := newHouse(t, 1)
	stop := start(t, h.s, fast)
	name := func(id string, n int) {
		publish(t, h.s, stream.Envelope{Session: "x", Identity: fmt.Sprintf("d%d", n)}, fmt.Appendf(nil,
			`{"version":1,"type":"dictionary_update","session_id":"x","kernel_dict":{"%d":"%s"}}`+"\n", n, id))
	}
	use := func(n, kernel int) {
		publish(t, h.s, stream.Envelope{Session: "x", Identity: fmt.Sprintf("k%d", n)}, fmt.Appendf(nil,
			`{"version":1,"type":"kernel_event_batch","session_id":"x","batch_id":%d,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
				`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,%d,7,1,%d,0,32,0]]}`+"\n", n, kernel,
			n))
	}
	name("alpha", 1)
	waitFor(t, h.s, "the name", func(got totals) bool { return got["dictionaries"] == 1 })
	stop()
	h.remake(stream.IngestStream, 0)
	name("beta", 2) // at the sequence that alpha had
	stop = start(t, h.s, fast)
	waitFor(t, h.s, "the other name", func(got totals) bool { return got["dictionaries"] == 2 })
	stop() // the next owner has to load both
	start(t, h.s, fast)
	use(1, 1)
	use(2, 2)
	waitFor(t, h.s, "both names", func(got totals) bool {
		return got["kernel_stats_data.kernel=alpha"] == 1 && got["kernel_stats_data.kernel=beta"] == 1
	})
}

// losses are the records in the marks bucket.
func losses(t testing.TB, s *broker.Streams) (out []string) {
	t.Helper()
	list, err := s.Marks.ListKeysFiltered(context.Background(), stream.LossPrefix+">")
	if err != nil {
		t.Fatal(err)
	}
	defer list.Stop()
	var keys []string
	for key := range list.Keys() {
		keys = append(keys, key)
	}
	for _, key := range keys {
		entry, err := s.Marks.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		l, err := stream.ParseLoss(entry.Value())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, l.String())
	}
	return out
}

func counted(t testing.TB, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

package aggregate_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// gauge is the value of a metric without labels.
func gauge(t testing.TB, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// While INGEST is less than half full, folded parts stay for a day. Beyond that they go, which is told: by the gauge, by the record that
// the audit reads, and by the gauge of the worker that comes next.
func TestHalfFullIngestCutsTheReplayWindow(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2, IngestMaxBytes: 1 << 20})
	reg := prometheus.NewRegistry()
	stop := run(t, aggregate.New(s, aggregate.Config{Registerer: reg, Sources: sources, ChunkAge: 30 * time.Millisecond}))
	const day = 24 * 3600
	rng := rand.New(rand.NewPCG(1, 2))
	part := func(n int) { // of 60 KiB that no codec shrinks, and which is refused: what becomes of it does not matter
		line := make([]byte, 60<<10)
		for i := range line {
			line[i] = byte(rng.IntN(94)) + '!'
		}
		publish(t, s, stream.Envelope{Session: "s", Identity: fmt.Sprint("device/0/", n)}, append(line, '\n'))
	}
	wait := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s", what)
			}
		}
	}
	folded := func() (parts float64) {
		all, _ := reg.Gather()
		for _, f := range all {
			for _, m := range f.GetMetric() {
				if f.GetName() == "warpline_worker_parts_total" {
					parts += m.GetCounter().GetValue()
				}
			}
		}
		return parts
	}
	for n := range 4 { // a quarter
		part(n)
	}
	wait("4 parts to be folded", func() bool { return folded() == 4 })
	if got := gauge(t, reg, "warpline_worker_replay_window_seconds"); got != day {
		t.Errorf("a quarter full, the window is %v s", got)
	}
	if got := gauge(t, reg, "warpline_worker_replay_target_seconds"); got != day {
		t.Errorf("the window is promised to be %v s", got)
	}
	for n := range 8 {
		part(4 + n)
	}
	wait("the gauge", func() bool { return gauge(t, reg, "warpline_worker_replay_window_seconds") < 120 })
	var short broker.Window
	wait("the record", func() bool {
		all, err := broker.ReadWindows(t.Context(), s.Marks)
		if err != nil {
			t.Fatal(err)
		}
		if len(all) == 1 {
			short = all[0]
		}
		return len(all) == 1
	})
	if short.Stream != stream.IngestStream || !short.Short(time.Now()) || short.Promised() != day*time.Second {
		t.Errorf("%+v", short)
	}
	info, err := s.Ingest.Info(t.Context())
	if err != nil || info.State.Bytes > 512<<10 {
		t.Errorf("INGEST has %d bytes, %v: the parts should be gone", info.State.Bytes, err)
	}
	stop()
	next := prometheus.NewRegistry()
	run(t, aggregate.New(s, aggregate.Config{Registerer: next, Sources: sources}))
	wait("the next worker's gauge", func() bool { return gauge(t, next, "warpline_worker_replay_window_seconds") < 120 })
}

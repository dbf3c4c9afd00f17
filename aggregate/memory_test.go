package aggregate_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/telemetry"
)

// sample is a record as a test makes it; nil is null.
type sample struct {
	ns                                int64
	kind, collector, host             string
	device, rank, world, pid          int
	sampling                          int
	allocated, reserved, used, change int64
	active, inactive, total           *int64
	job                               *string
	metadata                          map[string]any
}

// frame writes the sample as the gateway passes it on.
func (s *sample) frame(t testing.TB, index int) []byte {
	t.Helper()
	m := map[string]any{
		"schema_version": 2, "timestamp_ns": s.ns, "event_type": s.kind, "collector": s.collector, "sampling_interval_ms": s.sampling,
		"pid": s.pid, "host": s.host,
		"job_id": s.job, "rank": s.rank, "world_size": s.world, "device_id": s.device, "allocator_allocated_bytes": s.allocated,
		"allocator_reserved_bytes": s.reserved,
		"allocator_active_bytes":   s.active, "allocator_inactive_bytes": s.inactive, "allocator_change_bytes": s.change,
		"device_used_bytes": s.used,
		"device_free_bytes": nil, "device_total_bytes": s.total, "context": nil, "metadata": s.metadata,
	}
	text, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var v telemetry.Validator
	var e telemetry.Event
	if r := v.Event(&e, text, nil); r != nil {
		t.Fatalf("%s: %s", text, r)
	}
	return telemetry.AppendFrame(nil, index, &e)
}

func randomSample(r *rand.Rand, i int) sample {
	job := "job-9"
	s := sample{
		ns: 1700000000_000000000 + int64(i)*7e8 + int64(r.IntN(1e8)), device: r.IntN(2), rank: 3, world: 8, allocated: r.Int64N(40e9),
		used: r.Int64N(40e9), change: r.Int64N(2e9) - 1e9,
		kind:      []string{"allocation", "deallocation", "sample", "warning", "critical", "error", "peak"}[r.IntN(7)],
		collector: "stormlog.cuda_tracker", host: "node1", pid: 77,
		sampling: 100, job: &job, metadata: map[string]any{"step": i},
	}
	if r.IntN(3) > 0 {
		s.reserved = r.Int64N(40e9)
	}
	if r.IntN(2) == 0 {
		a := r.Int64N(40e9)
		s.active = &a
	}
	if i%3 == 0 {
		n := s.reserved * int64(i%5) / 3 // a record may say that more is inactive than there is
		s.inactive = &n
	}
	if r.IntN(2) == 0 {
		n := s.used + r.Int64N(40e9)
		s.total = &n
	}
	return s
}

// memoryOracle adds up as the tables should, in the plainest way.
func memoryOracle(samples []sample) totals {
	sum := totals{"memory_events_data": uint64(len(samples))}
	add := func(column string, v int64) { sum["memory_stats_data."+column] += uint64(v) }
	ppb := func(part, whole int64) int64 {
		if part < 0 {
			part = 0
		}
		return int64(float64(part) / float64(whole) * 1e9)
	}
	for _, s := range samples {
		sum["memory_events_data.timestamp_ns"] += uint64(s.ns)
		sum["memory_events_data.allocator_allocated_bytes"] += uint64(s.allocated)
		sum["memory_events_data.allocator_change_bytes"] += uint64(s.change)
		sum["memory_events_data.event_type="+s.kind]++
		add("events", 1)
		add("allocated_sum", s.allocated)
		add("reserved_sum", s.reserved)
		add("used_sum", s.used)
		if s.active != nil {
			add("active_events", 1)
			add("active_sum", *s.active)
		}
		if s.reserved > 0 {
			add("fragmented_events", 1)
			add("fragmentation_ppb", ppb(s.reserved-s.allocated, s.reserved))
			if s.inactive != nil {
				add("inactive_events", 1)
				add("inactive_ppb", ppb(min(*s.inactive, s.reserved), s.reserved))
			}
		}
		if s.total != nil && *s.total > 0 {
			add("utilization_events", 1)
			add("utilization_ppb", ppb(s.used, *s.total))
		}
		change := s.change
		if change < 0 {
			change = -change
		}
		switch s.kind {
		case "allocation":
			add("allocations", 1)
			add("allocation_bytes", change)
		case "deallocation":
			add("deallocations", 1)
			add("deallocation_bytes", change)
		case "warning":
			add("warnings", 1)
		case "critical", "error":
			add("criticals", 1)
		}
	}
	return sum
}

// Every event is a row and counts in its minute once: parts in any order, each twice, in chunks of any size.
func TestMemoryTelemetry(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2))
	var samples []sample
	for i := range 3000 {
		samples = append(samples, randomSample(r, i))
	}
	want := memoryOracle(samples)
	for _, rows := range []int{100, 1 << 17} {
		t.Run(fmt.Sprint(rows, " rows a chunk"), func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{})
			type piece struct{ from, to, part int }
			var pieces []piece
			for i := 0; i < len(samples); i += 250 {
				pieces = append(pieces, piece{i, i + 250, i / 250}, piece{i, i + 250, i / 250})
			}
			r.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
			for _, p := range pieces {
				var body []byte
				for i := p.from; i < p.to; i++ {
					body = append(body, samples[i].frame(t, i)...)
				}
				publish(t, s, stream.Envelope{Session: "mem:node1:77:job-9:3", Kind: stream.KindTelemetry, Source: "telemetry", Origin: "csv",
					Identity: "telemetry/content/x", Part: p.part, Events: uint64(p.to - p.from)}, body)
			}
			stop := start(t, s, aggregate.Config{ChunkRows: rows})
			waitFor(t, s, "all events", func(sum totals) bool {
				return sum["usage_data.events"] == 6000 && sum["sessions_data.samples"] == 3000
			})
			stop()
			got := readRows(t, s)
			for k, v := range want {
				near := got[k] == v
				if k == "memory_stats_data.fragmentation_ppb" || k == "memory_stats_data.inactive_ppb" || k == "memory_stats_data.utilization_ppb" {
					near = math.Abs(float64(int64(got[k]-v))) <= float64(len(samples)) // the oracle rounds as floats do
				}
				if !near {
					t.Errorf("%s = %d, want %d", k, got[k], v)
				}
			}
			for k, v := range map[string]uint64{
				"usage_data.duplicates": 3000, "usage_data.rejected": 0, "rejects_data": 0, "memory_events_data.origin=csv": 3000,
				"memory_events_data.backend=cuda":      3000,
				"memory_events_data.framework=pytorch": 3000, "memory_events_data.host=node1": 3000, "memory_events_data.job_id=job-9": 3000,
				"devices_data":                    2,
				"memory_events_data.upload_index": 3000 * 2999 / 2, "memory_events_data.legacy": 0, "kernels_data": 0,
			} {
				if got[k] != v {
					t.Errorf("%s = %d, want %d", k, got[k], v)
				}
			}
			if got["sessions_data.app=job-9"] == 0 || got["sessions_data.source=telemetry"] == 0 || got["sessions_data.host=node1"] == 0 {
				t.Error("the session's row does not say what it is")
			}
		})
	}
}

// A tenant without raw rows has its rollups all the same.
func TestMemoryTelemetryWithoutRawRows(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	one := randomSample(rand.New(rand.NewPCG(1, 1)), 0)
	publish(t, s, stream.Envelope{Session: "m", Kind: stream.KindTelemetry, Source: "telemetry", Identity: "a", Events: 1, NoRaw: true},
		one.frame(t, 0))
	start(t, s, aggregate.Config{})
	got := waitFor(t, s, "the rollup", func(sum totals) bool {
		return sum["memory_stats_data.events"] == 1 && sum["sessions_data.samples"] == 1
	})
	if got["memory_events_data"] != 0 {
		t.Errorf("%d raw rows", got["memory_events_data"])
	}
}

// Sums stop instead of turning over, peaks are exact, and a frame that was damaged is a reject beside its neighbours.
func TestMemoryTelemetryAtTheEdges(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	most := int64(math.MaxInt64)
	big := randomSample(rand.New(rand.NewPCG(1, 1)), 0)
	big.ns, big.kind, big.device = most, "allocation", 0
	big.allocated, big.reserved, big.used, big.change, big.active, big.total = most, most, most, math.MinInt64, &most, &most
	var body []byte
	for i := range 3 {
		big.ns = most - int64(i) // or they would be one event
		body = append(body, big.frame(t, i)...)
	}
	body = append(body, "7 x {}\n8 0 {\"schema_version\":2}\n"...)
	zero := randomSample(rand.New(rand.NewPCG(1, 1)), 0)
	zero.ns, zero.reserved, zero.total, zero.active = 0, 0, new(int64), nil
	zero.used = 0
	body = append(body, zero.frame(t, 9)...)
	publish(t, s, stream.Envelope{Session: "m", Kind: stream.KindTelemetry, Source: "telemetry", Identity: "a", Events: 6}, body)
	start(t, s, aggregate.Config{})
	got := waitFor(t, s, "all of it", func(sum totals) bool { return sum["sessions_data.events"] == 6 })
	for k, v := range map[string]uint64{
		"memory_events_data": 4, "rejects_data": 2, "rejects_data.reason=missing_fields": 1, "rejects_data.reason=bad_json": 1,
		"usage_data.rejected": 2, "usage_data.events": 6,
		"memory_stats_data": 2, "memory_stats_data.events": 4, "memory_stats_data.allocated_sum": uint64(most) + uint64(zero.allocated),
		"memory_stats_data.used_sum":   uint64(most),
		"memory_stats_data.active_sum": uint64(most), "memory_stats_data.used_peak": uint64(most), "memory_stats_data.allocations": 3,
		"memory_stats_data.utilization_ppb":   3e9,
		"memory_stats_data.fragmentation_ppb": 0, "memory_stats_data.utilization_events": 3, "memory_stats_data.fragmented_events": 3,
	} {
		if zero.kind == "allocation" && k == "memory_stats_data.allocations" {
			v++
		}
		if got[k] != v {
			t.Errorf("%s = %d, want %d", k, got[k], v)
		}
	}
}

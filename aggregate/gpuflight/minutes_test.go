package gpuflight

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/activity"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink/table"
)

func foldPart(f *aggregate.Fold, n int, body []byte) *aggregate.Session {
	p := &aggregate.Part{Seq: uint64(n + 1), Now: 1, Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
		Source: "gpu-flight", Identity: "w", Part: n,
		ReceivedAt: 1795175929972803352, RetentionDays: 7, RollupDays: 395}}
	s := f.Session(p)
	f.Take(p, s, body)
	return s
}

// What is held of a minute goes over to the next owner, by changes and by snapshot, and is not written twice.
func TestMinutesSurviveAHandOver(t *testing.T) {
	f, g := newTestFlight(aggregate.Config{}), newTestFlight(aggregate.Config{})
	var s *aggregate.Session
	for n := range 5 {
		s = foldPart(f, n, activityPart(n))
		f.Flush(1)
		if err := g.ApplyState(f.AppendState(nil, false)); err != nil {
			t.Fatal(err)
		}
		f.Published()
	}
	if flightOf(f, s).minutes.Count() < 6 {
		t.Fatalf("%d minutes are held", flightOf(f, s).minutes.Count())
	}
	h := newTestFlight(aggregate.Config{})
	if err := h.ApplyState(f.AppendState(nil, true)); err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]*aggregate.Fold{"changes": g, "snapshot": h} {
		got := flightOf(other, known(other, "t", "s")).minutes
		want := flightOf(f, s).minutes
		want.Published()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("by %s: %+v, want %+v", name, got, want)
		}
	}
	// Once written they are gone, for the next owner too.
	f.Touch(s)
	f.Flush(1 + int64(time.Minute))
	if n := f.Out.Batch(table.MemcpyStats.Table, s.FactPartition()).Rows(); flightOf(f, s).minutes.Count() != 0 || n == 0 {
		t.Fatalf("%d are held still, %d rows", flightOf(f, s).minutes.Count(), n)
	}
	if err := g.ApplyState(f.AppendState(nil, false)); err != nil {
		t.Fatal(err)
	}
	if n := flightOf(g, known(g, "t", "s")).minutes.Count(); n != 0 {
		t.Errorf("the next owner holds %d that are written", n)
	}
}

// More minutes than are held back go out with their chunk, whatever the session's kernels do.
func TestManyMinutesAreNotHeld(t *testing.T) {
	f := newTestFlight(aggregate.Config{})
	var s *aggregate.Session
	for n := range activity.MaxMinutes {
		s = foldPart(f, n, activityPart(3*n))
	}
	f.Flush(1)
	if flightOf(f, s).minutes.Count() != 0 {
		t.Errorf("%d minutes are held", flightOf(f, s).minutes.Count())
	}
}

// A state that the version before wrote is read on.
func TestStateOfVersionTwo(t *testing.T) {
	old, err := os.ReadFile("../testdata/state_v2.bin")
	if err != nil {
		t.Fatal(err)
	}
	f := newTestFlight(aggregate.Config{})
	if err := f.ApplyState(old); err != nil {
		t.Fatal(err)
	}
	s := known(f, "t", "s")
	if s == nil || flightOf(f, s).waiting.live != 1 || flightOf(f, s).scopes.halves.count != 3 || flightOf(f,
		s).details.GetCardinality() != 300 || len(flightOf(f, s).configs) != 40 || flightOf(f, s).kernels.Held() == 0 || s.Vendor != "NVIDIA" {
		t.Fatalf("%+v", s)
	}
	foldPart(f, 1000, activityPart(1))
	g := newTestFlight(aggregate.Config{})
	if err := g.ApplyState(f.AppendState(nil, true)); err != nil || flightOf(g, known(g, "t", "s")).minutes.Count() == 0 {
		t.Errorf("it cannot be written on: %v", err)
	}
}

// BenchmarkFoldSingles folds parts of one event a line: what a partition's owner could do alone on one core.
func BenchmarkFoldSingles(b *testing.B) {
	for name, format := range map[string]string{
		"memset": `{"type":"memset_event","pid":7570,"app":"wire_probe","session_id":"s","name":"memset","platform":"unknown","device_id":"0",` +
			`"stream_id":"7","stack_trace":"","user_scope":"train|fwd","scope_depth":0,"start_ns":%[1]d,"end_ns":%[2]d,"api_start_ns":0,` +
			`"api_exit_ns":0,"corr_id":%[3]d,"bytes":65536}`,
		"nvtx": `{"type":"nvtx_marker_event","pid":7570,"app":"wire_probe","session_id":"s","name":"torch::aten::mm@train.py:%[3]d",` +
			`"domain":"","start_ns":%[1]d,"end_ns":%[2]d,"duration_ns":2000,"marker_id":0}`,
	} {
		b.Run(name, func(b *testing.B) {
			const lines = 20000
			var body []byte
			for i := range lines {
				at := 1795175929972803352 + int64(i)*10_000
				body = append(fmt.Appendf(body, format, at, at+2000, i), '\n')
			}
			f := newTestFlight(aggregate.Config{})
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				f.Sessions = map[aggregate.SessionKey]*aggregate.Session{}
				foldPart(f, n, body)
				n++
				f.Flush(1)
				f.AppendState(nil, false)
				f.Published()
				f.Out.Reset()
				f.OutSerial++
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}

// activityPart is a part with copies, waits and samples, different for each n.
func activityPart(n int) []byte {
	var b strings.Builder
	base := 1795175929972803352 + int64(n)*20e9
	fmt.Fprintf(&b, `{"type":"memcpy_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns","stream_id",`+
		`"duration_ns","bytes","copy_kind","corr_id"],"rows":[[0,7,%d,10,1,1],[5,7,9,20,%d,2]]}`+"\n", n, base, n+1, 1+n%3)
	fmt.Fprintf(&b, `{"type":"synchronization_event_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["dt_ns",`+
		`"duration_ns","sync_type","stream_id","event_id","context_id","corr_id","function_id"],"rows":[[0,%d,3,7,0,1,3,%d]]}`+"\n", n, base,
		100+n, n%2)
	fmt.Fprintf(&b, `{"type":"pm_sample_batch","session_id":"s","batch_id":%d,"base_time_ns":%d,"columns":["sample_index","dt_ns",`+
		`"device_id","metric_id","value","scope_name_id"],"rows":[[0,0,0,3,%d.25,2],[1,5,1,19,1e-3,0]]}`+"\n", n, base, n)
	return []byte(b.String())
}

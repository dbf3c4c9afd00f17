package gpuflight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
)

// Scopes by path: nested ones of one name, ends before their begins, one path twice in time, and what has no other half.
func TestOlderScopesPairByPath(t *testing.T) {
	for name, c := range map[string]struct {
		lines        []string // "b path at" or "e path at"
		calls, total uint64
		begins, ends uint64
	}{
		"one name nested":     {[]string{"b a 0", "b a|a 10", "e a|a 15", "e a 100"}, 2, 105, 0, 0},
		"end first":           {[]string{"e a 100", "b a 0"}, 1, 100, 0, 0},
		"again and again":     {[]string{"b a 0", "e a 5", "b a 10", "e a 16", "b a 20", "e a 27"}, 3, 18, 0, 0},
		"overlapping":         {[]string{"b a 0", "b a 10", "e a 20", "e a 30"}, 2, 40, 0, 0},
		"all ends first":      {[]string{"e a 27", "e a 5", "e a 16", "b a 20", "b a 0", "b a 10"}, 3, 18, 0, 0},
		"an end of the past":  {[]string{"e a 5", "b a 10", "e a 12"}, 1, 2, 0, 1},
		"never ended":         {[]string{"b a 0", "b a|b 1", "e a|b 2"}, 1, 1, 1, 0},
		"begins out of order": {[]string{"b a 10", "b a 0", "e a 5", "e a 12"}, 2, 7, 0, 0},
		"same time":           {[]string{"b a 0", "e a 0"}, 1, 0, 0, 0},
	} {
		for _, handOver := range []int{-1, 1, 2} { // a new owner goes on from the state after so many lines
			f := newTestFlight(aggregate.Config{})
			for i, l := range c.lines {
				var kind, path string
				var at int64
				fmt.Sscan(l, &kind, &path, &at)
				kind = map[string]string{"b": "scope_begin", "e": "scope_end"}[kind]
				foldFlight(f, i, fmt.Sprintf(`{"type":"%s","session_id":"s","name":"%s","ts_ns":%d,"user_scope":"%s","scope_depth":%d}`, kind,
					path[strings.LastIndexByte(path, '|')+1:], flightEpoch+at, path, strings.Count(path, "|")))
				if i+1 == handOver {
					stats := flightOf(f, known(f, "t", "s")).scopeAcc // rows of a chunk that is out
					state := f.AppendState(nil, true)
					f = newTestFlight(aggregate.Config{})
					if err := f.ApplyState(state); err != nil {
						t.Fatal(err)
					}
					flightOf(f, known(f, "t", "s")).scopeAcc = stats
				}
			}
			s := known(f, "t", "s")
			flightOf(f, s).f.closeScopes(flightOf(f, s))
			var calls, total, begins, ends uint64
			for _, a := range flightOf(f, s).scopeAcc {
				calls, total, begins, ends = calls+a.calls, total+a.total, begins+a.unmatchedBegin, ends+a.unmatchedEnd
			}
			if calls != c.calls || total != c.total || begins != c.begins || ends != c.ends {
				t.Errorf("%s (hand-over %d): %d pairs of %d ns, %d begins and %d ends alone; want %d of %d, %d and %d", name, handOver, calls, total,
					begins, ends, c.calls, c.total, c.begins, c.ends)
			}
		}
	}
}

// Batches of the old activity interface have a number for a reason and no name: it gets the name that clients wrote before.
func TestLegacyStallsOfBatches(t *testing.T) {
	f := newTestFlight(aggregate.Config{})
	foldFlight(f, 1, fmt.Sprintf(`{"version":1,"type":"profile_sample_batch","session_id":"s","batch_id":1,"base_time_ns":%d,`+
		`"columns":["dt_ns","corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind",`+
		`"scope_name_id"],"rows":[[0,0,0,1,16,0,7,4,0,0],[0,0,0,1,16,0,2,4,0,0],[0,0,0,1,16,9,2,4,0,0],[0,0,0,1,16,0,2,0,0,0],[0,0,0,1,16,0,`+
		`2,4,1,0]]}`, flightEpoch),
		fmt.Sprintf(`{"type":"profile_sample","session_id":"s","ts_ns":%d,"device_id":0,"pc_offset":16,"stall_reason":4,"sample_count":3}`,
			flightEpoch))
	s := known(f, "t", "s")
	got := map[string]uint64{}
	for key, a := range flightOf(f, s).profile.Accs {
		got[fmt.Sprint(key.Kind, " ", s.Name(gpuflight.MetricDict, key.Metric), " ", key.Metric == 9)] += a.Value
	}
	if want := "map[0  false:2 0  true:2 0 MEM_DEPENDENCY false:12 1  false:2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Older lines are folded without reflection, maps of strings or garbage: 100 k/s and more on one core.
func BenchmarkOlderKernelEvents(b *testing.B) {
	f := newTestFlight(aggregate.Config{})
	var bodies [64]string // a line that comes again is none
	for n := range bodies {
		var body strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&body, `{"type":"kernel_event","pid":1,"app":"a","session_id":"s","name":"void kernel_number_%d<float, 4, 256>(float `+
				`const*, float*, int)","platform":"CUDA","has_details":true,"device_id":0,"stream_id":7,"start_ns":%d,"end_ns":%d,"grid":"(64,1,1)",`+
				`"block":"(256,1,1)","dyn_shared_bytes":0,"num_regs":32,"static_shared_bytes":8192,"occupancy":0.75,`+
				`"limiting_resource":"REGISTERS","max_active_blocks":4,"corr_id":%d,"user_scope":"train|fwd","stack_trace":""}`+"\n",
				i%50, flightEpoch+int64(1000*n+i), flightEpoch+int64(1000*n+2*i), 1000*n+i)
		}
		bodies[n] = body.String()
	}
	b.SetBytes(int64(len(bodies[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		foldFlight(f, i, bodies[i%len(bodies)])
		if i%len(bodies) == len(bodies)-1 {
			f.Out.Reset()
			f.OutSerial++
			f.Published()
			for _, s := range f.Sessions {
				flightOf(f, s).singles = state.Recent{Limit: maxSingles}
			}
		}
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "kernels/s")
}

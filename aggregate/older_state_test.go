package aggregate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/rows"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

const testEpoch = int64(1795175929972803352)

// foldLines folds lines of session s of tenant t, one part a call.
func foldLines(f *Fold, seq int, lines ...string) {
	p := &Part{Seq: uint64(seq), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Part: seq,
		ReceivedAt: testEpoch, RetentionDays: 7, RollupDays: 395}}
	f.Take(p, f.Session(p), []byte(strings.Join(lines, "\n")+"\n"))
}

func newTestFolder() *Fold {
	cfg := testConfig()
	return newFolder(&cfg, newCounters(nil))
}

// An id of our own follows from the text; a text that meets another's id gets the next one, and a session that has all the names it
// may have gets no more.
func TestTextsBecomeNames(t *testing.T) {
	f := newTestFolder()
	line := func(name string, corr int) string {
		return fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"%s","start_ns":%d,"end_ns":%d,"corr_id":%d}`, name, testEpoch, testEpoch+int64(corr), corr)
	}
	hash := ownNames | uint32(xxh3.HashString("gemm"))
	foldLines(f, 1, fmt.Sprintf(`{"type":"dictionary_update","session_id":"s","kernel_dict":{"%d":"squatter"}}`, hash), line("gemm", 1), line("gemm", 2), line("relu", 3))
	s := f.sessions[sessionKey{"t", "s"}]
	id := ownNames | (hash + 1)
	if s.dicts[gpuflight.KernelDict][id] != "gemm" || s.dicts[gpuflight.KernelDict][hash] != "squatter" || s.names != 3 {
		t.Fatalf("%d names: %v", s.names, s.dicts[gpuflight.KernelDict])
	}
	if a := flightOf(s).kernels.sparse[id]; a == nil || a.accs[0].calls != 2 || a.accs[0].total != 3 {
		t.Errorf("accumulated %+v", a)
	}
	if len(f.names) != 1 || len(f.names[0].entries) != 3 {
		t.Errorf("to be stored: %+v", f.names)
	}
	before := f.usage
	for i := range maxProbes + 1 { // who fills the places behind a hash gets a reject, not an endless search
		s.dicts[gpuflight.KernelDict][ownNames|(hash+uint32(i))] = "squatter"
	}
	foldLines(f, 2, line("gemm", 4))
	delete(s.dicts[gpuflight.KernelDict], id)
	s.names = maxNames
	foldLines(f, 3, line("new", 5), line("relu", 6))
	for _, u := range before {
		if u.rejected != 2 || u.Stored != 5 {
			t.Errorf("%d rejected, %d stored; want 2 and 5", u.rejected, u.Stored)
		}
	}
}

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
			f := newTestFolder()
			for i, l := range c.lines {
				var kind, path string
				var at int64
				fmt.Sscan(l, &kind, &path, &at)
				kind = map[string]string{"b": "scope_begin", "e": "scope_end"}[kind]
				foldLines(f, i, fmt.Sprintf(`{"type":"%s","session_id":"s","name":"%s","ts_ns":%d,"user_scope":"%s","scope_depth":%d}`, kind, path[strings.LastIndexByte(path, '|')+1:], testEpoch+at, path, strings.Count(path, "|")))
				if i+1 == handOver {
					stats := flightOf(f.sessions[sessionKey{"t", "s"}]).scopeAcc // rows of a chunk that is out
					state := f.AppendState(nil, true)
					f = newTestFolder()
					if err := f.ApplyState(state); err != nil {
						t.Fatal(err)
					}
					flightOf(f.sessions[sessionKey{"t", "s"}]).scopeAcc = stats
				}
			}
			s := f.sessions[sessionKey{"t", "s"}]
			f.flight().closeScopes(flightOf(s))
			var calls, total, begins, ends uint64
			for _, a := range flightOf(s).scopeAcc {
				calls, total, begins, ends = calls+a.calls, total+a.total, begins+a.unmatchedBegin, ends+a.unmatchedEnd
			}
			if calls != c.calls || total != c.total || begins != c.begins || ends != c.ends {
				t.Errorf("%s (hand-over %d): %d pairs of %d ns, %d begins and %d ends alone; want %d of %d, %d and %d", name, handOver, calls, total, begins, ends, c.calls, c.total, c.begins, c.ends)
			}
		}
	}
}

// The offset of a clock is part of the state.
func TestClockSurvivesAHandOver(t *testing.T) {
	f := newTestFolder()
	foldLines(f, 1, fmt.Sprintf(`{"type":"init","session_id":"s","ts_ns":%d,"system_rate_ms":250,"devices":[{"id":0,"vendor":"amd"}]}`, testEpoch))
	key := sessionKey{"t", "s"}
	s := f.sessions[key]
	old := f.AppendState(nil, true)
	old[0] = state.Version + 1
	if err := newTestFolder().ApplyState(old); err == nil {
		t.Error("a version to come is read")
	}

	kernel := func(at int64) string {
		return fmt.Sprintf(`{"type":"kernel_event","session_id":"s","name":"k","start_ns":%d,"end_ns":%d}`, at, at+1)
	}
	foldLines(f, 2, kernel(0), kernel(5000), kernel(9000)) // no time decides nothing
	if s.clock != (clock{offset: testEpoch - 5000, sampleMS: 250}) {
		t.Fatalf("%+v", s.clock)
	}
	for _, full := range []bool{true, false} {
		g := newTestFolder()
		if err := g.ApplyState(f.AppendState(nil, full)); err != nil || g.sessions[key].clock != s.clock {
			t.Errorf("full %v: %v, %+v", full, err, g.sessions[key].clock)
		}
	}
	if a := flightOf(s).kernels.sparse[ownNames|uint32(xxh3.HashString("k"))]; len(a.accs) != 1 || a.accs[0].bucket != rows.BucketOf(testEpoch) || a.accs[0].calls != 3 {
		t.Errorf("the kernels are not in the minute of their receipt: %+v", a)
	}
}

// Batches of the old activity interface have a number for a reason and no name: it gets the name that clients wrote before.
func TestLegacyStallsOfBatches(t *testing.T) {
	f := newTestFolder()
	foldLines(f, 1, fmt.Sprintf(`{"version":1,"type":"profile_sample_batch","session_id":"s","batch_id":1,"base_time_ns":%d,"columns":["dt_ns","corr_id","device_id","function_id","pc_offset","metric_id","metric_value","stall_reason","sample_kind","scope_name_id"],"rows":[[0,0,0,1,16,0,7,4,0,0],[0,0,0,1,16,0,2,4,0,0],[0,0,0,1,16,9,2,4,0,0],[0,0,0,1,16,0,2,0,0,0],[0,0,0,1,16,0,2,4,1,0]]}`, testEpoch),
		fmt.Sprintf(`{"type":"profile_sample","session_id":"s","ts_ns":%d,"device_id":0,"pc_offset":16,"stall_reason":4,"sample_count":3}`, testEpoch))
	s := f.sessions[sessionKey{"t", "s"}]
	got := map[string]uint64{}
	for key, a := range flightOf(s).profile.accs {
		got[fmt.Sprint(key.kind, " ", s.dicts[gpuflight.MetricDict][key.metric], " ", key.metric == 9)] += a.value
	}
	if want := "map[0  false:2 0  true:2 0 MEM_DEPENDENCY false:12 1  false:2]"; fmt.Sprint(got) != want {
		t.Errorf("%v, want %s", got, want)
	}
}

// Older lines are folded without reflection, maps of strings or garbage: 100 k/s and more on one core.
func BenchmarkOlderKernelEvents(b *testing.B) {
	f := newTestFolder()
	var bodies [64]string // a line that comes again is none
	for n := range bodies {
		var body strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&body, `{"type":"kernel_event","pid":1,"app":"a","session_id":"s","name":"void kernel_number_%d<float, 4, 256>(float const*, float*, int)","platform":"CUDA","has_details":true,"device_id":0,"stream_id":7,"start_ns":%d,"end_ns":%d,"grid":"(64,1,1)","block":"(256,1,1)","dyn_shared_bytes":0,"num_regs":32,"static_shared_bytes":8192,"occupancy":0.75,"limiting_resource":"REGISTERS","max_active_blocks":4,"corr_id":%d,"user_scope":"train|fwd","stack_trace":""}`+"\n",
				i%50, testEpoch+int64(1000*n+i), testEpoch+int64(1000*n+2*i), 1000*n+i)
		}
		bodies[n] = body.String()
	}
	b.SetBytes(int64(len(bodies[0])))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		foldLines(f, i, bodies[i%len(bodies)])
		if i%len(bodies) == len(bodies)-1 {
			f.Out.Reset()
			f.OutSerial++
			f.Published()
			for _, s := range f.sessions {
				flightOf(s).singles = state.Recent{Limit: maxSingles}
			}
		}
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "kernels/s")
}

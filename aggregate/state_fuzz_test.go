package aggregate

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/stream"
)

// stateOf folds a few parts and returns the change and the snapshot that they make.
func stateOf(tb testing.TB) (change, snapshot []byte) {
	cfg := testConfig()
	f := newFold(&cfg, newCounters(nil))
	parts, _ := kernelParts(300, 100, true)
	parts = append(parts, []byte(`{"type":"job_start","session_id":"s","pid":1,"app":"a","ts_ns":1795175929972803352,"devices":[{"id":0,`+
		`"vendor":"NVIDIA"}]}
{"version":3,"type":"scope_event_batch","session_id":"s","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
		`"scope_instance_id","name_id","event_type","depth"],"rows":[[0,1,1,0,0],[5,2,2,0,1],[9,7,2,1,1]]}
{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":9999,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
		`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,7777,7,5,999999,0,32,1]]}
`), minutesPart(1), minutesPart(4))
	for i, body := range parts {
		p := &Part{Seq: uint64(i + 1), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight,
			Source: "gpu-flight", Identity: "w", Part: i,
			ReceivedAt: time.Now().UnixNano(), RetentionDays: 7, RollupDays: 395}}
		f.Take(p, f.Session(p), body)
	}
	return f.AppendState(nil, false), f.AppendState(nil, true)
}

// A successor that reads a state writes the same state: nothing that decides later rows is lost on the way.
func TestStateSurvivesAHandOver(t *testing.T) {
	_, snapshot := stateOf(t)
	cfg := testConfig()
	f := newFold(&cfg, newCounters(nil))
	if err := f.ApplyState(snapshot); err != nil {
		t.Fatal(err)
	}
	again := f.AppendState(nil, true)
	g := newFold(&cfg, newCounters(nil))
	if err := g.ApplyState(again); err != nil {
		t.Fatal(err)
	}
	a, b := f.Sessions[SessionKey{"t", "s"}], g.Sessions[SessionKey{"t", "s"}]
	if a == nil || b == nil {
		t.Fatal("the session is gone")
	}
	if load := a.load(); len(again) != len(snapshot) || !load.Waits || !load.Unsaid || load.Rollups == 0 {
		t.Errorf("snapshot of %d bytes came back as %d: %+v", len(snapshot), len(again), load)
	}
	if a.load() != b.load() || a.Vendor != "NVIDIA" || b.Vendor != a.Vendor {
		t.Error("the second hand-over lost what the first had")
	}
}

// Damaged state is an error, and never costs more memory than it has bytes.
func FuzzApplyState(f *testing.F) {
	change, snapshot := stateOf(f)
	if old, err := os.ReadFile("testdata/state_v2.bin"); err == nil {
		f.Add(old)
	}
	f.Add(change)
	f.Add(snapshot)
	g := newFolding()
	g.take("a", "gone", noon)
	g.f.Erase(stream.Deletion{ID: "1", Tenant: "a", At: noon.UnixNano()})
	f.Add(g.f.AppendState(nil, false))
	f.Add(g.f.AppendState(nil, true))
	f.Fuzz(func(t *testing.T, state []byte) {
		cfg := testConfig()
		newFold(&cfg, newCounters(nil)).ApplyState(state)
	})
}

func FuzzDecodeNames(f *testing.F) {
	b := nameEntries{entries: []nameEntry{{NameRef{0, 1}, "one"}, {NameRef{3, 7}, "seven"}}}
	for _, v := range b.encode(&state.Writer{}) {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) { decodeNames(value, func(NameRef, string) {}) })
}

// minutesPart is a part with copies, waits and samples, different for each n.
func minutesPart(n int) []byte {
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

package aggregate

import (
	"os"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// stateOf folds a few parts and returns the change and the snapshot that they make.
func stateOf(tb testing.TB) (change, snapshot []byte) {
	cfg := testConfig()
	f := newFolder(&cfg, newCounters(nil))
	parts, _ := kernelParts(300, 100, true)
	parts = append(parts, []byte(`{"type":"job_start","session_id":"s","pid":1,"app":"a","ts_ns":1795175929972803352,"devices":[{"id":0,"vendor":"NVIDIA"}]}
{"version":3,"type":"scope_event_batch","session_id":"s","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns","scope_instance_id","name_id","event_type","depth"],"rows":[[0,1,1,0,0],[5,2,2,0,1],[9,7,2,1,1]]}
{"version":1,"type":"kernel_event_batch","session_id":"s","batch_id":9999,"base_time_ns":1795175929972803352,"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,7777,7,5,999999,0,32,1]]}
`), activityPart(1), activityPart(4))
	for i, body := range parts {
		p := &Part{Seq: uint64(i + 1), Now: time.Now().UnixNano(), Env: stream.Envelope{Tenant: "t", Session: "s", Kind: stream.KindGPUFlight, Source: "gpu-flight", Identity: "w", Part: i,
			ReceivedAt: time.Now().UnixNano(), RetentionDays: 7, RollupDays: 395}}
		f.Take(p, f.Session(p), body)
	}
	return f.AppendState(nil, false), f.AppendState(nil, true)
}

// A successor that reads a state writes the same state: nothing that decides later rows is lost on the way.
func TestStateSurvivesAHandOver(t *testing.T) {
	_, snapshot := stateOf(t)
	cfg := testConfig()
	f := newFolder(&cfg, newCounters(nil))
	if err := f.ApplyState(snapshot); err != nil {
		t.Fatal(err)
	}
	again := f.AppendState(nil, true)
	g := newFolder(&cfg, newCounters(nil))
	if err := g.ApplyState(again); err != nil {
		t.Fatal(err)
	}
	a, b := f.sessions[sessionKey{"t", "s"}], g.sessions[sessionKey{"t", "s"}]
	if a == nil || b == nil {
		t.Fatal("the session is gone")
	}
	if len(again) != len(snapshot) || flightOf(a).waiting.live != 1 || flightOf(a).scopes.halves.count != 3 || flightOf(a).details.GetCardinality() != 300 || len(flightOf(a).configs) != 40 || len(flightOf(a).kernels.dirty) == 0 {
		t.Errorf("snapshot of %d bytes came back as %d: %d waiting, %d scopes, %d details, %d configs, %d held", len(snapshot), len(again), flightOf(a).waiting.live, flightOf(a).scopes.halves.count, flightOf(a).details.GetCardinality(), len(flightOf(a).configs), len(flightOf(a).kernels.dirty))
	}
	if flightOf(a).waiting.live != flightOf(b).waiting.live || flightOf(a).scopes.halves.count != flightOf(b).scopes.halves.count || !flightOf(a).details.Equals(flightOf(b).details) || len(flightOf(a).kernels.dirty) != len(flightOf(b).kernels.dirty) || a.Vendor != "NVIDIA" || b.Vendor != a.Vendor {
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
	g.f.erase(stream.Deletion{ID: "1", Tenant: "a", At: noon.UnixNano()})
	f.Add(g.f.AppendState(nil, false))
	f.Add(g.f.AppendState(nil, true))
	f.Fuzz(func(t *testing.T, state []byte) {
		cfg := testConfig()
		newFolder(&cfg, newCounters(nil)).ApplyState(state)
	})
}

func FuzzDecodeNames(f *testing.F) {
	b := nameBlock{entries: []nameEntry{{nameRef{0, 1}, "one"}, {nameRef{3, 7}, "seven"}}}
	for _, v := range b.encode() {
		f.Add(v)
	}
	f.Fuzz(func(t *testing.T, value []byte) { decodeNames(value, func(nameRef, string) {}) })
}

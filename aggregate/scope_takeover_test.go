package aggregate_test

import (
	"testing"
	"time"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A successor counts the children of scopes that ended before it came, once, and knows their names though the session is silent.
func TestScopesAreCountedAfterATakeover(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 1})
	var now clock
	cfg := aggregate.Config{RawWait: 300 * time.Millisecond, DetailWait: time.Minute, SnapshotChunks: 2}.WithClock(now.at)
	stop := start(t, s, cfg)
	publish(t, s, stream.Envelope{Session: "x", Identity: "a"},
		[]byte(`{"version":1,"type":"dictionary_update","session_id":"x","scope_name_dict":{"1":"outer","2":"inner"}}
{"version":3,"type":"scope_event_batch","session_id":"x","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
			`"scope_instance_id","name_id","event_type","depth","repeat","warmup","original_start_ns"],"rows":[[0,1,1,0,0,0,0,`+
			`1795175929972803352],[10,2,2,0,1,0,0,1795175929972803362],[40,2,2,1,1,0,0,1795175929972803362],[90,1,1,1,0,0,0,1795175929972803352],`+
			`[95,3,1,0,0,0,0,1795175929972803447]]}
`))
	waitFor(t, s, "both scopes", func(sum totals) bool { return sum["scope_stats_data.calls"] == 2 })
	stop()
	if n := readRows(t, s)["scope_stats_data.child_ns"]; n != 0 {
		t.Fatalf("the first owner has counted children of %d ns", n)
	}
	stop = start(t, s, cfg)
	now.forward(t, 0) // it has taken over
	now.forward(t, 2*cfg.DetailWait)
	now.forward(t, 10*time.Second) // rollups are held back for a while
	sum := waitFor(t, s, "the child", func(sum totals) bool { return sum["scope_stats_data.child_ns"] > 0 })
	if sum["scope_stats_data.child_ns"] != 30 || sum["scope_stats_data.calls"] != 2 || sum["scope_stats_data.scope="] != 0 ||
		sum["scope_stats_data.scope=outer"] != 2 {
		t.Errorf("children took %d, want 30, in %d rows without and %d with the name", sum["scope_stats_data.child_ns"],
			sum["scope_stats_data.scope="], sum["scope_stats_data.scope=outer"])
	}
	now.forward(t, 5*cfg.DetailWait)
	stop()
	if sum := readRows(t, s); sum["scope_stats_data.child_ns"] != 30 {
		t.Errorf("children were counted again: %d", sum["scope_stats_data.child_ns"])
	}
}

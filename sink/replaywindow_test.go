package sink_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// Where ROWS has no room for the replay window, what is inserted goes, and that is told: by the gauge and by the audit, which is not wrong.
func TestFullRowsCutTheReplayWindow(t *testing.T) {
	w := shared(t)
	publish := func() {
		var seq [2]uint64
		for i := range 10 {
			for p := range 2 {
				if i == 6 {
					w.snapshot[p] = seq[p]
				}
				seq[p] = w.publish(p, 200)
			}
		}
	}
	publish()
	info, err := w.s.Rows.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := func(max uint64) {
		t.Helper()
		cfg := info.Config
		cfg.MaxBytes = int64(max)
		if _, err := w.s.JS.UpdateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
	}
	full := info.State.Bytes
	rows(100 * full)
	reg := prometheus.NewRegistry()
	w.run(w.sink(func(c *sink.Config) { c.ReplayWindow, c.Registerer = time.Hour, reg }))
	w.settled(3 * time.Minute)
	window := func() float64 {
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range all {
			if f.GetName() == "warpline_sink_replay_window_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return -1
	}
	audit := func() sink.Report {
		c := w.conn()
		defer c.Close()
		r, err := sink.Audit(t.Context(), w.s, c, tabletest.Schema())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if got, r := window(), audit(); got != 3600 || len(r.Windows) != 0 {
		t.Errorf("with room: %v s, %+v", got, r.Windows)
	}
	rows(3 * full) // of which a quarter is for the window
	publish()
	for deadline := time.Now().Add(time.Minute); window() > 120; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the window is %v s although ROWS has no room", window())
		}
		w.publish(0, 1) // a lane looks at ROWS after a span
	}
	w.settled(3 * time.Minute)
	r := audit()
	if len(r.Windows) != 1 || r.Windows[0].Stream != stream.RowsStream || !r.Windows[0].Short || r.Windows[0].Promised != 3600 ||
		r.Windows[0].Seconds > 120 || !strings.Contains(r.Windows[0].Fix, "--rows-max") {
		t.Errorf("%+v", r.Windows)
	}
	if !r.OK() {
		t.Errorf("nothing is missing, and the audit says: %v", r.Problems())
	}
}

package broker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A replay window is as long as was promised until it is cut; then it grows again. The next owner knows of the cut, and so does who asks.
func TestReplayWindow(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	ctx, now := t.Context(), time.Now()
	reg := prometheus.NewRegistry()
	w := broker.NewWindows(s.Marks, stream.IngestStream, time.Hour, "worker", reg)
	for part := range 3 {
		if err := w.Own(ctx, part); err != nil {
			t.Fatal(err)
		}
	}
	is := func(what string, w *broker.Windows, at time.Time, want time.Duration) {
		t.Helper()
		if got := w.Shortest(at); got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	is("nothing was cut", w, now, time.Hour)
	if all, err := broker.ReadWindows(ctx, s.Marks); err != nil || len(all) > 0 {
		t.Errorf("nothing was cut: %v, %v", all, err)
	}
	for i, part := range []int{1, 2, 2, 1} { // the last one is too near to the one before to be stored
		if err := w.Cut(ctx, part, now.Add(time.Duration(i)*4*time.Second-time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	is("cut 48 s ago", w, now, 48*time.Second)
	is("half an hour later", w, now.Add(30*time.Minute), 30*time.Minute+48*time.Second)
	is("two hours later", w, now.Add(2*time.Hour), time.Hour)
	all, err := broker.ReadWindows(ctx, s.Marks)
	if err != nil || len(all) != 1 || all[0].Stream != stream.IngestStream || !all[0].Short(now) || all[0].Promised() != time.Hour {
		t.Fatalf("%+v, %v", all, err)
	}
	if got := all[0].Length(now); got < 48*time.Second || got > 48*time.Second+10*time.Second {
		t.Errorf("stored: %v, want 48 s, or 10 s more", got)
	}
	if found, fix := all[0].Words(now); !strings.Contains(found, "not in the last 1h0m0s") || !strings.Contains(fix, "--ingest-max") {
		t.Errorf("%q, %q", found, fix)
	}
	if _, fix := all[0].Words(now.Add(2 * time.Hour)); fix != "" || all[0].Short(now.Add(2*time.Hour)) {
		t.Errorf("two hours later: %q", fix)
	}

	next := broker.NewWindows(s.Marks, stream.IngestStream, time.Hour, "worker", nil)
	if err := next.Own(ctx, 2); err != nil {
		t.Fatal(err)
	}
	is("the next owner of a partition that was cut", next, now, time.Minute-4*time.Second)
	next.Leave(2)
	is("once it is another's", next, now, time.Hour)
	w.Leave(1)
	is("of the other that was cut", w, now, 52*time.Second)

	if _, err := s.Marks.Put(ctx, "window.INGEST.7", []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	if err := next.Own(ctx, 7); err == nil {
		t.Error("a record that cannot be read is not told")
	}
	is("of a record that cannot be read", next, now, time.Hour)
	if all, err := broker.ReadWindows(ctx, s.Marks); err != nil || len(all) != 1 {
		t.Errorf("beside a record that cannot be read: %+v, %v", all, err)
	}
	none := broker.NewWindows(s.Marks, stream.RowsStream, 0, "sink", nil)
	if err := none.Cut(ctx, 0, now); err != nil {
		t.Fatal(err)
	}
	is("nothing is promised", none, now, 0)
	if all, _ := broker.ReadWindows(ctx, s.Marks); len(all) != 1 {
		t.Errorf("nothing is promised, and a cut is told: %+v", all)
	}
}

package sink

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/sink/table"
)

// The line that an operator reads names the error of what it tells, however many lanes have other troubles.
func TestStatusTellsTheErrorThatGoesWithIt(t *testing.T) {
	full := &clickhouse.Exception{Code: 243, Message: "the disk is full"}
	for range 20 { // the lanes are in a map
		h := &health{log: slog.New(slog.DiscardHandler)}
		h.failed(0, "insert", &clickhouse.Exception{Code: 252, Message: "too many parts"})
		h.failed(1, "insert", full)
		h.failed(2, "insert", &clickhouse.Exception{Code: 241, Message: "no memory"})
		var s Status
		if h.snapshot(&s); s.Blocked.IsZero() || !strings.Contains(s.Err, "the disk is full") {
			t.Fatalf("blocked since %v: %s", s.Blocked, s.Err)
		}
		h.failed(3, "insert", io.EOF)
		s = Status{}
		if h.snapshot(&s); s.Unreachable.IsZero() || !strings.Contains(s.Err, "EOF") {
			t.Fatalf("unreachable since %v: %s", s.Unreachable, s.Err)
		}
	}
}

// Whoever reads that a lane stands still reads what to do: in the hint, or in the error itself.
func TestEveryRefusalSaysWhatToDo(t *testing.T) {
	for code := range refusals {
		err := fmt.Errorf("insert into kernels: %w", &clickhouse.Exception{Code: code})
		if reasonOf(err) != reasonRefused || hint(err) == "" {
			t.Errorf("code %d is %s with hint %q", code, reasonOf(err), hint(err))
		}
	}
	if h := hint(&clickhouse.Exception{Code: 516}); !strings.Contains(h, "PASSWORD") || strings.Contains(h, "schema") {
		t.Errorf("a wrong password: %s", h)
	}
	for _, err := range []error{errStuck, errLost, errChunk} {
		if reasonOf(fmt.Errorf("a lane: %w", err)) != reasonRefused {
			t.Errorf("%v is %s", err, reasonOf(err))
		}
	}
	if hint(errors.Join(errLost)) != "" || hint(errChunk) == "" {
		t.Error("an unreadable chunk needs a hint, a lost one has it in its error")
	}
}

// A sink that may not make its tables runs no lane, and must still be seen to need a person; so must a stream that fills.
func TestMetricsOfASinkWithoutLanes(t *testing.T) {
	reg := prometheus.NewRegistry()
	schema, err := table.NewSchema()
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(&broker.Streams{Lanes: 2}, Config{Schema: schema, HTTPAddr: "127.0.0.1:1", NativeAddr: "127.0.0.1:1", Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	k.health.failed(schemaLane, "make the schema", &clickhouse.Exception{Code: 516})
	k.rows = [2]int64{3, 4}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			got[name] = m.GetGauge().GetValue()
		}
	}
	for name, want := range map[string]float64{"warpline_sink_blocked schema": 1, "warpline_sink_rows_stream_bytes": 3,
		"warpline_sink_rows_stream_max_bytes": 4} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

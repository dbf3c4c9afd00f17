package cost_test

import (
	"math"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/cost"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// The bill follows from the bytes at rest, the books, the load and the prices, and from nothing else.
func TestReckon(t *testing.T) {
	s := tabletest.New(t, true)
	q := cost.Question{EventsPerSecond: 50_000, CPUMicros: 2, Busy: 0.5, RawDays: 7, RollupDay: 395,
		Prices: cost.Prices{GBMonth: 0.1, CoreHour: 0.05}}
	if b, err := cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q); err == nil {
		t.Errorf("of an empty service: %+v", b)
	}
	s.SeedAll()
	s.Exec("INSERT INTO {db}.usage_data (tenant, day, source, events, rejected, received_day, retention_days) VALUES " +
		"('acme', today() - 1, 'x', 864000, 0, today(), 30), ('globex', today() - 1, 'x', 950400, 86400, today(), 30), " +
		"('acme', today() - 3, 'x', 864000, 0, today(), 30)")
	b, err := cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q)
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	if b.RawBytes == 0 || b.RollupBytes == 0 || b.RawEvents < 2_500_000 || b.Load != 50_000 {
		t.Errorf("%+v", b)
	}
	near("raw bytes of an event", b.RawBytesPerEvent, float64(b.RawBytes)/float64(b.RawEvents))
	ofEvent := 7*float64(b.RawBytes)/float64(b.RawEvents) + 395*float64(b.RollupBytes)/float64(b.AllEvents)
	near("disk", b.USDStorage, 0.1*50_000*86400*ofEvent/1e9)
	near("cores", b.Cores, 0.2)
	near("CPU", b.USDCPU, 0.2*730*0.05)
	near("together", b.USDMonth, b.USDStorage+b.USDCPU)

	dear := q
	dear.Prices.GBMonth = 1e308
	if b, err := cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, dear); err == nil {
		t.Errorf("a month without end: %+v", b)
	}

	q.Tenant, q.EventsPerSecond = "acme", 0
	if b, err = cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q); err != nil || b.Load != 10 || b.Days != 2 {
		t.Errorf("of one tenant: %+v, %v; want 10 events/s in 2 days", b, err)
	}
	if b.OwnBytes {
		t.Errorf("nothing was measured: %+v", b)
	}
	s.Exec("INSERT INTO {db}.stored_data (tenant, measurement, day, source, raw_bytes, rollup_bytes) VALUES ('acme', " +
		"toUnixTimestamp(now()) * 1000000000, today() - 1, 'x', 3456000, 864000), ('acme', 7, today() - 9, 'x', 1000000000, 0), " +
		"('globex', toUnixTimestamp(now()) * 1000000000, today() - 1, 'x', 1000000000, 1000000000)")
	if b, err = cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q); err != nil || !b.OwnBytes {
		t.Fatalf("of one tenant, measured: %+v, %v", b, err)
	}
	near("its raw bytes of an event", b.RawBytesPerEvent, 2)
	near("its other bytes of an event", b.RollupBytesPerEvent, 0.5)
	s.Exec("RENAME TABLE {db}.stored_data TO {db}.hidden, {db}.usage TO {db}.hidden_usage")
	s.Exec("CREATE VIEW {db}.usage AS SELECT * FROM {db}.usage_data")
	if b, err = cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q); err != nil || b.OwnBytes {
		t.Errorf("with the tables of an older sink: %+v, %v", b, err)
	}
	q.Tenant = "nobody"
	if b, err = cost.Reckon(t.Context(), s.Conn, s.Opts.Database, s.Schema, q); err == nil {
		t.Errorf("of nobody: %+v", b)
	}
}

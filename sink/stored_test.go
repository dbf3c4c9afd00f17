package sink_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/sink"
	"github.com/warpline/warpline/sink/table"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// number asks for one number.
func (w *world) number(sql string) float64 {
	w.t.Helper()
	c := w.conn()
	defer c.Close()
	var n float64
	if err := c.QueryRow(context.Background(), "SELECT toFloat64(("+sql+"))").Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// partsOfTenants is what the data parts of tables take that have tenants.
func (w *world) partsOfTenants() float64 {
	w.t.Helper()
	var names []string
	for _, t := range tabletest.Schema().Tables() {
		if t.Retention != table.Static {
			names = append(names, table.Quote(t.Name))
		}
	}
	return w.number("SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = " + table.Quote(w.db) + " AND table IN (" +
		strings.Join(names, ", ") + ")")
}

// twoTenants gives a world rows of two tenants in the same data parts: of acme from a chunk, of globex twice as many kernels, of both
// rejects, those of globex with long payloads, and of globex books of two sources.
func (w *world) twoTenants() {
	w.t.Helper()
	w.publish(0, 4000)
	w.settled(3 * time.Minute)
	w.exec("INSERT INTO kernels_data SELECT * REPLACE ('globex' AS tenant) FROM kernels_data UNION " +
		"ALL SELECT * REPLACE ('globex' AS tenant, corr_id + 100000 AS corr_id) FROM kernels_data")
	w.exec("INSERT INTO rejects_data (tenant, session_id, at, payload, received_at, retention_days) SELECT if(number % 2, 'globex', " +
		"'acme'), 's', now64(9), if(number % 2, randomPrintableASCII(20000), 'x'), now64(9), 7 FROM numbers(200)")
	w.exec("INSERT INTO usage_data (tenant, day, source, events, stored_bytes, received_day, retention_days) VALUES " +
		"('globex', today(), 'parca', 10, 30, today(), 400), ('globex', today(), 'trace', 10, 10, today(), 400)")
	w.exec("OPTIMIZE TABLE kernels_data FINAL")
}

// What all tenants have stored is what the data parts take, each has its part of it, and it shrinks as rows go.
func TestStoredIsWhatPartsTake(t *testing.T) {
	w := shared(t)
	k := w.sink(withViews)
	stop := w.run(k)
	w.twoTenants()
	stop()
	k = w.sink()
	near := func(what string, got, want, share float64) {
		t.Helper()
		if math.Abs(got-want) > share*want {
			t.Errorf("%s: %.0f bytes, want %.0f", what, got, want)
		}
	}
	events := w.number("SELECT sum(events) FROM usage")
	measured := func(what string) {
		t.Helper()
		if err := k.MeasureStored(t.Context()); err != nil {
			t.Fatal(err)
		}
		near(what+": all tenants", w.number("SELECT sum(stored_bytes) FROM usage"), w.partsOfTenants(), 0.001)
		if n := w.number("SELECT uniqExact(measurement) FROM stored_data"); n > 2 {
			t.Errorf("%s: there are %.0f measurements", what, n)
		}
		if n := w.number("SELECT sum(events) FROM usage"); n != events {
			t.Errorf("%s: %.0f events, want %.0f", what, n, events)
		}
	}
	measured("as inserted")
	of := func(tenant string) float64 {
		return w.number("SELECT sum(stored_bytes) FROM usage WHERE tenant = " + table.Quote(tenant))
	}
	if a, b := of("acme"), of("globex"); b < 20*a {
		t.Errorf("acme has %.0f bytes, globex, whose rejects are long, %.0f", a, b)
	}
	near("the sources of a day", 3*w.number("SELECT stored_bytes FROM usage WHERE tenant = 'globex' AND source = 'trace'"),
		w.number("SELECT stored_bytes FROM usage WHERE tenant = 'globex' AND source = 'parca'"), 0.01)

	before := of("globex")
	w.exec("TRUNCATE TABLE rejects_data")
	measured("without rejects")
	if after := of("globex"); after > before/5 {
		t.Errorf("globex has %.0f bytes, %.0f before", after, before)
	}
	raw := func(tenant string) float64 {
		return w.number("SELECT sum(raw_bytes) FROM stored_data WHERE measurement = (SELECT max(measurement) FROM stored_data) AND tenant = " +
			table.Quote(tenant))
	}
	near("globex has two of three kernels", raw("globex"), 2*raw("acme"), 0.01)
	w.exec("INSERT INTO kernels_data SELECT * REPLACE ('nobody' AS tenant) FROM (SELECT * FROM kernels_data " +
		"WHERE tenant = 'acme')")
	w.exec("INSERT INTO usage_data (tenant, day, source, events, stored_bytes, received_day, retention_days) " +
		"SELECT 'monthly', d, 'trace', 0, 1, d, 400 FROM (SELECT toStartOfMonth(today()) - 20 AS d)")
	w.exec("INSERT INTO books_data (tenant, day, table, rows, received_day, retention_days) " +
		"SELECT 'monthly', d, 'kernel_stats_data', 1, d, 400 FROM (SELECT toStartOfMonth(toStartOfMonth(today()) - 20) AS d)")
	measured("of books of a month whose first day had nothing")
	if n := w.number("SELECT count() FROM usage WHERE tenant = 'monthly'"); n != 1 {
		t.Errorf("the bytes of monthly are of %.0f days and sources, want those of the one that it was sent on", n)
	}
	measured("of a tenant without books")
	if n := of("nobody"); n == 0 {
		t.Error("it has nothing")
	}
	w.exec("TRUNCATE TABLE kernels_data")
	measured("without kernels")
	if n := of("nobody"); n != 0 {
		t.Errorf("it still has %.0f", n)
	}
	for _, t := range tabletest.Schema().Tables() {
		if t.Retention != table.Static && t != table.Usage.Table {
			w.exec("TRUNCATE TABLE " + t.Name)
		}
	}
	measured("of books alone")
	w.exec("TRUNCATE TABLE usage_data")
	events = 0
	measured("of an empty service")
}

// A measurement that dies at any step, and two at once, leave readers with one whole set of rows, at any time.
func TestMeasuringDiesAtEveryStep(t *testing.T) {
	w := shared(t)
	w.run(w.sink(withViews))
	w.twoTenants()
	if err := w.sink().MeasureStored(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole := w.partsOfTenants()
	check := func(when string) {
		t.Helper()
		if got := w.number("SELECT sum(stored_bytes) FROM usage"); math.Abs(got-whole) > 0.001*whole {
			t.Errorf("%s: %.0f bytes, want %.0f", when, got, whole)
		}
	}
	check("before")
	for _, dies := range []string{"measure weighed", "measure written"} {
		k := w.sink()
		k.SetStep(func(_ int, step string) error {
			if step == dies {
				return sink.ErrCrash
			}
			return nil
		})
		if err := k.MeasureStored(t.Context()); !errors.Is(err, sink.ErrCrash) {
			t.Fatalf("at %q: %v", dies, err)
		}
		check("after a death at " + dies)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			k := w.sink()
			for range 5 {
				if err := k.MeasureStored(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for asked := 0; ; asked++ {
		select {
		case <-done:
			check("after many at once")
			t.Logf("asked %d times meanwhile", asked)
			return
		default:
			check("during many at once")
		}
	}
}

// What a purged tenant had stored is gone when the purge is.
func TestPurgeForgetsStored(t *testing.T) {
	w := shared(t)
	k := w.sink()
	w.run(k)
	w.publish(0, 400)
	w.settled(3 * time.Minute)
	w.exec("INSERT INTO kernels_data SELECT * REPLACE ('globex' AS tenant) FROM kernels_data")
	if err := k.MeasureStored(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []int{0, 1, 2, 3} {
		d := stream.Deletion{ID: "purge", Tenant: "acme", At: time.Now().UnixNano()}
		seq := w.publish(p, 2, deletes(d))
		w.waitMark(k, p%2, seq)
	}
	for tenant, want := range map[string]bool{"acme": false, "globex": true} {
		if n := w.number("SELECT count() FROM stored_data WHERE tenant = " + table.Quote(tenant)); (n > 0) != want {
			t.Errorf("%s has %.0f rows", tenant, n)
		}
	}
}

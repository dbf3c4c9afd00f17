package aggregate_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/proto/stream"
)

// A worker tells what tenants have of ROWS, of its memory for names and of the record of names: what it published and stored, until the
// sinks have it, or until it is gone.
func TestWorkerTellsWhatTenantsHave(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{Partitions: 2, Lanes: 1})
	tells := make(chan *nats.Msg, 64)
	sub, err := s.Conn.ChanSubscribe(stream.HoldingSubject, tells)
	if err != nil {
		t.Fatal(err)
	}
	defer sub.Unsubscribe()
	told := func(what string, ok func(h stream.Holding) bool) (h stream.Holding) {
		t.Helper()
		over := time.After(90 * time.Second)
		for {
			select {
			case m := <-tells:
				if h, err = stream.ParseHolding(m.Data); err != nil {
					t.Fatal(err)
				}
				if ok(h) {
					return h
				}
			case <-over:
				t.Fatalf("%s: not told in time, but %+v", what, h)
			}
		}
	}
	start(t, s, fast)
	for tenant, sessions := range map[string]int{"heavy": 40, "light": 4} {
		for n := range sessions {
			session := fmt.Sprint("s", n)
			publish(t, s, stream.Envelope{Tenant: tenant, Session: session, Identity: "d"}, fmt.Appendf(nil,
				`{"version":1,"type":"dictionary_update","session_id":"%s","kernel_dict":{"1":"kernel of session %d"}}`+"\n"+
					`{"version":1,"type":"kernel_event_batch","session_id":"%s","batch_id":1,"base_time_ns":1795175929972803352,"columns":["dt_ns",`+
					`"kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[[0,1,7,5,1,0,32,0]]}`+"\n",
				session, n, session))
		}
	}
	h := told("all of it", func(h stream.Holding) bool {
		heavy, light := h.Tenants["heavy"], h.Tenants["light"]
		return heavy.Rows > light.Rows && light.Rows > 0 && heavy.Names > 5*light.Names && light.Names > 0 && heavy.Record > 5*light.Record &&
			light.Record > 0 && h.NameTenants == 2
	})
	heavy, light := h.Tenants["heavy"], h.Tenants["light"]
	if h.Rows.Max <= 0 || h.Record.Max <= 0 || h.Names.Max <= 0 || heavy.Rows+light.Rows > h.Rows.Used ||
		heavy.Names+light.Names != h.Names.Used || heavy.Record+light.Record > 2*h.Record.Used {
		t.Errorf("heavy %+v, light %+v of %+v", heavy, light, h)
	}
	if len(h.Tenants) != 2 {
		t.Errorf("%d tenants are told of: %v", len(h.Tenants), h.Tenants)
	}

	// What is in ClickHouse does not wait any more.
	mark, err := json.Marshal(map[string]any{"partitions": map[int]stream.Inserted{0: {Chunk: 1 << 62}, 1: {Chunk: 1 << 62}}})
	if err != nil {
		t.Fatal(err)
	}
	told("nothing waits", func(h stream.Holding) bool { // a chunk may have followed the mark
		if _, err := s.Marks.Put(t.Context(), stream.MarkKey(0), mark); err != nil {
			t.Fatal(err)
		}
		return h.Tenants["heavy"].Rows == 0 && h.Tenants["light"].Rows == 0 && h.Tenants["heavy"].Record > 0
	})
	names, err := s.JS.Stream(t.Context(), "KV_"+stream.DictionariesBucket)
	if err != nil {
		t.Fatal(err)
	}
	if err := names.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	told("no names are stored", func(h stream.Holding) bool { return h.Tenants["heavy"].Record == 0 })
}

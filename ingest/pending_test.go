package ingest_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// What a tenant has accepted and not in SQL yet is bounded, at all gateways together and over their restarts; another tenant does not
// notice, and it goes on when the sinks' marks say that it is in SQL.
func TestPendingBytes(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	one, two := startOn(t, s, nil), startOn(t, s, nil)
	key := limited(t, "red", tenant.Limits{PendingBytes: 100_000}, one, two)
	blue := one.keyOf("blue", tenant.Limits{})
	body := ndjson("s", 400) // some 35 kB
	sent := 0
	send := func(r *rig) answer {
		t.Helper()
		sent++
		return r.post(fmt.Sprint("s", sent), []byte(strings.ReplaceAll(string(body), `"s"`, fmt.Sprintf("%q", fmt.Sprint("s", sent)))), key...)
	}
	refused := func(r *rig) func() bool {
		return func() bool {
			a := send(r)
			if a.status == http.StatusOK {
				return false
			}
			if a.status != http.StatusTooManyRequests || a.Code != "too_much_pending" || a.header.Get("Retry-After") == "" ||
				!strings.Contains(a.Detail, "tenant red is at its limit limit-pending-bytes = 100000: ") {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			return true
		}
	}
	for i, r := range []*rig{one, two, one} {
		if a := send(r); a.status != http.StatusOK {
			t.Fatalf("%d: %d %s", i, a.status, a.raw)
		}
	}
	for name, r := range map[string]*rig{"one": one, "two": two} {
		eventually(t, soon, name+" refuses", refused(r))
	}
	if a := one.post("x", ndjson("x", 1), blue...); a.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", a.status, a.raw)
	}
	one.gateway.Close()
	two.gateway.Close()
	three := startOn(t, s, nil)
	eventually(t, soon, "after a restart it is known", refused(three))

	// The sinks are done with all of it.
	ends := map[int]stream.Inserted{}
	info, err := s.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for partition := range s.Partitions {
		ends[partition] = stream.Inserted{Position: stream.Point{Seq: info.State.LastSeq}}
	}
	mark, err := json.Marshal(map[string]any{"partitions": ends})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Marks.Put(t.Context(), "lane.0", mark); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "it goes on", func() bool { return send(three).status == http.StatusOK })

	// A key may have less, and without a limit there is none.
	if _, err := ingest.NewTenants(s.Keys).Change(t.Context(), "red", func(r *tenant.Record) { r.Limits.PendingBytes = 0 }); err != nil {
		t.Fatal(err)
	}
	narrow, wide := three.keyOf("red", tenant.Limits{PendingBytes: 1000}), three.keyOf("red", tenant.Limits{})
	eventually(t, soon, "the narrow key waits", func() bool { return three.post("n", ndjson("n", 100), narrow...).Code == "too_much_pending" })
	for i := range 5 {
		session := fmt.Sprint("wide", i)
		if a := three.post(session, ndjson(session, 400), wide...); a.status != http.StatusOK {
			t.Errorf("without a limit: %d %s", a.status, a.raw)
		}
	}
}

package ingest_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// The audit names each upload that INGEST lost, with its tenant, whether it is sealed or not; not those that were sent again, nor those
// that took the sequences of the lost ones.
func TestAuditNamesLostUploads(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sealed=%t", sealed), func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{})
			r := startOn(t, s, nil)
			keys := map[string][]string{"a": r.keyOf("a", tenant.Limits{}), "b": r.keyOf("b", tenant.Limits{})}
			send := func(name string, i int) {
				t.Helper()
				body := compress(t, ndjson("s", 1+i))
				headers := keys[name]
				if i%2 == 0 {
					headers = append(window(fmt.Sprint("w", i), "device", i, body), headers...)
				}
				if a := r.post("s", body, headers...); a.status != http.StatusOK {
					t.Fatalf("upload %d: %d %s", i, a.status, a.raw)
				}
			}
			lost := func(found []broker.Finding, want map[string]uint64) {
				t.Helper()
				have, err := ingest.AuditUploads(t.Context(), s, found)
				if err != nil {
					t.Fatal(err)
				}
				if len(have) != len(want) {
					t.Fatalf("lost: %v, want %v", have, want)
				}
				for _, l := range have {
					if l.Uploads != want[l.Tenant] || l.Events == 0 || l.First > l.Last || l.Since.After(l.Until) ||
						time.Since(l.Since) > time.Minute {
						t.Errorf("lost: %+v, want %d uploads", l, want[l.Tenant])
					}
				}
			}
			for i := range 10 {
				send("a", i)
				send("b", i)
			}
			if sealed {
				r.gateway.SealUploads(t.Context(), "a")
				r.gateway.SealUploads(t.Context(), "b")
			}
			lost(nil, nil)
			info, err := s.Ingest.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			last := info.State.LastSeq
			// The last five of 20 go, which the server gives to others.
			cfg := info.Config
			if err := s.JS.DeleteStream(t.Context(), cfg.Name); err != nil {
				t.Fatal(err)
			}
			cfg.FirstSeq = last - 4
			if _, err := s.JS.CreateStream(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			lost(nil, map[string]uint64{"a": 2, "b": 3})
			nextSecond() // the record knows seconds
			found := []broker.Finding{{Kind: broker.FindingShortened, Stream: stream.IngestStream, Partition: -1,
				Places: []broker.Place{{First: last - 4, Last: last, At: time.Now()}}}}
			for i := range 10 {
				send("a", 100+i)
			}
			lost(nil, nil) // the end is where it was: only who found out tells
			if !sealed {   // a gateway that starts does: another upload is where it was stored
				startOn(t, s, nil)
				for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
					if found, err = broker.Findings(t.Context(), s.Marks); err != nil || time.Now().After(deadline) {
						t.Fatal("nobody tells it", err)
					}
					if len(found) == 1 {
						break
					}
				}
				if p := found[0].Places[0]; found[0].Stream != stream.IngestStream || p.First != last-4 || p.Last != last ||
					!strings.Contains(p.Detail, "5 accepted uploads") || !strings.Contains(p.Detail, "a, b") {
					t.Errorf("found %+v", found[0])
				}
			}
			lost(found, map[string]uint64{"a": 2, "b": 3})
			send("b", 9)
			lost(found, map[string]uint64{"a": 2, "b": 2})
			if sealed {
				r.gateway.SealUploads(t.Context(), "a")
				r.gateway.SealUploads(t.Context(), "b")
			}
			lost(found, map[string]uint64{"a": 2, "b": 2})
		})
	}
}

// Uploads of every kind are recognised in INGEST by what is stored: nothing is told while all of it is there.
func TestLookBackKnowsEveryKind(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	accepted := func(a answer) {
		t.Helper()
		if a.status != http.StatusOK && a.status != http.StatusAccepted {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	event := `{"schema_version":2,"timestamp_ns":1795175929972803352,"event_type":"sample","collector":"c","sampling_interval_ms":100,` +
		`"pid":%d,"host":"h","device_id":0,"allocator_allocated_bytes":1,"allocator_reserved_bytes":2,` +
		`"allocator_active_bytes":null,"allocator_inactive_bytes":null,` +
		`"allocator_change_bytes":0,"device_used_bytes":2,"device_free_bytes":null,"device_total_bytes":null,"context":null,"metadata":{}}`
	for i := range 5 {
		body := compress(t, ndjson("s", 1+i))
		accepted(r.post("s", body, window(fmt.Sprint("a/window/", i), "device", i, body)...))
		accepted(r.post("s", ndjson("s", 10+i)))
		accepted(r.do(http.MethodPost, "/api/v1/telemetry", strings.NewReader(fmt.Sprintf(event, i))))
		accepted(r.do(http.MethodPost, "/api/v1/telemetry", strings.NewReader(fmt.Sprintf(event, 100+i)), "Idempotency-Key",
			fmt.Sprint("k/", i)))
		line := fmt.Sprintf(`{"type":"job_start","session_id":"big","app":"%s","ts_ns":%d}`, strings.Repeat("x", 1<<20), i)
		accepted(r.do(http.MethodPost, "/api/v1/events/job_start", strings.NewReader(line)))
	}
	if msgs := r.windowsState().Msgs; msgs < 25 {
		t.Fatalf("%d uploads are recorded, want one of each kind and round", msgs)
	}
	if err := r.gateway.LookBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, err := broker.Findings(t.Context(), r.streams.Marks); err != nil || len(found) > 0 {
		t.Errorf("told: %v %v", found, err)
	}
}

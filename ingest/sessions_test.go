package ingest_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/intrakernel"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// limited creates a tenant and returns a key of it, once all gateways know both.
func limited(t *testing.T, name string, limits tenant.Limits, all ...*rig) (key []string) {
	t.Helper()
	limits.BurstSeconds = 7 // which tells that they are known
	if _, err := ingest.NewTenants(all[0].streams.Keys).Create(t.Context(), name, "", limits); err != nil {
		t.Fatal(err)
	}
	key = all[0].keyOf(name, tenant.Limits{})
	for _, r := range all {
		eventually(t, soon, "the limits are known", func() bool {
			return strings.Contains(r.post("", nil, key...).header.Get("RateLimit-Policy"), ";w=7,")
		})
	}
	return key
}

// A tenant may have so many sessions active, at all gateways together. A new one waits until another ends; those that are known go on,
// what was stored before is answered as then, and another tenant does not notice. Gateways that begin anew know what is active.
func TestActiveSessions(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	one, two := startOn(t, s, nil), startOn(t, s, nil)
	key := limited(t, "red", tenant.Limits{ActiveSessions: 3}, one, two)
	blue := one.keyOf("blue", tenant.Limits{})
	send := func(r *rig, session, id string, sequence int) answer {
		t.Helper()
		body := gz(t, ndjson(session, sequence))
		return r.post(session, body, append(key, window(id, "device", sequence, body)...)...)
	}
	for i, r := range []*rig{one, two, one} {
		session := fmt.Sprint("s", i)
		if a := send(r, session, session, 1); a.status != http.StatusOK {
			t.Fatalf("%s: %d %s", session, a.status, a.raw)
		}
	}
	refused := func(r *rig, session string) func() bool {
		return func() bool {
			a := send(r, session, session, 1)
			return a.status == http.StatusTooManyRequests && a.Code == "too_many_sessions" && a.header.Get("Retry-After") != "" &&
				strings.Contains(a.Detail, "tenant red is at its limit limit-active-sessions = 3: 3 are active")
		}
	}
	for _, r := range []*rig{one, two} {
		eventually(t, soon, "both know of three", func() bool {
			a := r.post("", nil, key...)
			return strings.HasSuffix(a.header.Get("RateLimit-Policy"), `, "active-sessions";q=3`) &&
				strings.HasSuffix(a.header.Get("RateLimit"), `, "active-sessions";r=0`)
		})
		if !refused(r, "a")() {
			t.Error("a fourth may begin")
		}
	}
	for i := range 3 {
		for j, r := range []*rig{one, two} {
			if a := send(r, fmt.Sprint("s", i), fmt.Sprint("more", i, j), 2+j); a.status != http.StatusOK {
				t.Errorf("a known session: %d %s", a.status, a.raw)
			}
		}
	}
	if a := two.post("x", ndjson("x", 1), blue...); a.status != http.StatusOK {
		t.Errorf("another tenant: %d %s", a.status, a.raw)
	}
	if a := two.post("", []byte("no session\n"), key...); a.status != http.StatusOK {
		t.Errorf("what is of no session: %d %s", a.status, a.raw)
	}
	parts := len(one.published())
	for i := range 200 { // made up
		if a := one.post(fmt.Sprint("made-up", i), ndjson("x", 1), key...); a.status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if n := len(one.published()); n != parts {
		t.Errorf("%d parts of sessions that may not begin are stored", n-parts)
	}

	// One ends, at the gateway that did not see it begin.
	if a := two.do(http.MethodPost, "/api/v1/events/session-complete", nil, append(key, "X-GpuFlight-Session-Id", "s0")...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	eventually(t, soon, "the next one begins", func() bool { return send(one, "a", "a", 1).status == http.StatusOK })
	eventually(t, soon, "which is known there", func() bool {
		return strings.HasSuffix(two.post("", nil, key...).header.Get("RateLimit"), `, "active-sessions";r=0`)
	})
	if !refused(two, "b")() {
		t.Error("a fourth may begin after one has ended and another begun")
	}
	if a := send(one, "s0", "s0", 1); a.status != http.StatusOK {
		t.Errorf("what was stored before: %d %s", a.status, a.raw)
	}
	if a := send(one, "s0", "new", 9); a.status != http.StatusTooManyRequests {
		t.Errorf("what is new of a session that has ended: %d %s", a.status, a.raw)
	}

	// Both are ended, and another begins.
	one.gateway.Close()
	two.gateway.Close()
	three := startOn(t, s, nil)
	eventually(t, soon, "the limit is known", func() bool {
		return strings.Contains(three.post("", nil, key...).header.Get("RateLimit-Policy"), ";w=7,")
	})
	if !refused(three, "b")() {
		t.Error("after a restart all is forgotten")
	}
	for _, session := range []string{"s1", "s2", "a"} {
		if a := send(three, session, session+"again", 20); a.status != http.StatusOK {
			t.Errorf("after a restart a known session waits: %d %s", a.status, a.raw)
		}
	}
	three.do(http.MethodPost, "/api/v1/events/session-complete", nil, append(key, "X-GpuFlight-Session-Id", "s1")...)
	if a := send(three, "b", "b", 1); a.status != http.StatusOK {
		t.Errorf("after one has ended: %d %s", a.status, a.raw)
	}

	// Without a limit all may begin, within seconds.
	if _, err := ingest.NewTenants(s.Keys).Change(t.Context(), "red", func(r *tenant.Record) { r.Limits.ActiveSessions = 0 }); err != nil {
		t.Fatal(err)
	}
	narrow := three.keyOf("red", tenant.Limits{ActiveSessions: 1})
	wide := three.keyOf("red", tenant.Limits{})
	eventually(t, soon, "no limit", func() bool { return three.post("free", ndjson("free", 1), wide...).status == http.StatusOK })
	if a := three.post("other", ndjson("other", 1), narrow...); a.status != http.StatusTooManyRequests {
		t.Errorf("a key with a limit of its own: %d %s", a.status, a.raw)
	}
}

// An upload of several sessions waits when one of them may not begin, and what it has of the others is stored meanwhile, once.
func TestActiveSessionsInOneUpload(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	key := limited(t, "red", tenant.Limits{ActiveSessions: 1}, r)
	record := func(host string, i int) map[string]any { return v2(i, func(m map[string]any) { m["host"] = host }) }
	if a := r.send("format=ndjson", ndjsonOf(t, record("known", 1)), key...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	both := ndjsonOf(t, record("a-new", 2), record("known", 2), record("z-new", 2))
	for range 3 {
		if a := r.send("format=ndjson", both, key...); a.status != http.StatusTooManyRequests || a.Code != "too_many_sessions" {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	records := func() uint64 {
		t.Helper()
		status, err := r.streams.Windows.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return status.Values()
	}
	before := records()
	for i := range 100 { // made up
		body := ndjsonOf(t, record(fmt.Sprint("a-made-up", i), 9), record(fmt.Sprint("b-made-up", i), 9))
		if a := r.send("format=ndjson", body, key...); a.status != http.StatusTooManyRequests {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if n := records(); n > before+10 {
		t.Errorf("100 uploads of made-up sessions left %d records", n-before)
	}
	events, _ := r.stored()
	if len(events) != 2 || string(events[1].Host) != "known" {
		t.Errorf("%d events are stored: those of the known session alone are to be", len(events))
	}
	tenants := ingest.NewTenants(r.streams.Keys)
	if _, err := tenants.Change(t.Context(), "red", func(r *tenant.Record) { r.Limits.ActiveSessions = 3 }); err != nil {
		t.Fatal(err)
	}
	wide := r.keyOf("red", tenant.Limits{})
	var a report
	eventually(t, soon, "all may begin", func() bool { a = r.send("format=ndjson", both, wide...); return a.status == http.StatusOK })
	if events, _ = r.stored(); len(events) != 4 || a.Accepted != 3 {
		t.Errorf("%d events are stored, and %d were accepted: %s", len(events), a.Accepted, a.raw)
	}
	r.balanced()
}

// An upload that is all of its session, as a trace, is active no longer than it takes.
func TestWholeSessionsEnd(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Sources = append(c.Sources, intrakernel.Source()) })
	key := limited(t, "red", tenant.Limits{ActiveSessions: 1}, r)
	trace, err := os.ReadFile("../testdata/intrakernel/samples/gemm_trace.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		a := r.do(http.MethodPost, fmt.Sprint("/api/v1/intrakernel?session=run", i), strings.NewReader(string(trace)),
			append(key, "Content-Type", "application/json")...)
		if a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	kinds := map[stream.Kind]bool{}
	for _, m := range r.published() {
		kinds[m.Kind] = true
	}
	if !kinds[stream.KindIntraKernel] {
		t.Errorf("%v were stored", kinds)
	}
}

package ingest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/shares"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// The metrics say of each tenant what it has of what it may have, and go with what it does. Tenants beyond the bound of series are one,
// that of them which is nearest to its limit.
func TestSharesOfTenants(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.MetricsTenants = 3 })
	key := limited(t, "red", tenant.Limits{EventsPerDay: 1000, BytesPerDay: 1 << 30, ActiveSessions: 5, PendingBytes: 1 << 20}, r)
	blue := r.keyOf("blue", tenant.Limits{})
	used := func(who, of string) float64 { return r.metric("tenant_used", "tenant", who, "of", of) }
	limit := func(who, of string) float64 { return r.metric("tenant_limit", "tenant", who, "of", of) }
	for i := range 3 {
		session := fmt.Sprint("s", i)
		for _, k := range [][]string{key, blue} {
			if a := r.post(session, ndjson(session, 100), k...); a.status != http.StatusOK {
				t.Fatalf("%d %s", a.status, a.raw)
			}
		}
	}
	for of, want := range map[string][2]float64{shares.EventsPerDay: {300, 1000}, shares.ActiveSessions: {3, 5},
		shares.EventsPerSecond: {0, tenant.DefaultLimits().EventsPerSecond}} {
		if got := [2]float64{used("red", of), limit("red", of)}; got != want {
			t.Errorf("red's %s: %v, want %v", of, got, want)
		}
	}
	if n := used("red", shares.PendingBytes); n < 10_000 || limit("red", shares.PendingBytes) != 1<<20 {
		t.Errorf("on its way: %v of %v", n, limit("red", shares.PendingBytes))
	}
	if n := used("red", shares.BytesPerDay); n < 10_000 || limit("red", shares.BytesPerDay) != 1<<30 {
		t.Errorf("bytes today: %v", n)
	}
	if limit("blue", shares.ActiveSessions) != 0 || limit("blue", shares.PendingBytes) != 0 || used("blue", shares.EventsPerDay) != 0 {
		t.Error("blue has neither limits nor a quota")
	}
	if used("blue", shares.PendingBytes) == 0 {
		t.Error("blue has nothing on its way")
	}
	eventually(t, soon, "the shares of the stores", func() bool {
		return used("red", shares.UploadRecord) > 0 && limit("red", shares.UploadRecord) > used("red", shares.UploadRecord) &&
			limit("red", shares.LargeLines) > 0 && limit("red", shares.Spool) > 0 && used("red", shares.Spool) == 0
	})

	// What is in SQL is not on its way any more, and a session that has ended is not active.
	ends := map[int]stream.Inserted{}
	info, err := r.streams.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for partition := range r.streams.Partitions {
		ends[partition] = stream.Inserted{Position: stream.Point{Seq: info.State.LastSeq}}
	}
	mark, err := json.Marshal(map[string]any{"partitions": ends})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.streams.Marks.Put(t.Context(), "lane.0", mark); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "nothing is on its way", func() bool { return used("red", shares.PendingBytes) == 0 })

	// Two more tenants with quotas have no series of their own.
	for name, quota := range map[string]float64{"t1": 100_000, "t2": 110, "t3": 200_000} {
		k := limited(t, name, tenant.Limits{EventsPerDay: quota}, r)
		if a := r.post("s", ndjson("s", 100), k...); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	own := 0
	for _, name := range []string{"red", "blue", "t1", "t2", "t3", "dev"} {
		if limit(name, shares.EventsPerSecond) > 0 {
			own++
		}
	}
	if own > 3 || used("red", shares.EventsPerDay) != 300 {
		t.Errorf("%d tenants have series of their own, want at most 3, red among them", own)
	}
	other := [2]float64{used(tenant.OtherSeries, shares.EventsPerDay), limit(tenant.OtherSeries, shares.EventsPerDay)}
	if own := limit("t2", shares.EventsPerDay); own == 0 && other != [2]float64{100, 110} {
		t.Errorf("of the others the one that is nearest to its quota has %v, want 100 of 110", other)
	}
}

// What a tenant holds of the spool while an upload comes in is shown, and is bounded by what the others hold.
func TestShareOfTheSpool(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.SpoolMaxBytes = 8 << 20 })
	red, blue := r.keyOf("red", tenant.Limits{}), r.keyOf("blue", tenant.Limits{})
	if a := r.post("s", ndjson("s", 1), blue...); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	body, slow := io.Pipe()
	done := make(chan answer)
	go func() {
		done <- r.do(http.MethodPost, "/api/v1/events/stream", body, append([]string{"X-GpuFlight-Session-Id", "s"}, red...)...)
	}()
	if _, err := slow.Write(ndjson("s", 40_000)); err != nil {
		t.Fatal(err)
	}
	of := func(name, who string) float64 { return r.metric(name, "tenant", who, "of", shares.Spool) }
	eventually(t, soon, "red holds some of the spool", func() bool { return of("tenant_used", "red") > 1<<20 })
	if most, others := of("tenant_limit", "red"), of("tenant_limit", "blue"); most != 4<<20 || others >= most {
		t.Errorf("red may have %v, and blue, which red leaves less, %v", most, others)
	}
	slow.Close()
	if a := <-done; a.status != http.StatusOK {
		t.Errorf("%d %s", a.status, a.raw)
	}
	eventually(t, soon, "it is given back", func() bool { return of("tenant_used", "red") == 0 && of("tenant_limit", "blue") == 4<<20 })
}

// While nothing comes into SQL, one tenant cannot take all of INGEST, at several gateways and over their restarts: beyond its share it gets
// 503, and the next tenant is taken. The metrics say so before it happens.
func TestShareOfIngest(t *testing.T) {
	const room = 32 << 20
	s := brokertest.Start(t, broker.Layout{IngestMaxBytes: room})
	one, two := startOn(t, s, nil), startOn(t, s, nil)
	red, blue := one.keyOf("red", tenant.Limits{}), one.keyOf("blue", tenant.Limits{})
	eventually(t, soon, "both know the key", func() bool { return two.post("s", ndjson("s", 1), blue...).status == http.StatusOK })
	taken := func(r *rig, who string) float64 { return r.metric("tenant_used", "tenant", who, "of", shares.Ingest) }
	share := func(r *rig, who string) float64 { return r.metric("tenant_limit", "tenant", who, "of", shares.Ingest) }
	eventually(t, soon, "the room is known", func() bool { return share(one, "red") > 0 && share(two, "red") > 0 })
	n := 0
	fill := func(r *rig, key []string) answer { // some 1 MiB that does not compress
		n++
		session := fmt.Sprint("s", n)
		return r.post(session, noise(session, 1<<20, n), key...)
	}
	refused := func(a answer) bool {
		if a.status == http.StatusOK {
			return false
		}
		if a.status != http.StatusServiceUnavailable || a.Code != "not_stored" || a.header.Get("Retry-After") == "" ||
			!strings.Contains(a.Detail, "its share of INGEST") {
			t.Fatalf("%d %s", a.status, a.raw)
		}
		return true
	}
	for range 8 {
		if a := fill(two, red); a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	eventually(t, soon, "one knows what two took, and how full INGEST is", func() bool {
		return taken(one, "red") > 6<<20 && one.metric("ingest_stream_bytes") > 6<<20
	})
	for i := 0; !refused(fill(one, red)); i++ {
		if i > 64 {
			t.Fatal("64 MiB are in an INGEST of 32")
		}
	}
	info, err := s.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if used := info.State.Bytes; used < room*3/4 || used > room*31/32 {
		t.Errorf("red fills %d of %d bytes", used, room)
	}
	for name, r := range map[string]*rig{"one": one, "two": two} {
		eventually(t, soon, name+" shows that red has its share", func() bool {
			return taken(r, "red") > room*3/4 && taken(r, "red") > share(r, "red") && taken(r, "blue") < share(r, "blue")/2
		})
		if !refused(fill(r, red)) {
			t.Errorf("%s takes more of red", name)
		}
	}
	if a := fill(one, blue); a.status != http.StatusOK {
		t.Errorf("the next tenant: %d %s", a.status, a.raw)
	}
	one.gateway.Close()
	two.gateway.Close()
	three := startOn(t, s, nil)
	if !refused(fill(three, red)) {
		t.Error("after a restart more of red is taken")
	}
	if a := three.post("x", ndjson("x", 1), blue...); a.status != http.StatusOK {
		t.Errorf("the next tenant after a restart: %d %s", a.status, a.raw)
	}
	if err := three.gateway.Ready(); err != nil {
		t.Errorf("the gateway is not ready because one tenant has its share: %v", err)
	}

	// Once its parts are in SQL, and gone from INGEST, it goes on.
	if err := s.Ingest.Purge(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "it goes on", func() bool { return !refused(fill(three, red)) })
}

// noise is an upload of lines that do not compress.
func noise(session string, size, seed int) []byte {
	random, b := rand.New(rand.NewPCG(uint64(seed), 1)), []byte{}
	text := make([]byte, 3000)
	for len(b) < size {
		for i := range text {
			text[i] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-"[random.IntN(64)]
		}
		b = fmt.Appendf(b, `{"version":1,"type":"marker","session_id":%q,"name":"%s","at":1}`+"\n", session, text)
	}
	return b
}

package ingest_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	crand "crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// soon bounds what takes milliseconds; a machine that does ten other things may take longer, and that is no fault.
const soon = 60 * time.Second

// eventually waits until ok says true.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %s", what, within)
		}
	}
}

func TestRoutes(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.PathPrefix = "profiler/"; c.Version = "1.2.3" })
	for _, c := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/profiler/api/v1/info/version", 200, `"supported":["1"]`},
		{"GET", "/profiler/healthz", 200, "ok"},
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/readyz", 200, "ready"},
		{"GET", "/metrics", 200, "warpline_gateway_requests_total"},
		{"GET", "/api/v1/info/version", 200, `"supported":["1"]`},
		{"GET", "//api/v1/info/version", 200, `"supported":["1"]`},
		{"GET", "/profiler//api/v1/info/version", 200, `"supported":["1"]`},
		{"GET", "/profiler/readyz", 200, "ready"},
		{"GET", "/profiler/metrics", 200, "warpline_gateway_requests_total"},
		{"GET", "/api/v1/telemetry/schema", 200, "$schema"},
		{"GET", "/profiler/api/v1/telemetry/schema", 200, "$schema"},
		{"POST", "/api/v1/events/stream", 200, "window_acknowledged"},
		{"POST", "/profiler/api/v1/events/stream", 200, "window_acknowledged"},
		{"GET", "/profiler/api/v1/info/versions", 404, "GET /profiler/api/v1/info/version"},
		{"GET", "/profiler/api/v1/info/versions", 404, "GET /api/v1/info/version"},
		{"GET", "/profilerapi/v1/info/version", 404, "not_found"},
		{"GET", "/profiler/profiler/healthz", 404, "not_found"},
		{"POST", "/profiler/api/v2/events/stream", 404, "not_found"},
		{"GET", "/profiler/api/v1/events/stream", 405, "takes POST"},
		{"DELETE", "/metrics", 405, "takes GET"},
		{"POST", "/profiler/api/v1/events/session-complete", 400, "X-GpuFlight-Session-Id"},
	} {
		a := r.do(c.method, c.path, nil)
		if a.status != c.status || !strings.Contains(a.raw, c.contains) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.status, a.raw)
		}
		if c.status >= 400 && a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: content type %q", c.method, c.path, a.header.Get("Content-Type"))
		}
		if c.status == 405 && a.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow header", c.method, c.path)
		}
	}
	if a := r.do("POST", "/profiler/api/v1/events/stream", strings.NewReader("{}"), "Content-Encoding", "br"); a.status != 415 {
		t.Errorf("br: %d %s", a.status, a.raw)
	}
}

// On an address that others reach there are no metrics.
func TestMetricsAreHidden(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.HideMetrics = true })
	if a := r.do("GET", "/metrics", nil); a.status != 404 || !strings.Contains(a.raw, "--metrics-listen") ||
		strings.Contains(a.raw, "warpline_") {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if a := r.do("GET", "/readyz", nil); a.status != 200 {
		t.Errorf("readyz: %d %s", a.status, a.raw)
	}
}

func TestSessionComplete(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	for range 2 {
		if a := r.do("POST", "/api/v1/events/session-complete", nil, "X-GpuFlight-Session-Id", "s"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	all := r.published()
	if len(all) != 1 || all[0].Kind != stream.KindComplete || all[0].Session != "s" || all[0].Identity != "complete" {
		t.Fatalf("have %+v", all)
	}
}

func TestAuthentication(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys := ingest.NewKeys(r.streams.Keys)
	ctx := t.Context()
	good, key, err := keys.Create(ctx, "acme", "laptop", tenant.Limits{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := keys.Create(ctx, "globex", "", tenant.Limits{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	short, _, err := keys.Create(ctx, "acme", "", tenant.Limits{}, 3*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Create(ctx, "Not A Name", "", tenant.Limits{}, 0); err == nil {
		t.Error("made a key for a bad tenant name")
	}
	send := func(auth string) answer {
		return r.do("POST", "/api/v1/events/stream", strings.NewReader("{}\n"), "Authorization", auth, "X-GpuFlight-Session-Id", "shared")
	}
	for _, secret := range []string{short, good, other} { // the one that ends soon first
		if a := send("Bearer " + secret); a.status != 200 {
			t.Errorf("a new key does not work at once: %d %s", a.status, a.raw)
		}
	}
	if a := send("bearer  " + good + " \t"); a.status != 200 {
		t.Errorf("spaces around the token: %d %s", a.status, a.raw)
	}
	// The tenant comes from the key: one session id under two keys is two sessions.
	tenants := map[string]int{}
	for _, m := range r.published() {
		tenants[m.Tenant]++
		if !strings.Contains(m.subject, "."+m.Tenant+".") {
			t.Errorf("%s holds a message of %s", m.subject, m.Tenant)
		}
	}
	if tenants["acme"] != 1 || tenants["globex"] != 1 {
		t.Errorf("messages by tenant: %v", tenants)
	}
	if revoked, err := keys.Revoke(ctx, key.ID); err != nil || revoked.Tenant != "acme" {
		t.Fatal(revoked, err)
	}
	eventually(t, soon, "a revoked key stops working", func() bool { return send("Bearer "+good).status == 401 })
	eventually(t, soon, "an expired key stops working", func() bool { return send("Bearer "+short).status == 401 })
	if a := send("Bearer " + other); a.status != 200 {
		t.Errorf("the other key: %d", a.status)
	}
	want := ""
	for _, auth := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Basic " + other, "Bearer " + good, "Bearer " + short, other} {
		a := send(auth)
		if a.status != 401 || a.header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %d %s", auth, a.status, a.raw)
		}
		if want == "" {
			want = a.raw
		}
		if a.raw != want {
			t.Errorf("%q is told apart: %s", auth, a.raw)
		}
	}
	if _, err := keys.Revoke(ctx, "zzzz"); err == nil {
		t.Error("revoked a key that does not exist")
	}
	if _, err := keys.Revoke(ctx, tenant.Prefix); err == nil {
		t.Error("revoked by nothing")
	}
	if _, err := keys.Put(ctx, good, "acme", "restored", tenant.Limits{}, 0); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "a restored key works", func() bool { return send("Bearer "+good).status == 200 })
	if _, err := keys.Revoke(ctx, good); err != nil { // by the whole secret
		t.Fatal(err)
	}
	list, err := keys.List(ctx)
	if err != nil || len(list) != 3 || list[0].Tenant != "acme" || list[2].Tenant != "globex" {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// Who guesses keys gets the same answer as ever, and holds nobody with a new key up for long.
func TestGuessedKeys(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	for i := range 300 { // more than the gateway asks the bucket for
		if a := r.post("s", []byte("{}"), "Authorization", fmt.Sprint("Bearer guess-", i)); a.status != 401 {
			t.Fatalf("guess %d: %d %s", i, a.status, a.raw)
		}
	}
	secret, _, err := ingest.NewKeys(r.streams.Keys).Create(t.Context(), "acme", "", tenant.Limits{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "the new key", func() bool { return r.post("s", []byte("{}"), "Authorization", "Bearer "+secret).status == 200 })
}

// A gateway that opens on many keys knows all of them, and hears of changes at once.
func TestTenThousandKeys(t *testing.T) {
	s := brokertest.Start(t, broker.Layout{})
	keys := ingest.NewKeys(s.Keys)
	secrets := make([]string, 10_000)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < len(secrets); i += 8 {
				var err error
				if secrets[i], _, err = keys.Create(t.Context(), fmt.Sprint("t", i), "", tenant.Limits{}, 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	r := startOn(t, s, nil)
	for _, i := range []int{0, 5_000, 9_999} {
		if a := r.do("POST", "/api/v1/events/stream", strings.NewReader("{}"), "Authorization", "Bearer "+secrets[i]); a.status != 200 {
			t.Errorf("key %d: %d", i, a.status)
		}
	}
	if _, err := keys.Revoke(t.Context(), secrets[5_000]); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "revoked", func() bool {
		return r.do("POST", "/api/v1/events/stream", strings.NewReader("{}"), "Authorization", "Bearer "+secrets[5_000]).status == 401
	})
}

func TestRateLimits(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	keys := ingest.NewKeys(r.streams.Keys)
	for _, c := range []struct {
		name   string
		limits tenant.Limits
		want   string
	}{
		{"events", tenant.Limits{EventsPerSecond: 2000, BurstSeconds: 1}, "limit-events-per-second = 2000"},
		{"bytes", tenant.Limits{BytesPerSecond: 200_000, BurstSeconds: 1}, "limit-bytes-per-second = 200000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r.t = t
			secret, _, err := keys.Create(t.Context(), "t-"+c.name, "", c.limits, 0)
			if err != nil {
				t.Fatal(err)
			}
			auth := []string{"Authorization", "Bearer " + secret}
			if a := r.post("s", []byte("{}"), auth...); a.status != 200 {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			// One upload far over the burst gets in; the next must wait for the debt.
			if a := r.post("s", ndjson(c.name, 7000), auth...); a.status != 200 || a.Accepted != 7000 {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			a := r.post("s", ndjson(c.name+"2", 10), auth...)
			after, _ := strconv.Atoi(a.header.Get("Retry-After"))
			if a.status != 429 || after < 1 || after > 4 || !strings.Contains(a.Detail, c.want) { // some of the debt may be paid by now
				t.Fatalf("%d, Retry-After %d: %s", a.status, after, a.raw)
			}
			time.Sleep(time.Duration(after) * time.Second)
			if a := r.post("s", ndjson(c.name+"2", 10), auth...); a.status != 200 {
				t.Fatalf("after Retry-After: %d %s", a.status, a.raw)
			}
			// Others do not wait for this key.
			if a := r.post("s", ndjson(c.name, 10)); a.status != 200 {
				t.Fatalf("another key: %d %s", a.status, a.raw)
			}
			// A raised limit holds soon.
			r.post("s", ndjson(c.name+"3", 20_000), auth...)
			if a := r.post("s", ndjson(c.name+"4", 10), auth...); a.status != 429 {
				t.Fatalf("not limited: %d", a.status)
			}
			if _, err := keys.Put(t.Context(), secret, "t-"+c.name, "", tenant.Limits{}, 0); err != nil {
				t.Fatal(err)
			}
			eventually(t, soon, "raised limit", func() bool { return r.post("s", ndjson(c.name+"4", 10), auth...).status == 200 })
		})
	}
	r.balanced()
}

// A full stream answers 503 with Retry-After until there is room; then the same upload is stored whole.
func TestFullStream(t *testing.T) {
	r := start(t, broker.Layout{IngestMaxBytes: 1 << 20}, nil)
	raw, _ := columnarWindow(1, "s", 12<<20)
	body := compress(t, raw)
	a := r.post("s", body, window("w", "device", 1, body)...)
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.Detail, "full") ||
		r.metric("publish_failures_total", "reason", "full") != 1 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	// A reader downstream made room, in two steps; parts that were stored before stay folded once.
	seen := r.published()
	info, err := r.streams.Ingest.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cfg := info.Config
	cfg.MaxBytes = 64 << 20
	if _, err := r.streams.JS.UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if a := r.post("s", body, window("w", "device", 1, body)...); a.status != 200 || !a.Whole {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	all := r.published()
	if len(seen) == 0 || len(all) <= len(seen) {
		t.Errorf("%d messages before, %d after", len(seen), len(all))
	}
	if kept(all, "s") != string(raw) {
		t.Error("what is stored is not what was sent")
	}
	r.balanced()
}

// NATS goes away: 503 at once, not ready; it comes back: stored, ready, and a key revoked meanwhile is refused within a second.
func TestNATSAway(t *testing.T) {
	dir := t.TempDir()
	addr := brokertest.FreeAddr(t)
	serve := func() func() {
		srv, err := broker.Serve(broker.ServerConfig{Dir: dir, Listen: addr})
		if err != nil {
			t.Fatal(err)
		}
		return func() { srv.Shutdown(); srv.WaitForShutdown() }
	}
	down := serve()
	nc, js, err := broker.Connect(t.Context(), broker.ConnectConfig{URL: "nats://" + addr})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	s, err := broker.Open(t.Context(), nc, js, broker.DefaultLayout())
	if err != nil {
		t.Fatal(err)
	}
	r := startOn(t, s, nil)
	keys := ingest.NewKeys(s.Keys)
	secret, key, err := keys.Create(t.Context(), "acme", "", tenant.Limits{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	auth := []string{"Authorization", "Bearer " + secret}
	if a := r.post("s", []byte("{}"), auth...); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	down()
	eventually(t, soon, "not ready", func() bool { return r.do("GET", "/readyz", nil).status == 503 })
	began := time.Now()
	if a := r.post("s", ndjson("s", 10), auth...); a.status != 503 || a.header.Get("Retry-After") == "" || time.Since(began) > soon {
		t.Errorf("%d after %s: %s", a.status, time.Since(began), a.raw)
	}
	down = serve()
	defer func() { down() }()
	eventually(t, 60*time.Second, "ready again", func() bool { return r.do("GET", "/readyz", nil).status == 200 })
	eventually(t, soon, "stored", func() bool { return r.post("s", ndjson("s", 10), auth...).status == 200 })
	if _, err := keys.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	eventually(t, soon, "revoked", func() bool { return r.post("s", []byte("{}"), auth...).status == 401 })
}

// Draining: not ready, the running upload finishes, new connections are refused, Run returns.
func TestDrain(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Listen = "127.0.0.1:0"; c.DrainDelay = 300 * time.Millisecond })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	url := "http://" + r.gateway.Addr()
	pr, pw := io.Pipe()
	posted := make(chan string, 1)
	go func() {
		req, _ := http.NewRequest("POST", url+"/api/v1/events/stream", pr)
		req.Header.Set("Authorization", "Bearer "+devKey)
		req.Header.Set("X-GpuFlight-Session-Id", "s")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			posted <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		posted <- string(b)
	}()
	pw.Write(ndjson("s", 5))
	eventually(t, soon, "upload begins", func() bool { return r.metric("active_requests") == 1 })
	stop()
	eventually(t, soon, "not ready while draining", func() bool {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == 503
	})
	eventually(t, soon, "no new connections", func() bool {
		c, err := net.Dial("tcp", r.gateway.Addr())
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	pw.Write(ndjson("s", 5))
	pw.Close()
	if a := <-posted; !strings.Contains(a, `"accepted":10`) {
		t.Errorf("the running upload: %s", a)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := len(r.published()); n != 1 {
		t.Errorf("%d messages", n)
	}
}

// A body that stands still, and a client that goes away, cost the request and hold nothing.
func TestSlowAndBrokenBodies(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.ReadTimeout = 200 * time.Millisecond })
	pr, pw := io.Pipe()
	defer pw.Close()
	go pw.Write([]byte("{}\n"))
	if a := r.do("POST", "/api/v1/events/stream", pr, "X-GpuFlight-Session-Id", "s"); a.status != 408 {
		t.Errorf("%d %s", a.status, a.raw)
	}
	c, err := net.Dial("tcp", strings.TrimPrefix(r.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(c, "POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: 1000\r\n\r\n{}", devKey)
	eventually(t, soon, "it is there", func() bool { return r.metric("active_requests") == 1 })
	c.Close()
	eventually(t, soon, "all is given back", func() bool { return r.metric("active_requests") == 0 })
	r.balanced()
	if n := len(r.published()); n != 0 {
		t.Errorf("%d messages", n)
	}
}

func TestBudgets(t *testing.T) {
	text := ndjson("s", 10_000)
	for _, c := range []struct {
		name   string
		change func(*ingest.Config)
		code   string
		says   string
	}{
		{"spool", func(c *ingest.Config) { c.SpoolMaxBytes = 100 << 10 }, "spool_full", "spool-max"},
		{"disk", func(c *ingest.Config) { c.MinFreeDiskBytes = 1 << 60; c.StoreDir = c.SpoolDir }, "disk_low", "free some space"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := brokertest.Start(t, broker.Layout{})
			cfg := ingest.Config{SpoolDir: t.TempDir(), DevKey: devKey, Sources: sources()}
			c.change(&cfg)
			g, err := ingest.New(s, cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer g.Close()
			r := &rig{t: t, streams: s, gateway: g, server: newServer(t, g)}
			for name, body := range map[string]io.Reader{"known length": bytes.NewReader(text),
				"chunked": io.MultiReader(bytes.NewReader(text))} {
				a := r.do("POST", "/api/v1/events/stream", body, "X-GpuFlight-Session-Id", "s")
				if a.status != 503 || a.Code != c.code || a.header.Get("Retry-After") == "" || !strings.Contains(string(a.raw), c.says) ||
					strings.Contains(string(a.raw), "_bytes =") {
					t.Errorf("%s: %d %s", name, a.status, a.raw)
				}
			}
			if left, _ := os.ReadDir(cfg.SpoolDir); len(left) > 0 {
				t.Errorf("files left behind: %v", left)
			}
		})
	}
}

// More uploads of one key than there are seats wait for their turn: a fleet that starts all at once is not sent away.
func TestUploadsWaitForASeat(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.MaxRequests = 8 }) // two seats a key, 34 uploads at most
	text := ndjson("s", 10)
	var wg sync.WaitGroup
	for i := range 30 {
		wg.Go(func() {
			if a := r.post(fmt.Sprintf("s%d", i), bytes.ReplaceAll(text, []byte(`"s"`), fmt.Appendf(nil, `"s%d"`, i))); a.status != 200 {
				t.Errorf("upload %d: %d %s", i, a.status, a.raw)
			}
		})
	}
	wg.Wait()
}

// A window of 128 MiB raw costs a few MiB of heap.
func TestMemoryPerRequest(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a window of 128 MiB")
	}
	r := start(t, broker.Layout{}, nil)
	raw, rows := columnarWindow(1, "s", 4<<20)
	body := compress(t, bytes.Repeat(raw, 32))
	r.post("warm", compress(t, raw), "Content-Encoding", "gzip")
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	stop := watchLive(&peak)
	a := r.post("s", body, "Content-Encoding", "gzip")
	stop()
	runtime.ReadMemStats(&after)
	if a.status != 200 || a.Accepted != uint64(32*rows) || !a.Whole {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	grown := int64(peak.Load()) - int64(before.HeapAlloc)
	t.Logf("%d MiB raw: live heap grew by at most %.1f MiB (client, server and in-process NATS together), %.1f MiB allocated in all",
		32*len(raw)>>20, float64(grown)/(1<<20), float64(after.TotalAlloc-before.TotalAlloc)/(1<<20))
	// NATS' own buffers and stream cache are in this process too; what counts is that it does not grow with the window.
	if grown > 48<<20 {
		t.Errorf("the live heap grew by %d MiB", grown>>20)
	}
}

// watchLive collects and samples the live heap until stop is called.
func watchLive(peak *atomic.Uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var m runtime.MemStats
		for {
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// certificate makes a certificate of 127.0.0.1 and the pool that trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), crand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(crand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
	os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs}), 0o600)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(cert)
	return certFile, keyFile, pool
}

func TestTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Listen, c.TLSCert, c.TLSKey = "127.0.0.1:0", certFile, keyFile })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	res, err := client.Get("https://" + r.gateway.Addr() + "/api/v1/info/version")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	client.CloseIdleConnections()
	stop()
	if err := <-ended; err != nil || res.StatusCode != 200 {
		t.Error(res.Status, err)
	}
	if _, err := ingest.New(r.streams, ingest.Config{Listen: "127.0.0.1:0", TLSCert: certFile}); err == nil {
		t.Error("a certificate without key was taken")
	}
}

// A certificate that is renewed is used by new connections without a restart; while its files are bad, the one of before goes on.
func TestCertificatesAreReadAgain(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.Listen, c.TLSCert, c.TLSKey = "127.0.0.1:0", certFile, keyFile })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.gateway.Run(ctx) }()
	defer func() { stop(); <-ended }()
	shown := func() string {
		t.Helper()
		// Which certificate it is counts here, not who signed it.
		conn, err := tls.Dial("tcp", r.gateway.Addr(), &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return string(conn.ConnectionState().PeerCertificates[0].Raw)
	}
	replace := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(file+".new", text, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	read := func(file string) []byte {
		t.Helper()
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	first := shown()
	nextCert, nextKey, _ := certificate(t)
	replace(certFile, read(nextCert)) // its key comes later: the two are not one pair
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		if shown() != first {
			t.Fatal("a certificate without its key is used")
		}
	}
	replace(keyFile, read(nextKey))
	eventually(t, soon, "the renewed certificate is used", func() bool { return shown() != first })
	second := shown()
	replace(certFile, []byte("no certificate"))
	for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(100 * time.Millisecond) {
		if shown() != second {
			t.Fatal("a bad file is used")
		}
	}
}

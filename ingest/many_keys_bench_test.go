package ingest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// BenchmarkStartWithManyKeys starts a gateway on a NATS that has the records of 10 000 tenants and 100 000 keys, waits until it is ready,
// lets each tenant send once, and reads its metrics.
func BenchmarkStartWithManyKeys(b *testing.B) {
	const tenants, keys = 10_000, 100_000
	s := brokertest.Start(b, broker.Layout{})
	secret := func(i int) string { return fmt.Sprintf("gpfl_%d", i) }
	put := func(key string, record any) {
		text, err := json.Marshal(record)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.JS.PublishMsgAsync(&nats.Msg{Subject: "$KV." + stream.KeysBucket + "." + key, Data: text}); err != nil {
			b.Fatal(err)
		}
	}
	for i := range tenants {
		name := fmt.Sprintf("tenant-%d", i)
		put("tenant."+name, tenant.Record{Name: name, Limits: tenant.Limits{EventsPerSecond: 1000}})
	}
	for i := range keys {
		put(tenant.Hash(secret(i)), tenant.Key{ID: tenant.ID(secret(i)), Tenant: fmt.Sprintf("tenant-%d", i%tenants),
			Limits: tenant.Limits{EventsPerSecond: 100}})
	}
	<-s.JS.PublishAsyncComplete()
	heap := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	for b.Loop() {
		before, began := heap(), time.Now()
		metrics := prometheus.NewRegistry()
		g, err := ingest.New(s, ingest.Config{SpoolDir: b.TempDir(), Sources: sources(), Registerer: metrics})
		if err != nil {
			b.Fatal(err)
		}
		srv := httptest.NewServer(g.Handler())
		waitReady(b, g)
		ready := time.Since(began)
		for i := range tenants {
			req, _ := http.NewRequest(http.MethodPost, srv.URL+"/api/v1/events/stream", http.NoBody)
			req.Header.Set("Authorization", "Bearer "+secret(i))
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode == http.StatusUnauthorized {
				b.Fatalf("key %d: %s", i, resp.Status)
			}
		}
		page, scraped := httptest.NewRecorder(), time.Now()
		promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		b.ReportMetric(ready.Seconds(), "s-ready")
		b.ReportMetric(1000*time.Since(scraped).Seconds(), "ms-scrape")
		b.ReportMetric((heap()-before)/1e6, "MB-heap")
		b.ReportMetric(float64(page.Body.Len())/1e6, "MB-metrics")
		srv.Close()
		g.Close()
	}
}

package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Rows wait in INGEST and ROWS in the order in which they came. So a tenant that sends as fast as it is let, with nobody beside it, has no
// more on its way into SQL than comes there in a few seconds: that is all that the next tenant's rows come behind. A killed sink changes
// neither: what had to wait comes, once.
func TestNextTenantDoesNotWaitBehindAllOfOne(t *testing.T) {
	c := newCluster(t, 1)
	heavy, light := c.makeKey("heavy"), c.makeKey("light")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	post := func(key string, body []byte) {
		for ctx.Err() == nil {
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.gatewayAddr+"/api/v1/events/stream", bytes.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Authorization", "Bearer "+key)
			req.Header.Set("Content-Encoding", "gzip")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				continue
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusOK:
				return
			case http.StatusUnauthorized, http.StatusServiceUnavailable: // the key is not known yet
				time.Sleep(50 * time.Millisecond)
			default:
				t.Errorf("%s", resp.Status)
				return
			}
		}
	}
	kernels := func(tenant string) uint64 {
		return c.one("SELECT count() FROM kernels WHERE tenant = '" + tenant + "'")
	}
	seen := func(tenant string, n uint64, within time.Duration) {
		t.Helper()
		eventually(t, within, tenant+"'s rows", func() (bool, string) { have := kernels(tenant); return have == n, fmt.Sprint(have) })
	}
	post(light, zip(floodKernels("before", 0, 10)))
	seen("light", 10, 3*time.Minute)

	const uploads, batches, perBatch = 24, 35, 10_000
	bodies, raw := make([][]byte, uploads), 0
	for i := range bodies {
		var b bytes.Buffer
		for n := range batches {
			b.Write(floodKernels(fmt.Sprint("heavy-", i), n, perBatch))
		}
		raw += b.Len()
		bodies[i] = zip(b.Bytes())
	}
	began, most := time.Now(), 0.0
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for n := i; n < uploads; n += 2 {
				post(heavy, bodies[n])
			}
		})
	}
	sent := make(chan struct{})
	go func() { wg.Wait(); close(sent) }()
	for done := false; !done; {
		select {
		case <-sent:
			done = true
		case <-time.After(20 * time.Millisecond):
		}
		most = max(most, gatewayGauge(t, c, `warpline_gateway_tenant_used{of="limit-pending-bytes",tenant="heavy"}`))
	}
	took := time.Since(began)
	if pace := float64(raw) / took.Seconds(); most > max(200<<20, 5*pace) {
		t.Errorf("of %d MiB of heavy's %.0f were on their way at once", raw>>20, most/(1<<20))
	}
	at := time.Now()
	post(light, zip(floodKernels("after", 0, 10)))
	seen("light", 20, 3*time.Minute)
	t.Logf("%d MiB were taken in %v, of which at most %.0f MiB were on their way; the next tenant's rows were seen after %v", raw>>20, took,
		most/(1<<20), time.Since(at))
	c.kill("sink")
	c.start("sink")
	seen("heavy", uploads*batches*perBatch, 5*time.Minute)
	seen("light", 20, 3*time.Minute)
}

// gatewayGauge is a series of the gateway's metrics, 0 where it is not there.
func gatewayGauge(t testing.TB, c *cluster, series string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + c.gatewayAddr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(all)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), series+" "); ok {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	return 0
}

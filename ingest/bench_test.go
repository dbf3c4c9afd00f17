package ingest_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/inflate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/tenant"
)

// columnarWindow makes NDJSON of 512-row kernel batches with the 8 columns of the first client, at least size bytes, and tells its rows.
func columnarWindow(seed uint64, session string, size int) (raw []byte, rows int) {
	rng := rand.New(rand.NewPCG(seed, 2))
	zipf := rand.NewZipf(rng, 1.1, 1, 499)
	var b bytes.Buffer
	for batch := 1; b.Len() < size; batch++ {
		fmt.Fprintf(&b, `{"version":1,"type":"kernel_event_batch","session_id":%q,"batch_id":%d,"base_time_ns":%d,`, session, batch,
			1795175929972803352+int64(batch)*5e6)
		b.WriteString(`"columns":["dt_ns","kernel_id","stream_id","duration_ns","corr_id","dyn_shared","num_regs","has_details"],"rows":[`)
		dt := 0
		for i := range 512 {
			if i > 0 {
				b.WriteByte(',')
			}
			kernel := int(zipf.Uint64())
			fmt.Fprintf(&b, "[%d,%d,%d,%d,%d,%d,%d,0]", dt, 1+kernel, 7+rng.IntN(4), 2000+kernel*100+rng.IntN(4000), rows+i,
				1024*(kernel%3), 16*(1+kernel%8))
			dt += int(rng.ExpFloat64() * 10000)
		}
		b.WriteString("]]}\n")
		rows += 512
	}
	return b.Bytes(), rows
}

func compress(t testing.TB, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, 6)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// BenchmarkGateway posts 64 MiB windows over HTTP and counts what both cores do: HTTP, SHA-256, gunzip, counting, S2, and the in-process
// NATS server's writing. The stream is emptied between windows, outside the clock.
func BenchmarkGateway(b *testing.B) {
	for _, parallel := range []int{1, 4} {
		b.Run(fmt.Sprintf("posts=%d", parallel), func(b *testing.B) {
			s := brokertest.Start(b, broker.Layout{IngestMaxBytes: 4 << 30})
			g, err := ingest.New(s, ingest.Config{SpoolDir: b.TempDir(), DevKey: "bench-key-1234", Sources: sources(),
				Defaults: tenant.Limits{EventsPerSecond: 1e12, BytesPerSecond: 1e12}})
			if err != nil {
				b.Fatal(err)
			}
			defer g.Close()
			srv := httptest.NewServer(g.Handler())
			defer srv.Close()
			waitReady(b, g)
			raw, rows := columnarWindow(1, "bench", 64<<20)
			body := compress(b, raw)
			size := len(raw)
			raw = nil
			var peak atomic.Uint64
			stop := watchHeap(&peak)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			n := 0
			b.ResetTimer()
			for b.Loop() {
				done := make(chan error, parallel)
				for range parallel {
					n++
					session := fmt.Sprintf("bench-%d", n)
					go func() { done <- postBench(srv.URL, session, body) }()
				}
				for range parallel {
					if err := <-done; err != nil {
						b.Fatal(err)
					}
				}
				b.StopTimer()
				if err := s.Ingest.Purge(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			stop()
			seconds := b.Elapsed().Seconds()
			total := float64(b.N * parallel)
			b.ReportMetric(total*float64(rows)/seconds, "rows/s")
			b.ReportMetric(total*float64(size)/seconds/1e6, "rawMB/s")
			b.ReportMetric(float64(peak.Load())/(1<<20), "peakMiB")
		})
	}
}

func postBench(url, session string, body []byte) error {
	req, err := http.NewRequest(http.MethodPost, url+"/api/v1/events/stream", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer bench-key-1234")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("X-GpuFlight-Session-Id", session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, _ := io.ReadAll(res.Body)
	if res.StatusCode != http.StatusOK || !bytes.Contains(answer, []byte(`"window_acknowledged":true`)) {
		return fmt.Errorf("%s: %s", res.Status, answer)
	}
	return nil
}

// watchHeap samples the heap in use until stop is called.
func watchHeap(peak *atomic.Uint64) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		var m runtime.MemStats
		for {
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > peak.Load() {
				peak.Store(m.HeapAlloc)
			}
			select {
			case <-done:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() { close(done); <-ended }
}

// BenchmarkBlankLines posts 190 MiB of blank lines in 194 kB of gzip, from the request to the answer. Before blank lines were passed over
// in runs this was some 10 M lines/s.
func BenchmarkBlankLines(b *testing.B) {
	const lines = 190 << 20
	r := start(b, broker.Layout{}, func(c *ingest.Config) {
		c.Defaults = tenant.Limits{EventsPerSecond: 1e12, BytesPerSecond: 1e12, RawBytesPerSecond: 1e12}
	})
	body := compress(b, bytes.Repeat([]byte{'\n'}, lines))
	n := 0
	for b.Loop() {
		n++
		if a := r.post(fmt.Sprint("s", n), body, "Content-Encoding", "gzip"); a.status != http.StatusOK || a.Accepted != 0 {
			b.Fatalf("%d %s", a.status, a.raw)
		}
	}
	b.ReportMetric(lines*float64(n)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkStages measures what one window is mostly made of, each alone; gunzip is the general library, for comparison with inflate.
func BenchmarkStages(b *testing.B) {
	raw, _ := columnarWindow(1, "s", 8<<20)
	body := compress(b, raw)
	b.Logf("ratio %.1f", float64(len(raw))/float64(len(body)))
	b.Run("gunzip", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		var zr gzip.Reader
		buf := make([]byte, 1<<20)
		for b.Loop() {
			zr.Reset(bytes.NewReader(body))
			io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{&zr}, buf)
		}
	})
	b.Run("inflate", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		zr := new(inflate.Reader)
		buf := make([]byte, 1<<20)
		for b.Loop() {
			zr.Reset(bytes.NewReader(body))
			zr.NextMember()
			io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{zr}, buf)
		}
	})
	b.Run("s2", func(b *testing.B) {
		b.SetBytes(1 << 20)
		dst := make([]byte, 2<<20)
		for b.Loop() {
			s2.Encode(dst, raw[:1<<20])
		}
	})
	b.Run("count", func(b *testing.B) {
		line := raw[:bytes.IndexByte(raw, '\n')]
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			gpuflight.CountEvents(line)
		}
	})
}

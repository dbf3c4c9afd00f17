package ingest_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// keyOf makes a key of a tenant and returns its header.
func (r *rig) keyOf(name string, limits tenant.Limits) []string {
	r.t.Helper()
	secret, _, err := ingest.NewKeys(r.streams.Keys).Create(r.t.Context(), name, "", limits, 0)
	if err != nil {
		r.t.Fatal(err)
	}
	return []string{"Authorization", "Bearer " + secret}
}

// Connections that announce 256 MiB and trickle, from two keys of one tenant, hold neither the spool nor the seats from another, and end.
func TestTrickleShutsNobodyOut(t *testing.T) {
	for _, connections := range []int{8, 64, 200} {
		t.Run(fmt.Sprint(connections), func(t *testing.T) {
			r := start(t, broker.Layout{}, func(c *ingest.Config) { c.SlowGrace = 3 * time.Second })
			open := tenant.Limits{BytesPerSecond: 1e12} // what is announced is charged, to the key
			keys := [][]string{r.keyOf("slow", open), r.keyOf("slow", open)}
			other := r.keyOf("other", tenant.Limits{})
			most := 2*time.Second + r.slack(other...)
			var wg sync.WaitGroup
			ended := make(chan string, connections)
			for i := range connections {
				c, err := net.Dial("tcp", r.server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, "POST /api/v1/events/stream HTTP/1.1\r\nHost: x\r\n%s: %s\r\nX-GpuFlight-Session-Id: "+
					"t\r\nContent-Length: %d\r\n\r\n", keys[i%2][0], keys[i%2][1], 256<<20)
				wg.Go(func() {
					for range 30 {
						if _, err := c.Write([]byte("x")); err != nil {
							break
						}
						time.Sleep(200 * time.Millisecond)
					}
				})
				go func() {
					answer := make([]byte, 4096)
					n, _ := c.Read(answer)
					status, _, _ := strings.Cut(string(answer[:n]), "\r\n")
					ended <- status
				}()
			}
			time.Sleep(300 * time.Millisecond)
			for i := range 20 {
				began := time.Now()
				if a := r.post("s", ndjson("s", 2+i), other...); a.status != http.StatusOK || time.Since(began) > most {
					t.Errorf("upload %d of the other tenant: %d after %v: %s", i, a.status, time.Since(began), a.raw)
				}
			}
			if n := r.metric("spool_bytes"); n > 1<<20 {
				t.Errorf("%.0f bytes are reserved for what has not come", n)
			}
			late := 0
			for range connections {
				select {
				case status := <-ended:
					if strings.Contains(status, "408") {
						late++
					} else if !strings.Contains(status, "503") { // waited for a seat for too long
						t.Errorf("a trickling upload got %q", status)
					}
				case <-time.After(60 * time.Second):
					t.Fatal("a trickling upload does not end")
				}
			}
			if late == 0 {
				t.Error("no trickling upload was ended for its speed")
			}
			wg.Wait()
		})
	}
}

// An agent that is slow but comes forward is not sent away.
func TestSlowAgentsPass(t *testing.T) {
	r := start(t, broker.Layout{}, func(c *ingest.Config) { c.SlowGrace, c.LeastSpeed = 200*time.Millisecond, 1<<10 })
	text := ndjson("s", 100)
	body, w := io.Pipe()
	go func() {
		for part := range bytes.Lines(text) {
			w.Write(part)
			time.Sleep(15 * time.Millisecond) // some 6 KiB/s
		}
		w.Close()
	}()
	if a := r.do(http.MethodPost, "/api/v1/events/stream", body, "X-GpuFlight-Session-Id", "s"); a.status != http.StatusOK ||
		a.Accepted != 100 {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// Two hundred million blank lines in 200 kB: what they cost is charged. How little that is: BenchmarkBlankLines.
func TestBlankLinesAreCharged(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	blank := compress(t, bytes.Repeat([]byte{'\n'}, 190<<20))
	key := r.keyOf("blank", tenant.Limits{})
	r.post("warm", ndjson("warm", 1), key...)
	if a := r.post("s", blank, append(key, "Content-Encoding", "gzip")...); a.status != http.StatusOK || a.Accepted != 0 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	a := r.post("s", ndjson("s", 1), key...)
	if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "" || !strings.Contains(a.raw, "limit-events-per-second") {
		t.Errorf("after 199 million lines: %d %s", a.status, a.raw)
	}
	if a := r.post("s", ndjson("s", 1)); a.status != http.StatusOK {
		t.Errorf("another key: %d %s", a.status, a.raw)
	}
	long := compress(t, []byte(`{"type":"x","session_id":"s","a":"`+strings.Repeat(" ", 20<<20)+`"}`+"\n"))
	key = r.keyOf("raw", tenant.Limits{RawBytesPerSecond: 1 << 20})
	r.post("s", long, append(key, "Content-Encoding", "gzip")...)
	if a := r.post("s", ndjson("s", 1), key...); a.status != http.StatusTooManyRequests ||
		!strings.Contains(a.raw, "limit-raw-bytes-per-second") {
		t.Errorf("after 20 MiB: %d %s", a.status, a.raw)
	}
}

// Requests are limited whatever they hold, with a time to come back.
func TestRequestsAreLimited(t *testing.T) {
	r := start(t, broker.Layout{}, nil)
	key := r.keyOf("many", tenant.Limits{RequestsPerSecond: 5, BurstSeconds: 2})
	taken, refused := 0, 0
	for range 60 {
		switch a := r.do(http.MethodPost, "/api/v1/events/stream", nil, append(key, "X-GpuFlight-Session-Id", "s")...); {
		case a.status == http.StatusOK:
			taken++
		case a.status == http.StatusTooManyRequests && a.header.Get("Retry-After") != "" &&
			strings.Contains(a.raw, "limit-requests-per-second = 5"):
			refused++
		default:
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if taken < 10 || refused < 20 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

// What a client does wrong is logged now and then, not once a request.
func TestClientsCannotFloodTheLog(t *testing.T) {
	var text syncBuffer
	r := start(t, broker.Layout{}, func(c *ingest.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelInfo}))
	})
	for i := range 50 {
		r.post("s", ndjson("s", 1+i), "X-GpuFlight-Window-Id", "w")
		r.post("s", ndjson("s", 1), "Content-Encoding", "br")
		r.do(http.MethodGet, "/nothing", nil)
		r.do(http.MethodPost, "/api/v1/events/stream", nil, "Authorization", "Bearer nobody")
		r.do(http.MethodPost, "/api/v1/events/session-complete", nil)
	}
	if n := strings.Count(text.String(), "\n"); n > 20 {
		t.Errorf("%d lines in the log for 250 bad requests:\n%.2000s", n, text.String())
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// One tenant's giant lines fill neither the store nor the way of another's. The bytes of refused lines go first.
func TestGiantLinesOfOneTenantLeaveRoom(t *testing.T) {
	r := start(t, broker.Layout{}, nil) // a store of 64 MiB
	giant := func(n int) []byte {
		return compress(t, fmt.Appendf(nil, `{"type":"cubin_disassembly","session_id":"s","n":%d,"x":"%s"}`+"\n", n,
			strings.Repeat("a", 12<<20)))
	}
	greedy, other := append(r.keyOf("greedy", tenant.Limits{}), "Content-Encoding", "gzip"),
		append(r.keyOf("other", tenant.Limits{}), "Content-Encoding", "gzip")
	stored, refused := 0, 0
	for i := range 8 {
		switch a := r.post("s", giant(i), greedy...); {
		case a.status == http.StatusOK && a.Accepted == 1:
			stored++
		case a.status == http.StatusServiceUnavailable && strings.Contains(a.raw, "its share"):
			refused++
		default:
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if stored == 0 || refused == 0 {
		t.Errorf("%d stored, %d refused", stored, refused)
	}
	if a := r.post("s", giant(100), other...); a.status != http.StatusOK || a.Accepted != 1 {
		t.Errorf("the other tenant: %d %s", a.status, a.raw)
	}
	// A worker has refused the greedy tenant's: they make room, each time.
	for i := range 4 {
		list, err := r.streams.Parts.List(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			if strings.HasPrefix(o.Name, "greedy.") {
				meta := o.ObjectMeta
				meta.Description = stream.KeptForReject
				if err := r.streams.Parts.UpdateMeta(t.Context(), o.Name, meta); err != nil {
					t.Fatal(err)
				}
			}
		}
		if a := r.post("s", giant(10+i), greedy...); a.status != http.StatusOK || a.Accepted != 1 {
			t.Errorf("%d %s", a.status, a.raw)
		}
	}
	if r.metric("reject_bytes_dropped_total", "tenant", "greedy") == 0 || r.metric("reject_bytes_dropped_total", "tenant", "other") != 0 {
		t.Errorf("dropped %.0f and %.0f", r.metric("reject_bytes_dropped_total", "tenant", "greedy"),
			r.metric("reject_bytes_dropped_total", "tenant", "other"))
	}
}

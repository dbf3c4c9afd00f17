package bench

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// door is an HTTP server that behaves as a gateway's clients must expect: it refuses now and then.
type door struct {
	t  *testing.T
	mu sync.Mutex
	// by session and channel: sequence numbers in order of acceptance
	accepted  map[string][]int
	completed map[string]int
	refuse    map[string]int // times to refuse each window
	status    int            // with this
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	h := r.Header
	if h.Get("Authorization") != "Bearer secret" {
		http.Error(w, "no key", http.StatusUnauthorized)
		return
	}
	session := h.Get("X-GpuFlight-Session-Id")
	if r.URL.Path == "/api/v1/events/session-complete" {
		d.completed[session]++
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender gave up elsewhere and closed its connections
	}
	if h.Get("X-GpuFlight-Window-CRC32") != strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10) || h.Get("Content-Encoding") != "gzip" ||
		r.ContentLength != int64(len(body)) {
		d.t.Errorf("headers %v do not fit the body", h)
	}
	if id := h.Get("X-GpuFlight-Window-Id"); d.refuse[id] < 2 {
		d.refuse[id]++
		w.Header().Set("Retry-After", "0")
		http.Error(w, "later", d.status)
		return
	}
	if d.completed[session] > 0 {
		d.t.Error("a window after session-complete")
	}
	seq, err := strconv.Atoi(h.Get("X-GpuFlight-Window-Sequence"))
	if err != nil {
		d.t.Error(err)
	}
	key := session + " " + h.Get("X-GpuFlight-Window-Channel")
	d.accepted[key] = append(d.accepted[key], seq)
	fmt.Fprint(w, `{"accepted":1,"rejected":0,"errors":[],"window_acknowledged":true}`)
}

func send(t *testing.T, status int, key string) (*door, *Data, *sender, error) {
	t.Helper()
	d, err := Generate(context.Background(), Config{Workload: Mixed, Kernels: 8192, Sessions: 2, Seed: 1, WindowBytes: 1 << 20}, t.TempDir(),
		nil)
	if err != nil {
		t.Fatal(err)
	}
	door := &door{t: t, accepted: map[string][]int{}, completed: map[string]int{}, refuse: map[string]int{}, status: status}
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	s := &sender{url: server.URL, key: key}
	return door, d, s, s.send(ctx, d)
}

func TestSenderRetriesAndKeepsOrder(t *testing.T) {
	door, d, s, err := send(t, http.StatusServiceUnavailable, "secret")
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range d.Sessions {
		if door.completed[session.ID] != 1 {
			t.Errorf("session-complete %d times", door.completed[session.ID])
		}
		for c, windows := range session.Windows {
			got := door.accepted[session.ID+" "+Channels[c]]
			if len(got) != len(windows) {
				t.Errorf("channel %s: %d windows of %d", Channels[c], len(got), len(windows))
			}
			for i, seq := range got {
				if seq != i+1 {
					t.Errorf("channel %s arrives in order %v", Channels[c], got)
					break
				}
			}
		}
	}
	if want := 2 * d.Counts.Windows; s.retries.Load() != want {
		t.Errorf("%d retries, want %d", s.retries.Load(), want)
	}
}

func TestSenderGivesUpOnWhatCannotChange(t *testing.T) {
	if _, _, s, err := send(t, http.StatusServiceUnavailable, "wrong"); err == nil || s.retries.Load() != 0 {
		t.Errorf("error %v after %d retries with a wrong key", err, s.retries.Load())
	}
	if _, _, _, err := send(t, http.StatusConflict, "secret"); err == nil {
		t.Error("no error on a conflict")
	}
}

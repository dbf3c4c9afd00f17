package e2e_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// window is one finished window file as the agent finds it.
type window struct {
	session, channel, id string
	sequence             int
	gz                   []byte
}

// post sends one window as the agent does and returns the status and body of the answer; status 0 is a network failure.
func (w *window) post(ctx context.Context, addr, key string, headers bool) (int, string, http.Header) {
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/api/v1/events/stream", bytes.NewReader(w.gz))
	if err != nil {
		return 0, err.Error(), nil
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("X-GpuFlight-Session-Id", w.session)
	req.Header.Set("X-GpuFlight-Hostname", "test-host")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	if headers {
		req.Header.Set("X-GpuFlight-Window-Id", w.id)
		req.Header.Set("X-GpuFlight-Window-Channel", w.channel)
		req.Header.Set("X-GpuFlight-Window-Sequence", strconv.Itoa(w.sequence))
		req.Header.Set("X-GpuFlight-Window-CRC32", strconv.FormatUint(uint64(crc32.ChecksumIEEE(w.gz)), 10))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return resp.StatusCode, string(body), resp.Header
}

// deliver posts until the window is acknowledged, as the agent does but faster than every 5 s.
func (w *window) deliver(ctx context.Context, addr, key string, headers bool) error {
	for {
		status, body, _ := w.post(ctx, addr, key, headers)
		if status/100 == 2 {
			var answer struct {
				Acknowledged bool `json:"window_acknowledged"`
			}
			if err := json.Unmarshal([]byte(body), &answer); err != nil || !answer.Acknowledged {
				return fmt.Errorf("window %s: %d %s", w.id, status, body)
			}
			return nil
		}
		if status != 0 && status != 429 && status/100 != 5 {
			return fmt.Errorf("window %s: %d %s: the agent would retry this for ever", w.id, status, body)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("window %s: %w; last answer %d %s", w.id, ctx.Err(), status, body)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// complete posts session-complete until it is taken.
func complete(ctx context.Context, addr, key, session string) error {
	for {
		req, _ := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/api/v1/events/session-complete", nil)
		req.Header.Set("X-GpuFlight-Session-Id", session)
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("session-complete of %s: %w", session, ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func zip(raw []byte) []byte {
	var b bytes.Buffer
	z, _ := gzip.NewWriterLevel(&b, 1)
	z.Write(raw)
	z.Close()
	return b.Bytes()
}

func unzip(t testing.TB, gz []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(gz))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// vectorWindows reads the windows and sidecars of a folder of testdata/gpuflight, in the order of their names.
func vectorWindows(t testing.TB, folder string) []*window {
	t.Helper()
	sidecars, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "gpuflight", folder, "*", ".gpufl-window.*.json"))
	if err != nil || len(sidecars) == 0 {
		t.Fatalf("no windows of %s: %v", folder, err)
	}
	var out []*window
	for _, path := range sidecars {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var s struct {
			WindowID  string `json:"window_id"`
			SessionID string `json:"session_id"`
			Channel   string `json:"channel"`
			Sequence  int    `json:"window_sequence"`
			File      string `json:"payload_file"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			t.Fatal(err)
		}
		gz, err := os.ReadFile(filepath.Join(filepath.Dir(path), s.File))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, &window{session: s.SessionID, channel: s.Channel, id: s.WindowID, sequence: s.Sequence, gz: gz})
	}
	return out
}

var folders = strings.Fields("trace_default trace_rotated scoped segmented monitor")

package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// postLegacy sends one line as the agent's legacy mode does, again until the answer is a success.
func postLegacy(ctx context.Context, addr, key, channel string, line []byte) error {
	var m struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{"agentSendingTime": time.Now().UnixMilli(), "data": string(line), "type": m.Type, "hostname": "h",
		"ipAddr": "192.0.2.1"})
	if err != nil {
		return err
	}
	for {
		req, err := http.NewRequestWithContext(ctx, "POST", "http://"+addr+"/api/v1/events/"+m.Type, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("X-Topic", "gpu-trace")
		req.Header.Set("X-Key", channel)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		answer, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode/100 == 2 {
			return nil
		}
		if resp.StatusCode != 429 && resp.StatusCode != 503 {
			return fmt.Errorf("%s: %d %s", m.Type, resp.StatusCode, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// The agent's legacy mode, a request a line, ends in the same rows as windows do, each line sent twice.
func TestLegacyModeEqualsWindows(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	key := c.makeKey("legacy")
	o := newOracle(t)
	channels := map[string][][]byte{}
	session := ""
	for _, w := range vectorWindows(t, "scoped") {
		raw := unzip(t, w.gz)
		o.read(raw)
		session = w.session
		for line := range bytes.Lines(raw) {
			channels[w.channel] = append(channels[w.channel], bytes.TrimSpace(line))
		}
	}
	want := o.finish()
	var wg sync.WaitGroup
	for channel, lines := range channels {
		wg.Go(func() {
			for _, line := range lines {
				for range 2 {
					if err := postLegacy(ctx, c.gatewayAddr, key, channel, line); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if err := complete(ctx, c.gatewayAddr, key, session); err != nil {
		t.Error(err)
	}
	check(t, c, "legacy", want, 3*time.Minute)
	checkGroups(t, c, "legacy", o.groups)
}

// One line of every type lands in its table, whether it comes by direct upload or in legacy mode; a type and a column of the future are
// kept and counted.
func TestEveryTypeLands(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	sessions := map[string]*bytes.Buffer{}
	var order []string
	o := newOracle(t)
	for _, name := range []string{"examples_by_type.ndjson", "examples_handbuilt.ndjson"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "..", "testdata", "gpuflight", name))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var m struct {
				Session string `json:"session_id"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			if sessions[m.Session] == nil {
				sessions[m.Session] = &bytes.Buffer{}
				order = append(order, m.Session)
			}
			sessions[m.Session].Write(append(bytes.TrimSpace(line), '\n'))
		}
	}
	for _, s := range order {
		o.read(sessions[s].Bytes())
	}
	const future = `{"version":9,"type":"tensor_memory_batch","session_id":"s","rows":[[1,2]]}
{"version":1,"type":"memcpy_event_batch","session_id":"s","batch_id":77,"base_time_ns":1795175929972800609,"columns":["dt_ns",` +
		`"stream_id","duration_ns","bytes","copy_kind","corr_id","nvlink"],"rows":[[0,7,15000,4096,1,101,42],[1,7,15000,4096,1,102,43]]}
`
	want := o.finish()
	want["rejects|unknown_type "] = 1
	want["memcpys"] += 2
	want["memcpy bytes|HtoD"] += 8192
	want["memcpy ns|HtoD"] += 30000
	for _, mode := range []string{"upload", "legacy"} {
		t.Run(mode, func(t *testing.T) {
			key := c.makeKey(mode)
			for _, s := range order {
				raw := sessions[s].String()
				if s == "s" {
					raw += future
				}
				if mode == "upload" {
					if err := (&window{session: s, gz: zip([]byte(raw))}).deliver(ctx, c.gatewayAddr, key, false); err != nil {
						t.Error(err)
					}
					continue
				}
				for line := range bytes.Lines([]byte(raw)) {
					if err := postLegacy(ctx, c.gatewayAddr, key, "device", bytes.TrimSpace(line)); err != nil {
						t.Error(err)
					}
				}
			}
			check(t, c, mode, want, 3*time.Minute)
			eventually(t, 3*time.Minute, "extra_fields", func() (bool, string) {
				extra, err := c.tryRows(`SELECT field, sum(rows), sum(arraySum(JSONExtract(values, 'Array(UInt64)'))) FROM extra_fields WHERE `+
					`tenant = ? GROUP BY field`, mode)
				got := extra["nvlink"]
				return err == nil && len(got) == 2 && got[0] == 2 && got[1] == 85,
					fmt.Sprintf("%v, want nvlink with 2 rows that add up to 85 (%v)", extra, err)
			})
			eventually(t, 3*time.Minute, "rejects", func() (bool, string) {
				kept, err := c.tryRows(`SELECT payload, events FROM rejects WHERE tenant = ? AND reason = 'unknown_type'`, mode)
				return err == nil && len(kept) == 1, fmt.Sprintf("%v, want the line of a future type, whole (%v)", kept, err)
			})
		})
	}
}

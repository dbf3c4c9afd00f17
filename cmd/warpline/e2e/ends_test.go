package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Sessions end as they did: clients that died with their last event, whatever their agent says and when, with windows and a line at a
// time; trackers as their summaries, manifests and events of type stop tell, in any order, with a worker killed between.
func TestSessionsEndAsTheyDid(t *testing.T) {
	c := newCluster(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	key := c.makeKey("ends")
	c.makeKey("other")
	ends := func(want map[string]string) {
		t.Helper()
		conn := c.open()
		defer conn.Close()
		eventually(t, 3*time.Minute, "the sessions", func() (bool, string) {
			rows, err := conn.Query(ctx, "SELECT toString(session_id), concat(toString(source), ' ', state, ' ', toString(end_reason)), "+
				"toUnixTimestamp64Nano(ended_at), toUnixTimestamp64Nano(last_event_at) FROM sessions WHERE tenant = 'ends'")
			if err != nil {
				return false, err.Error()
			}
			defer rows.Close()
			got := map[string]string{}
			for rows.Next() {
				var id, row string
				var ended, last int64
				if err := rows.Scan(&id, &row, &ended, &last); err != nil {
					t.Fatal(err)
				}
				at := fmt.Sprint(ended)
				if ended == last {
					at = "last event"
				}
				got[id] = row + " " + at
			}
			for id, row := range want {
				if got[id] != row {
					return false, fmt.Sprintf("%s is %q, want %q", id, got[id], row)
				}
			}
			return len(got) == len(want), fmt.Sprint(got)
		})
	}

	// The client dies: nothing that it wrote says so.
	const windows, single = "dbca9991-838e-4545-b1e3-570e3dac0e39", "legacy-died"
	died, later := filepath.Join(t.TempDir(), windows), filepath.Join(t.TempDir(), windows)
	var lines, lost [][]byte // of the one that comes a line at a time
	shutdown := int64(0)
	for _, w := range vectorWindows(t, "trace_default") {
		var kept, gone bytes.Buffer
		for line := range bytes.Lines(unzip(t, w.gz)) {
			var m struct {
				Type string
				TS   int64 `json:"ts_ns"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatal(err)
			}
			if m.Type != "shutdown" {
				kept.Write(line)
				continue
			}
			shutdown = m.TS
			gone.Write(line)
		}
		for dir, b := range map[string]*bytes.Buffer{died: &kept, later: &gone} {
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, w.channel+".1.log"), b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if w.channel == "system" {
			text := strings.ReplaceAll(kept.String(), windows, single)
			lines = bytes.SplitAfter([]byte(text[:strings.LastIndexByte(text, '\n')]), []byte("\n"))
			lost = [][]byte{[]byte(strings.ReplaceAll(gone.String(), windows, single))}
		}
	}
	if shutdown == 0 {
		t.Fatal("the capture has no shutdown")
	}
	post := func(lines [][]byte) {
		t.Helper()
		for _, line := range lines {
			if err := postLegacy(ctx, c.gatewayAddr, key, "system", bytes.TrimSpace(line)); err != nil {
				t.Fatal(err)
			}
		}
	}
	done := func(session string) {
		t.Helper()
		for range 2 {
			if err := complete(ctx, c.gatewayAddr, key, session); err != nil {
				t.Fatal(err)
			}
		}
	}
	done(single) // before anything else of it
	post(lines[:len(lines)/2])
	c.sendTelemetry(t, key, died)
	done(windows)

	// Trackers.
	root := filepath.Join("..", "..", "..", "testdata", "telemetry", "v4", "exports")
	for _, name := range []string{"cpu_tracker_events.json", "cpu_sink_killed", "oom_bundle", "tf_track.json"} {
		c.sendTelemetry(t, key, filepath.Join(root, name))
	}
	c.kill("worker0")
	if said := c.sendTelemetry(t, key, filepath.Join(root, "cpu_sink")); !strings.Contains(said,
		"session 86b9864a-a6c3-4dd7-9bb1-cf3c752686a8 is completed") {
		t.Errorf("send says %s", said)
	}
	c.sendTelemetry(t, key, filepath.Join(root, "cpu_tracker_events.csv"))
	c.start("worker0")
	want := map[string]string{
		windows: "gpu-flight crashed no_shutdown last event",
		single:  "gpu-flight crashed no_shutdown last event",
		"mem:86b9864a-a6c3-4dd7-9bb1-cf3c752686a8": "telemetry complete completed 1795312884859404214",
		"mem:29df3a28-8005-4d5b-8b0d-b8a1e85577f7": "telemetry open  0",
		"mem:5d2b0d51-0c53-4b1a-9d51-2b4e0d1f7a10": "telemetry open  0",
		"mem:c80d5583-7098-41e5-ba9d-78da10109b61": "telemetry complete stop last event",
	}
	ends(want)

	// What came late still tells.
	c.sendTelemetry(t, key, later)
	post(append(lines[len(lines)/2:], lost...))
	reopened := filepath.Join(t.TempDir(), "sink")
	if err := os.CopyFS(reopened, os.DirFS(filepath.Join(root, "cpu_sink_killed"))); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(reopened, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer(`"status": "running"`, `"status": "interrupted"`, `"ended_at_ns": null`, `"ended_at_ns": 1795313700000000001`).
		Replace(string(manifest))
	if err := os.WriteFile(filepath.Join(reopened, "manifest.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c.sendTelemetry(t, key, reopened)
	c.sendTelemetry(t, key, filepath.Join(root, "cpu_sink_killed")) // an older copy of the folder
	want[windows] = "gpu-flight complete shutdown last event"
	want[single] = want[windows]
	want["mem:29df3a28-8005-4d5b-8b0d-b8a1e85577f7"] = "telemetry crashed interrupted 1795313700000000001"
	ends(want)
	out, err := exec.Command(binary, append([]string{"report", "--json", "--tenant", "ends"}, c.asking()...)...).Output()
	if err != nil {
		t.Fatalf("report: %v", err)
	}
	var report struct {
		Sessions []struct {
			ID    string `json:"session_id"`
			State string
			Ended time.Time `json:"ended_at"`
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		t.Fatal(err)
	}
	for _, s := range report.Sessions {
		if !strings.Contains(want[s.ID], " "+s.State+" ") || s.ID == windows && s.Ended.UnixNano() != shutdown {
			t.Errorf("report: %+v, want %s", s, want[s.ID])
		}
	}
	if len(report.Sessions) != len(want) {
		t.Errorf("report has %d sessions: %.300s", len(report.Sessions), out)
	}
}

package main

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// With --path-prefix everything answers with the prefix and without it. So "send --data" needs to know of none, and neither does GPU
// Flight's own client, which leaves the path of an address out: given http://host/profiler it posts to http://host/api/v1/events/stream.
func TestPathPrefixIsServedToo(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, upArgs(dir, "--path-prefix", "/profiler")...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	base := "http://" + r.Gateway
	if said := up.words.String(); !strings.Contains(said, base+"/profiler") {
		t.Errorf("the banner does not say where to send:\n%s", said)
	}
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ready", "/metrics": "warpline_gateway_requests_total", "/api/v1/info/version": `"supported":["1"]`,
		"/api/v1/telemetry/schema": "$schema",
	} {
		for _, prefix := range []string{"", "/profiler"} {
			if got := get(t, base+prefix+path); !strings.Contains(got, want) {
				t.Errorf("%s%s: %.100s", prefix, path, got)
			}
		}
	}
	const session = "../../testdata/gpuflight/"
	for _, args := range [][]string{
		{session + "trace_default", "--data", dir}, {session + "scoped", "--url", base + "/profiler", "--data", dir},
		{session + "monitor", "--url", base + "/profiler/", "--data", dir},
		{"../../testdata/telemetry/exports/cpu_tracker_events.json", "--data", dir},
	} {
		if sent := runIn(t, nil, append([]string{"send", "--attempts", "1"}, args...)...); sent.code != exitOK {
			t.Errorf("send %v: %+v", args, sent)
		}
	}
	window, err := os.ReadFile(session + "trace_default/dbca9991-838e-4545-b1e3-570e3dac0e39/device.1.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "/profiler"} { // as gpufl 1.3 does: without and with its api_path
		req, err := http.NewRequest(http.MethodPost, base+prefix+"/api/v1/events/stream", strings.NewReader(string(window)))
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range map[string]string{"Authorization": "Bearer dev-key-of-the-test", "Content-Encoding": "gzip",
			"Content-Type":           "application/x-ndjson",
			"X-GpuFlight-Session-Id": "dbca9991-838e-4545-b1e3-570e3dac0e39", "User-Agent": "gpufl-client/1.3.0rc6 (deferred-upload)"} {
			req.Header.Set(k, v)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusOK || !strings.Contains(string(text), `"window_acknowledged":true`) {
			t.Errorf("%q: %d %s", prefix, res.StatusCode, text)
		}
	}
}

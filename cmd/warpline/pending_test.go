package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/service"
)

// What is accepted is not pending for ever, whatever becomes of it: rows, rejects alone, duplicates alone, or names alone.
func TestPendingBytesEnd(t *testing.T) {
	dir := dataFolder(t)
	up := launch(t, append(upArgs(dir), "--limit-pending-bytes", "1KiB")...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	post := func(body string) (int, string) {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, "http://"+r.Gateway+"/api/v1/events/stream", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer dev-key-of-the-test")
		req.Header.Set("X-GpuFlight-Session-Id", "s")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	var kernels, names strings.Builder
	for i := range 50 {
		fmt.Fprintf(&kernels, `{"type":"kernel_event","session_id":"s","name":"gemm","start_ns":%d,"duration_ns":5,"corr_id":%d}`+"\n",
			1795175929972803352+i, i)
		fmt.Fprintf(&names, `{"version":1,"type":"dictionary_update","session_id":"s","kernel_dict":{"%d":"name %[1]d"}}`+"\n", i+1)
	}
	seen := false
	for _, c := range []struct{ what, body string }{
		{"rows", kernels.String()}, {"duplicates", "\n" + kernels.String()}, {"rejects", strings.Repeat("no JSON\n", 500)},
		{"the same rejects", "\n" + strings.Repeat("no JSON\n", 500)}, {"names", names.String()}, {"blank lines", strings.Repeat("\n", 4000)},
		{"rows at last", kernels.String() + kernels.String()},
	} {
		var status int
		var text string
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if status, text = post(c.body); status == http.StatusOK || time.Now().After(deadline) {
				break
			}
			if seen = true; status != http.StatusTooManyRequests || !strings.Contains(text, "limit-pending-bytes = 1024") {
				t.Fatalf("%s: %d %s", c.what, status, text)
			}
		}
		if status != http.StatusOK {
			t.Fatalf("before %s something is pending for ever: %d %s", c.what, status, text)
		}
	}
	if !seen {
		t.Error("nobody ever waited")
	}
}

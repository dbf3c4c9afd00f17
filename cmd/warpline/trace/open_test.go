package trace_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/trace"
)

// safeBuffer is a buffer that is written and read at once.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// The file is served to Perfetto's viewer alone, under its whole path, and no longer than the command runs.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a trace.json")
	if err := os.WriteFile(path, []byte("[]"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var out safeBuffer
	ended := make(chan error, 1)
	go func() { ended <- (&trace.Open{Path: path, Listen: "127.0.0.1:0"}).Run(ctx, &out, io.Discard) }()
	for deadline := time.Now().Add(60 * time.Second); !strings.Contains(out.String(), "\n"); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no link")
		}
	}
	_, link, ok := strings.Cut(strings.TrimSpace(out.String()), "https://ui.perfetto.dev/#!/?url=")
	if !ok {
		t.Fatal(out.String())
	}
	host := strings.Split(link, "/")[2]
	const ui = "https://ui.perfetto.dev"
	for name, c := range map[string]struct {
		method, url, origin, host string
		status                    int
		allowed                   bool
	}{
		"the viewer":        {"GET", link, ui, "", 200, true},
		"its head":          {"HEAD", link, ui, "", 200, true},
		"its question":      {"OPTIONS", link, ui, "", 204, true},
		"no origin":         {"GET", link, "", "", 200, true},
		"another page":      {"GET", link, "https://evil.example", "", 404, false},
		"another question":  {"OPTIONS", link, "https://evil.example", "", 404, false},
		"another path":      {"GET", "http://" + host + "/guess/a%20trace.json", ui, "", 404, false},
		"the root":          {"GET", "http://" + host + "/", ui, "", 404, false},
		"a query":           {"GET", link + "?x=1", ui, "", 404, false},
		"another host name": {"GET", link, ui, "evil.example:9001", 404, false},
		"a write":           {"POST", link, ui, "", 405, true},
	} {
		req, err := http.NewRequest(c.method, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.origin != "" {
			req.Header.Set("Origin", c.origin)
		}
		req.Host = c.host
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		allow := res.Header.Get("Access-Control-Allow-Origin")
		if res.StatusCode != c.status || (allow == ui) != c.allowed || allow != "" && allow != ui {
			t.Errorf("%s: %d, allows %q", name, res.StatusCode, allow)
		}
		if (string(body) == "[]") != (c.method == "GET" && c.status == 200) {
			t.Errorf("%s: body %q", name, body)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(link); err == nil {
		t.Error("it is served still")
	}
	if err := (&trace.Open{Path: t.TempDir(), Listen: "127.0.0.1:0"}).Run(t.Context(), io.Discard, io.Discard); err == nil {
		t.Error("a folder was served")
	}
}

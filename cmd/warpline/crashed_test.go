package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// What a client that died was writing is sent behind its windows; what a client still writes is named, and its session is not told
// complete.
func TestSendOfACrashedSession(t *testing.T) {
	var mu sync.Mutex
	var got []string
	door := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, filepath.Base(r.URL.Path)+" "+r.Header.Get("X-GpuFlight-Session-Id")+" "+string(body))
		io.WriteString(w, `{"accepted":1,"rejected":0,"errors":[],"window_acknowledged":true}`)
	}))
	defer door.Close()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("crashed/device.1.log", "{\"n\":1}\n")
	write("crashed/.tmp/device.log", "{\"n\":2}\n{\"to")
	write("crashed/.tmp/scope.log", "")
	write("crashed/.tmp/device.2.log.gz.part", "?")
	write("crashed/.gpufl-session.lock", "")
	write("early/.tmp/system.log", "{\"n\":3}\n") // it died before its first window
	write("running/device.1.log", "{\"n\":4}\n")
	write("running/.tmp/device.log", "{\"n\":5}\n")
	lock := write("running/.gpufl-session.lock", "")
	// The client's lock is a record lock of its own process.
	holder := exec.Command("python3", "-c", "import fcntl,sys\nf=open(sys.argv[1],'r+')\nfcntl.lockf(f,fcntl.LOCK_EX)\nprint('held',"+
		"flush=True)\nsys.stdin.read()", lock)
	in, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Skipf("no python3 to hold a lock as another process: %v", err)
	}
	t.Cleanup(func() { in.Close(); holder.Wait() })
	if n, err := out.Read(make([]byte, 8)); n == 0 {
		t.Fatal(err)
	}
	send := func() string {
		t.Helper()
		mu.Lock()
		got = nil
		mu.Unlock()
		r := runIn(t, nil, "send", dir, "--url", door.URL, "--key", "k", "--attempts", "1", "--retry", time.Millisecond.String())
		if r.code != exitOK {
			t.Fatalf("%+v", r)
		}
		return r.stderr
	}
	said := send()
	want := []string{"stream crashed {\"n\":1}\n", "stream crashed {\"n\":2}\n{\"to", "session-complete crashed ", "stream early {\"n\":3}\n",
		"session-complete early ", "stream running {\"n\":4}\n"}
	if !slices.Equal(got, want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	for _, w := range []string{"not sent: crashed/.tmp/device.2.log.gz.part of session crashed",
		"not sent: running/.tmp/device.log of session running is still being written"} {
		if !strings.Contains(said, w) {
			t.Errorf("it does not say %q:\n%s", w, said)
		}
	}
	in.Close()
	holder.Wait()
	said = send()
	if strings.Contains(said, "still being written") || !slices.Contains(got, "stream running {\"n\":5}\n") ||
		!slices.Contains(got, "session-complete running ") {
		t.Errorf("once the client has died: %q\n%s", got, said)
	}
}

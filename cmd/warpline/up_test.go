package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/admin"
	"github.com/warpline/warpline/cmd/warpline/service"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

// output is a bytes.Buffer for several goroutines.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// launched is a command that runs until it is stopped.
type launched struct {
	out, words output
	signals    chan os.Signal
	exited     chan int
	exitCalled chan int
}

func launch(t *testing.T, args ...string) *launched {
	t.Helper()
	if slices.Contains([]string{"up", "demo", "engine"}, args[0]) {
		enginetest.Need(t)
	}
	s := &launched{signals: make(chan os.Signal, 2), exited: make(chan int, 1), exitCalled: make(chan int, 1)}
	p := &program{Stdin: neverEnds{}, Stdout: &s.out, Stderr: &s.words, Signals: s.signals, Exit: func(code int) { s.exitCalled <- code }}
	go func() { s.exited <- p.run(args) }()
	t.Cleanup(func() { s.stop(t) })
	return s
}

// neverEnds is a stdin that somebody holds open.
type neverEnds struct{}

func (neverEnds) Read([]byte) (int, error) { select {} }

// await returns once want stands in what the service says.
func (s *launched) await(t *testing.T, want string) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute) // the very first start fetches the engine
	for !strings.Contains(s.words.String(), want) {
		select {
		case code := <-s.exited:
			s.exited <- code
			t.Fatalf("ended with %d before it said %q:\n%s", code, want, s.words.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("never said %q:\n%s", want, s.words.String())
		}
	}
}

// stop interrupts it once and returns its exit code. Stopping twice returns the same.
func (s *launched) stop(t *testing.T) int {
	t.Helper()
	select {
	case s.signals <- syscall.SIGINT:
	default:
	}
	select {
	case code := <-s.exited:
		s.exited <- code
		return code
	case <-time.After(60 * time.Second):
		t.Fatalf("did not stop:\n%s", s.words.String())
		return -1
	}
}

func upArgs(dir string, more ...string) []string {
	return append([]string{"up", "--data", dir, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--clickhouse-http-port",
		"0", "--clickhouse-tcp-port", "0",
		"--dev-key", "dev-key-of-the-test", "--ingest-max", "64MiB", "--rows-max", "64MiB", "--bucket-max", "16MiB"}, more...)
}

// dataFolder is a folder for upArgs whose ClickHouse has the schema already, where a first start is not what a test is about.
func dataFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	tabletest.Furnish(t, filepath.Join(dir, "clickhouse"))
	return dir
}

// serving launches up on a folder and waits until it is ready; sql is the address of its ClickHouse for user reader.
func serving(t *testing.T, dir string) (up *launched, r service.Running, sql string) {
	t.Helper()
	up = launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil {
		t.Fatal(err)
	}
	return up, r, asReader(t, dir, r.ClickHouseHTTP)
}

// runAt returns what runs a command on a folder, and fails the test unless it exits with the code.
func runAt(t *testing.T, dir string) func(code int, args ...string) ran {
	return func(code int, args ...string) ran {
		t.Helper()
		got := runIn(t, nil, append(args, "--data", dir)...)
		if got.code != code {
			t.Fatalf("%v: %+v, want exit %d", args, got, code)
		}
		return got
	}
}

// asReader is the HTTP address of a ClickHouse with the reader's name and password, which is in dir.
func asReader(t *testing.T, dir, addr string) string {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(dir, engine.ReaderSecret))
	if err != nil {
		t.Fatal(err)
	}
	return engine.Reader + ":" + strings.TrimSpace(string(password)) + "@" + addr
}

func query(t *testing.T, addr, sql string) string {
	t.Helper()
	resp, err := http.Post("http://"+addr+"/", "text/plain", strings.NewReader(sql))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d %s %v", sql, resp.StatusCode, b, err)
	}
	return strings.TrimSpace(string(b))
}

// balanced runs an audit until it finds nothing: one may look while the worker or the sink still have something to do.
func balanced(t *testing.T, args ...string) ran {
	t.Helper()
	for began := time.Now(); ; time.Sleep(min(max(time.Since(began)/8, 200*time.Millisecond), time.Second)) {
		got := runIn(t, nil, append([]string{"audit"}, args...)...)
		if got.code == exitOK {
			return got
		}
		if time.Since(began) > 60*time.Second {
			t.Fatalf("%+v", got)
		}
	}
}

// settled waits until all that was accepted is in SQL, and an audit finds nothing.
func settled(t *testing.T, dir string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(min(max(time.Since(began)/8, 200*time.Millisecond), time.Second)) {
		got := runIn(t, nil, "audit", "--json", "--data", dir)
		var proof struct{ Usage []struct{ Pending uint64 } }
		err := json.Unmarshal([]byte(got.stdout), &proof)
		if err == nil && got.code == exitOK && !slices.ContainsFunc(proof.Usage, func(u struct{ Pending uint64 }) bool { return u.Pending > 0 }) {
			return
		}
		if time.Since(began) > 60*time.Second {
			t.Fatalf("%+v %v", got, err)
		}
	}
}

// eventually asks until the answer is want.
func eventually(t *testing.T, addr, sql, want string) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		got := query(t, addr, sql)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s gives %s, want %s", sql, got, want)
		}
		time.Sleep(30 * time.Millisecond)
	}
}

// A day in the life of `warpline up`: keys, data, a second process on the folder, a killed engine, an end, and a second start.
func TestUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	up := launch(t, upArgs(dir)...)
	up.await(t, "msg=ready")
	r, err := service.ReadRunning(dir)
	if err != nil || r.PID != os.Getpid() {
		t.Fatalf("warpline.json: %+v, %v", r, err)
	}
	sql := asReader(t, dir, r.ClickHouseHTTP)
	for _, name := range []string{"warpline.json", "key", engine.ReaderSecret, engine.WriterSecret} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	secret, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil || !strings.HasPrefix(string(secret), "gpfl_") {
		t.Fatalf("key file: %q, %v", secret, err)
	}
	said := up.words.String()
	for _, w := range []string{"http://" + r.Gateway, "http://" + r.ClickHouseHTTP,
		"-u \"reader:$(cat " + filepath.Join(dir, engine.ReaderSecret), filepath.Join(dir, "key"), "os: survives kill -9",
		"gRPC " + r.GatewayGRPC} {
		if !strings.Contains(said, w) {
			t.Errorf("the banner lacks %q:\n%s", w, said)
		}
	}
	// "ready" means that the tables are there,
	if got := query(t, sql, "SELECT count() FROM warpline.kernels"); got != "0" {
		t.Errorf("kernels: %s", got)
	}
	// and that uploads are taken at once: no try is repeated.
	if sent := runIn(t, nil, "send", "../../testdata/gpuflight/trace_default", "--url", "http://"+r.Gateway, "--key", "dev-key-of-the-test",
		"--attempts", "1"); sent.code != exitOK {
		t.Errorf("right after ready: %+v", sent)
	}
	if strings.Contains(said, strings.TrimSpace(string(secret))) || strings.Contains(said, "dev-key-of-the-test") {
		t.Error("a key shows in the output")
	}

	t.Run("second process", func(t *testing.T) {
		r := runIn(t, nil, upArgs(dir)...)
		if r.code != exitFailed || !strings.Contains(r.stderr, "another warpline is using it") || !strings.Contains(r.stderr, "--data") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("used ports", func(t *testing.T) {
		_, gatewayPort, _ := net.SplitHostPort(r.Gateway)
		_, httpPort, _ := net.SplitHostPort(r.ClickHouseHTTP)
		_, tcpPort, _ := net.SplitHostPort(r.ClickHouse)
		for flag, value := range map[string]string{"--listen": "127.0.0.1:" + gatewayPort, "--clickhouse-http-port": httpPort,
			"--clickhouse-tcp-port": tcpPort} {
			got := runIn(t, nil, upArgs(filepath.Join(t.TempDir(), "other"), flag, value)...)
			if got.code != exitFailed || !strings.Contains(got.stderr, flag) || !strings.Contains(got.stderr, "in use") {
				t.Errorf("%s: %+v", flag, got)
			}
		}
	})
	t.Run("keys", func(t *testing.T) {
		made := runIn(t, nil, "key", "create", "acme", "--data", dir, "--note", "from the test", "--expires", "1h")
		if made.code != exitOK || !strings.HasPrefix(made.stdout, "gpfl_") || strings.Count(made.stdout, "\n") != 1 {
			t.Fatalf("%+v", made)
		}
		key := strings.TrimSpace(made.stdout)
		sent := runIn(t, nil, "send", "../../testdata/gpuflight/scoped", "--url", "http://"+r.Gateway, "--key", key, "--attempts", "20",
			"--retry", "100ms")
		if sent.code != exitOK {
			t.Fatalf("%+v", sent)
		}
		future, err := http.NewRequest("POST", "http://"+r.Gateway+"/api/v1/events/stream",
			strings.NewReader(`{"type":"from_the_future","session_id":"s"}`+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		future.Header.Set("Authorization", "Bearer "+key)
		future.Header.Set("X-GpuFlight-Session-Id", "s")
		if res, err := http.DefaultClient.Do(future); err != nil || res.StatusCode != 200 {
			t.Errorf("%v %v", res, err)
		} else {
			res.Body.Close()
		}
		list := runIn(t, nil, "key", "list", "--data", dir)
		if !strings.Contains(sent.stderr, "of 1 session taken") || strings.Contains(sent.stderr, "accepted") {
			t.Errorf("it says %s", sent.stderr)
		}
		if !strings.Contains(list.stdout, "from the test") || strings.Contains(list.stdout, key) {
			t.Errorf("%+v", list)
		}
		if got := runIn(t, nil, "key", "revoke", key, "--data", dir); got.code != exitOK {
			t.Errorf("%+v", got)
		}
		deadline := time.Now().Add(60 * time.Second)
		for {
			got := runIn(t, nil, "send", "../../testdata/gpuflight/scoped", "--url", "http://"+r.Gateway, "--key", key)
			if got.code == exitRefused && strings.Contains(got.stderr, "warpline key create") {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("a revoked key still works: %+v", got)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if list := runIn(t, nil, "key", "list", "--data", dir); !regexp.MustCompile(`acme +ingest +revoked +`).MatchString(list.stdout) {
			t.Errorf("%s", list.stdout)
		}
		eventually(t, sql, "SELECT count() FROM warpline.kernels WHERE tenant = 'acme'", "220")
	})
	t.Run("dev key", func(t *testing.T) {
		sent := runIn(t, nil, "send", "../../testdata/gpuflight/trace_default", "--url", "http://"+r.Gateway, "--key", "dev-key-of-the-test",
			"--attempts", "20", "--retry", "100ms")
		if sent.code != exitOK {
			t.Fatalf("%+v", sent)
		}
		eventually(t, sql, "SELECT count() FROM warpline.kernels WHERE tenant = 'dev'", "300")
	})
	t.Run("report", func(t *testing.T) {
		// their tables may come after that of the kernels
		eventually(t, sql, "SELECT sum(kernels) FROM warpline.sessions WHERE tenant = 'acme'", "220")
		eventually(t, sql, "SELECT sum(calls + synthetic_calls + disturbed_calls) FROM warpline.kernel_stats WHERE tenant = 'acme'", "220")
		eventually(t, sql, "SELECT sum(events) FROM warpline.rejects WHERE tenant = 'acme' AND reason = 'unknown_type'", "1")
		got := runIn(t, nil, "report", "--data", dir, "--tenant", "acme")
		if got.code != exitOK || !strings.Contains(got.stdout, "kernels 220") || strings.ContainsRune(got.stdout, '\x1b') {
			t.Errorf("%+v", got)
		}
		if got := runIn(t, nil, "report", "--data", dir, "--tenant", "acme", "--json"); !strings.Contains(got.stdout, `"kernel_calls": 220`) {
			t.Errorf("%+v", got)
		}
		if got := runIn(t, nil, "report", "--data", dir, "--session", "nosuch"); got.code != exitFailed || got.stdout != "" ||
			!strings.Contains(got.stderr, `no session begins with "nosuch"`) {
			t.Errorf("%+v", got)
		}
		if got := runIn(t, nil, "reject", "list", "--data", dir, "--tenant", "acme", "--json"); !strings.Contains(got.stdout,
			`"reason":"unknown_type"`) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("engine killed", func(t *testing.T) {
		before := strings.TrimSpace(query(t, sql, "SELECT count() FROM warpline.kernels"))
		pid := enginePID(t, dir)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		up.await(t, "over: the ClickHouse engine answers again")
		if n := strings.Count(up.words.String(), "trouble: the ClickHouse engine is down"); n != 1 {
			t.Errorf("said %d times that the engine is down", n)
		}
		eventually(t, sql, "SELECT count() FROM warpline.kernels", before)
	})
	t.Run("audit", func(t *testing.T) {
		if got := balanced(t, "--data", dir); !strings.Contains(got.stdout, "kernels_data") {
			t.Errorf("%+v", got)
		}
	})

	if code := up.stop(t); code != exitOK {
		t.Fatalf("exit %d:\n%s", code, up.words.String())
	}
	said = up.words.String()
	at := -1
	for _, part := range []string{"gateway", "worker", "sink", "nats", "engine"} { // from the edge inwards
		i := strings.Index(said, "msg=stopped part="+part)
		if i < at {
			t.Errorf("%s stopped out of order", part)
		}
		at = i
		if i < 0 {
			t.Errorf("%s did not say that it stopped", part)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "warpline.json")); err == nil {
		t.Error("warpline.json is still there")
	}
	if got := runIn(t, nil, "key", "list", "--data", dir); got.code != exitOK || !strings.Contains(got.stdout, "acme") {
		t.Errorf("keys cannot be listed while nothing runs: %+v", got)
	}
	if got := runIn(t, nil, "report", "--data", dir); got.code != exitUnreachable || !strings.Contains(got.stderr, "warpline up --data") {
		t.Errorf("%+v", got)
	}

	again := launch(t, upArgs(dir)...)
	again.await(t, "msg=ready")
	if r, err = service.ReadRunning(dir); err != nil {
		t.Fatal(err)
	}
	sql = asReader(t, dir, r.ClickHouseHTTP)
	if got := query(t, sql, "SELECT count() FROM warpline.kernels"); got != "520" {
		t.Errorf("after the second start there are %s kernels", got)
	}
	if kept, err := os.ReadFile(filepath.Join(dir, "key")); err != nil || !bytes.Equal(kept, secret) {
		t.Errorf("the key changed: %v", err)
	}
}

func enginePID(t *testing.T, dir string) int {
	t.Helper()
	// ClickHouse writes its process id into the file that it locks.
	b, err := os.ReadFile(filepath.Join(dir, "clickhouse", "data", "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "PID: "); ok {
			pid := 0
			for _, c := range strings.TrimSpace(rest) {
				pid = 10*pid + int(c-'0')
			}
			if pid > 1 && pid != os.Getpid() {
				return pid
			}
		}
	}
	t.Fatalf("no PID in %q", b)
	return 0
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	s := launch(t, "nats", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	s.await(t, "msg=ready")
	s.signals <- syscall.SIGINT
	s.signals <- syscall.SIGINT
	select {
	case code := <-s.exitCalled:
		if code != exitStopped {
			t.Errorf("exit %d, want %d", code, exitStopped)
		}
	case code := <-s.exited: // it had ended before the second signal was looked at
		s.exited <- code
	case <-time.After(60 * time.Second):
		t.Error("two signals did not stop it")
	}
}

// The roles apart, each as its own command, do together what `up` does.
func TestRolesApart(t *testing.T) {
	nats := launch(t, "nats", "--data", t.TempDir(), "--listen", "127.0.0.1:0")
	nats.await(t, "msg=ready")
	natsURL := "nats://" + field(t, nats, "addr")
	dir := t.TempDir()
	ch := launch(t, "engine", "--data", dir, "--clickhouse-http-port", "0", "--clickhouse-tcp-port", "0")
	ch.await(t, "msg=ready")
	http, tcp := field(t, ch, "http"), field(t, ch, "addr")
	streams := []string{"--nats", natsURL, "--ingest-max", "64MiB", "--rows-max", "64MiB", "--bucket-max", "16MiB"}
	gateway := launch(t, append([]string{"gateway", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--dev-key-file",
		secretFile(t, "the-dev-key\n"), "--admin-listen", "127.0.0.1:0", "--clickhouse", tcp, "--clickhouse-user", engine.Reader,
		"--clickhouse-password-file", filepath.Join(dir, engine.ReaderSecret)}, streams...)...)
	worker := launch(t, append([]string{"worker"}, streams...)...)
	sink := launch(t, append([]string{"sink", "--clickhouse", tcp, "--clickhouse-http", http, "--clickhouse-user", "warpline",
		"--clickhouse-password-file", filepath.Join(dir, "writer-password")}, streams...)...)
	for _, s := range []*launched{gateway, worker, sink} {
		s.await(t, "msg=ready")
	}
	sent := runIn(t, nil, "send", "../../testdata/gpuflight/monitor", "--url", "http://"+field(t, gateway, "addr"), "--key", "the-dev-key",
		"--attempts", "50", "--retry", "100ms")
	if sent.code != exitOK {
		t.Fatalf("%+v\n%s", sent, gateway.words.String())
	}
	deadline := time.Now().Add(60 * time.Second)
	sql := asReader(t, dir, http)
	for query(t, sql, "EXISTS TABLE warpline.kernels") != "1" {
		if time.Now().After(deadline) {
			t.Fatalf("no tables:\n%s", sink.words.String())
		}
		time.Sleep(50 * time.Millisecond)
	}
	eventually(t, sql, "SELECT count() FROM warpline.kernels", "500")
	if got := get(t, "http://"+field(t, gateway, "metrics")+"/metrics"); !strings.Contains(got, "warpline_gateway_spool_bytes") {
		t.Errorf("the gateway's metrics beside its address: %.200s", got)
	}
	eventually(t, sql, "SELECT sum(events) > 0 FROM warpline.usage WHERE tenant = 'dev'", "1")
	operator := strings.TrimSpace(runIn(t, nil, "key", "create", "--operator", "--nats", natsURL).stdout)
	desk := field(t, gateway, "admin")
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		got, raw := askAdmin(t, desk, operator, "GET", "status", "", 200)
		if got["ready"] == true {
			break
		}
		if time.Since(began) > 60*time.Second {
			t.Fatal(raw)
		}
	}
	if got, raw := askAdmin(t, desk, operator, "GET", "tenants/dev/usage", "", 200); len(got["usage"].([]any)) != 1 {
		t.Error(raw)
	}
	if got := get(t, "http://"+field(t, gateway, "addr")+admin.Path+"status"); !strings.Contains(got, "not_found") {
		t.Errorf("the API is where uploads go: %s", got)
	}
	for name, s := range map[string]*launched{"worker": worker, "sink": sink} {
		for path, want := range map[string]string{"/metrics": "go_goroutines", "/healthz": "alive", "/readyz": "ready"} {
			if got := get(t, "http://"+field(t, s, "addr")+path); !strings.Contains(got, want) {
				t.Errorf("%s%s lacks %q: %.200s", name, path, want, got)
			}
		}
	}
	for _, s := range []*launched{gateway, worker, sink, ch, nats} { // from the edge inwards, as an operator would
		if code := s.stop(t); code != exitOK {
			t.Errorf("exit %d:\n%s", code, s.words.String())
		}
	}
}

// secretFile is a file that holds a text.
func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func get(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// field reads key=value of a service's ready line.
func field(t *testing.T, s *launched, key string) string {
	t.Helper()
	for line := range strings.Lines(s.words.String()) {
		if !strings.Contains(line, "msg=ready") {
			continue
		}
		for _, f := range strings.Fields(line) {
			if v, ok := strings.CutPrefix(f, key+"="); ok {
				return v
			}
		}
	}
	t.Fatalf("no %s in the ready line:\n%s", key, s.words.String())
	return ""
}

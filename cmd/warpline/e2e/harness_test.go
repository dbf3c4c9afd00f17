// Package e2e_test runs the warpline binary as its users do, each role a process of its own, and compares what SQL answers with
// what an independent reader counts in the same files.
package e2e_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/broker/brokertest"
	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
	"github.com/warpline/warpline/sink/table/tabletest"
)

var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "warpline-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "warpline")
	if out, err := exec.Command("go", "build", "-o", binary, "github.com/warpline/warpline/cmd/warpline").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

const devKey = "dev-key-for-tests"

// cluster is a deployment of roles on loopback.
type cluster struct {
	t                                          testing.TB
	dir                                        string
	natsAddr, gatewayAddr, clickTCP, clickHTTP string
	grpcAddr                                   string // of the gateway; "" of an older binary
	roles                                      map[string]*role
	layout                                     []string
	binary                                     string // "": the one of this checkout
	connect                                    sync.Once
	conn                                       driver.Conn // see reader
}

// role is one process that can be killed and started again.
type role struct {
	name  string
	args  []string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{}
	mu    sync.Mutex
	ready map[string]string // fields of the ready line
	log   *os.File
}

var freeAddr = brokertest.FreeAddr

func port(addr string) string {
	_, p, _ := net.SplitHostPort(addr)
	return p
}

// newCluster starts nats, engine, sink, workers and a gateway, on a ClickHouse that has the schema already. Extra flags go to every role
// that opens the streams.
func newCluster(t testing.TB, workers int, layout ...string) *cluster {
	t.Helper()
	dir := t.TempDir()
	tabletest.Furnish(t, filepath.Join(dir, "engine"))
	return newClusterIn(t, dir, "", workers, layout...)
}

// newClusterOf is newCluster of another binary ("": the one of this checkout), on a ClickHouse that is started for the first time.
func newClusterOf(t testing.TB, binary string, workers int, layout ...string) *cluster {
	t.Helper()
	return newClusterIn(t, t.TempDir(), binary, workers, layout...)
}

func newClusterIn(t testing.TB, dir, binary string, workers int, layout ...string) *cluster {
	t.Helper()
	enginetest.Need(t)
	c := &cluster{t: t, binary: binary, dir: dir, natsAddr: freeAddr(t), gatewayAddr: freeAddr(t), clickTCP: freeAddr(t),
		clickHTTP: freeAddr(t), roles: map[string]*role{}, layout: layout}
	t.Cleanup(c.stopAll)
	natsURL := "nats://" + c.natsAddr
	c.add("nats", "nats", "--data", filepath.Join(c.dir, "nats"), "--listen", c.natsAddr)
	c.add("engine", "engine", "--data", filepath.Join(c.dir, "engine"), "--clickhouse-http-port", port(c.clickHTTP), "--clickhouse-tcp-port",
		port(c.clickTCP))
	c.start("nats")
	c.start("engine")
	c.waitReady("nats", 3*time.Minute)
	c.waitReady("engine", 3*time.Minute)
	c.openStreams()
	click := []string{"--clickhouse", c.clickTCP, "--clickhouse-http", c.clickHTTP, "--clickhouse-user", engine.Writer,
		"--clickhouse-password", c.secret(engine.WriterSecret)}
	base := append([]string{"--nats", natsURL}, layout...)
	c.add("sink", append(append([]string{"sink"}, base...), click...)...)
	for i := range workers {
		c.add("worker"+strconv.Itoa(i), append(append([]string{"worker"}, base...), click...)...)
	}
	if binary == "" {
		c.grpcAddr = freeAddr(t)
	}
	c.addGateway("gateway", c.gatewayAddr, c.grpcAddr)
	for name := range c.roles {
		if name != "nats" && name != "engine" {
			c.start(name)
		}
	}
	for name := range c.roles {
		c.waitReady(name, 3*time.Minute)
	}
	return c
}

// addGateway adds a gateway; without an address for gRPC it takes none.
func (c *cluster) addGateway(name, addr, grpc string) {
	args := append([]string{"gateway", "--nats", "nats://" + c.natsAddr}, c.layout...)
	args = append(args, "--listen", addr, "--dev-key", devKey, "--spool-dir", filepath.Join(c.dir, "spool-"+name))
	if grpc != "" {
		args = append(args, "--grpc-listen", grpc)
	}
	c.add(name, args...)
}

// secret is a password of the cluster's ClickHouse, or of the one of `up`.
func (c *cluster) secret(name string) string {
	c.t.Helper()
	b, err := os.ReadFile(filepath.Join(c.dir, "engine", name))
	if os.IsNotExist(err) { // of `up`
		b, err = os.ReadFile(filepath.Join(c.dir, "data", name))
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// asking are the flags of a command that reads the cluster's ClickHouse.
func (c *cluster) asking() []string {
	return []string{"--clickhouse", c.clickTCP, "--clickhouse-http", c.clickHTTP, "--clickhouse-user",
		engine.Reader, "--clickhouse-password", c.secret(engine.ReaderSecret)}
}

func (c *cluster) add(name string, args ...string) {
	log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.t.Fatal(err)
	}
	c.roles[name] = &role{name: name, args: args, log: log}
}

var field = regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`)

func (c *cluster) start(name string) {
	c.t.Helper()
	if name == "engine" || name == "up" {
		enginetest.Need(c.t)
	}
	r := c.roles[name]
	cmd := exec.Command(cmp.Or(c.binary, binary), r.args...)
	cmd.Env = append(os.Environ(), "WARPLINE_LOG_FORMAT=text")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	cmd.Stdout = r.log
	fmt.Fprintf(r.log, "--- start %s\n", time.Now().Format(time.StampMilli))
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	done := make(chan struct{})
	r.mu.Lock()
	r.cmd, r.stdin, r.done, r.ready = cmd, stdin, done, nil
	r.mu.Unlock()
	go func() {
		defer close(done)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			fmt.Fprintln(r.log, lines.Text())
			if strings.Contains(lines.Text(), "msg=ready") || strings.Contains(lines.Text(), `"msg":"ready"`) {
				fields := map[string]string{}
				for _, m := range field.FindAllStringSubmatch(lines.Text(), -1) {
					fields[m[1]] = strings.Trim(m[2], `"`)
				}
				r.mu.Lock()
				r.ready = fields
				r.mu.Unlock()
			}
		}
		cmd.Wait()
	}()
}

func (c *cluster) waitReady(name string, within time.Duration) {
	c.t.Helper()
	r := c.roles[name]
	deadline := time.Now().Add(within)
	for {
		r.mu.Lock()
		ok := r.ready != nil
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-r.done:
			c.t.Fatalf("%s ended before it was ready:\n%s", name, c.tail(name))
		default:
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%s is not ready after %v:\n%s", name, within, c.tail(name))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c *cluster) tail(name string) string {
	b := c.whole(name)
	return b[max(0, len(b)-4000):]
}

// whole is all that a role said.
func (c *cluster) whole(name string) string {
	b, _ := os.ReadFile(filepath.Join(c.dir, name+".log"))
	return string(b)
}

// kill is kill -9 of a role; of the engine it is the ClickHouse process itself that dies.
func (c *cluster) kill(name string) {
	r := c.roles[name]
	r.mu.Lock()
	cmd, done, ready := r.cmd, r.done, r.ready
	r.mu.Unlock()
	if name == "engine" && ready != nil {
		if pid, err := strconv.Atoi(ready["pid"]); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
			time.Sleep(5 * time.Millisecond)
		}
	}
	cmd.Process.Kill()
	<-done
}

func (c *cluster) stopAll() {
	for _, name := range []string{"up", "gateway", "gateway2", "worker0", "worker1", "sink", "nats", "engine"} {
		if r := c.roles[name]; r != nil && r.cmd != nil {
			c.kill(name)
		}
		if r := c.roles[name]; r != nil {
			r.log.Close()
		}
	}
	enginesGone(c.t, c.dir)
	if c.t.Failed() {
		for name := range c.roles {
			c.t.Logf("=== %s\n%s", name, c.tail(name))
		}
	}
}

// enginesGone waits for the ClickHouse processes below a folder, which outlive their parents by a moment and write meanwhile, so that the
// folder can be removed.
func enginesGone(t testing.TB, dir string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		if !slices.ContainsFunc(lines, func(file string) bool {
			words, _ := os.ReadFile(file) // a process that has ended meanwhile is none
			return bytes.HasPrefix(words, []byte("warpline-engine\x00"+dir+"/"))
		}) {
			return
		}
	}
	t.Errorf("a ClickHouse of %s is still there minutes after its parent", dir)
}

// open connects as the user who only reads.
func (c *cluster) open() driver.Conn {
	conn, err := clickhouse.Open(&clickhouse.Options{Addr: []string{c.clickTCP},
		Auth:        clickhouse.Auth{Database: "warpline", Username: engine.Reader, Password: c.secret(engine.ReaderSecret)},
		DialTimeout: 20 * time.Second})
	if err != nil {
		c.t.Fatal(err)
	}
	return conn
}

// reader is open, once for all questions: it finds out by itself that a connection is gone.
func (c *cluster) reader() driver.Conn {
	c.connect.Do(func() {
		c.conn = c.open()
		c.t.Cleanup(func() { c.conn.Close() })
	})
	return c.conn
}

// rows runs a query of (String, UInt64…) rows: the first column names the row, the others are its numbers.
func (c *cluster) rows(query string, args ...any) map[string][]uint64 {
	c.t.Helper()
	out, err := c.tryRows(query, args...)
	if err != nil {
		c.t.Fatalf("%s: %v", query, err)
	}
	return out
}

func (c *cluster) tryRows(query string, args ...any) (map[string][]uint64, error) {
	conn := c.reader()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	rs, err := conn.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rs.Close()
	out := map[string][]uint64{}
	for rs.Next() {
		n := len(rs.Columns())
		name := ""
		nums := make([]uint64, n-1)
		dest := []any{&name}
		for i := range nums {
			dest = append(dest, &nums[i])
		}
		if err := rs.Scan(dest...); err != nil {
			return nil, err
		}
		out[name] = nums
	}
	return out, rs.Err()
}

// one runs a query with one number as its answer; an error counts as 0 when the engine is not there.
func (c *cluster) one(query string) uint64 {
	out, err := c.tryRows("SELECT '', toUInt64((" + query + "))")
	if err != nil || len(out[""]) == 0 {
		return 0
	}
	return out[""][0]
}

// eventually waits for a condition.
func eventually(t testing.TB, within time.Duration, what string, ok func() (bool, string)) {
	t.Helper()
	began := time.Now()
	for {
		good, have := ok()
		if good {
			return
		}
		if time.Since(began) > within {
			t.Fatalf("%s: not within %v; %s", what, within, have)
		}
		time.Sleep(min(max(time.Since(began)/8, 20*time.Millisecond), time.Second)) // what asks often is in the way of what it waits for
	}
}

// openStreams makes the streams before any role does, with a duplicate window of a second: what JetStream forgets after two minutes in
// production is forgotten at once here, so every test also tests resends past the window.
func (c *cluster) openStreams() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	nc, js, err := broker.Connect(ctx, broker.ConnectConfig{URL: "nats://" + c.natsAddr})
	if err != nil {
		c.t.Fatal(err)
	}
	defer nc.Close()
	l := broker.DefaultLayout()
	l.Duplicates = time.Second
	for i, flag := range c.layout {
		switch flag {
		case "--partitions":
			fmt.Sscan(c.layout[i+1], &l.Partitions)
		case "--ingest-max":
			l.IngestMaxBytes = 1 << 20
		}
	}
	if _, err := broker.Open(ctx, nc, js, l); err != nil {
		c.t.Fatal(err)
	}
}

// makeKey makes a key for a tenant the way an operator does.
func (c *cluster) makeKey(tenant string) string {
	c.t.Helper()
	out, err := exec.Command(binary, "key", "create", tenant, "--nats", "nats://"+c.natsAddr).Output()
	if err != nil {
		c.t.Fatalf("key create: %v\n%s", err, err.(*exec.ExitError).Stderr)
	}
	return strings.TrimSpace(string(out))
}

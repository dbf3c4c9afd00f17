package engine_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warpline/warpline/sink/engine"
	"github.com/warpline/warpline/sink/engine/enginetest"
)

// parentEnv makes this test binary an engine's parent that does nothing else (TestMain).
const parentEnv = "WARPLINE_TEST_ENGINE_PARENT"

func TestMain(m *testing.M) {
	dir := os.Getenv(parentEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	e, err := engine.Start(context.Background(), engine.Config{Dir: dir, Temporary: os.Getenv(parentEnv+"_TEMPORARY") != ""})
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	fmt.Println(e.Pid(), e.HTTPAddr())
	select {} // until the test kills this process
}

// ask sends one query over HTTP and returns the body; an exception is an error with its text.
func ask(e *engine.Engine, user, password, query string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, "http://"+e.HTTPAddr()+"/", strings.NewReader(query))
	if err != nil {
		return "", err
	}
	req.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("HTTP %d: %s", resp.StatusCode, body)
	}
	return strings.TrimSpace(string(body)), err
}

// must runs a query as the writer and fails the test on an exception.
func must(t *testing.T, e *engine.Engine, query string) string {
	t.Helper()
	got, err := ask(e, e.User(), e.Password(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return got
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}

func processIsGone(pid int) bool { return syscall.Kill(pid, 0) == syscall.ESRCH }

func eventually(t *testing.T, within time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(within); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

func TestStartStop(t *testing.T) {
	enginetest.Need(t)
	began := time.Now()
	e := enginetest.Start(t)
	ready := time.Since(began)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.Pid()))
	if err == nil {
		for line := range strings.Lines(string(status)) {
			if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	want(t, "version", must(t, e, "SELECT version() LIKE '26.7.%'"), "1")
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	began = time.Now()
	if err := e.Stop(ctx); err != nil {
		t.Fatalf("stop: %v", err)
	}
	t.Logf("ready in %v, stopped in %v", ready, time.Since(began))
	if !processIsGone(e.Pid()) || e.Err() != nil {
		t.Fatalf("after Stop: process gone %v, Err %v", processIsGone(e.Pid()), e.Err())
	}
}

func TestDataSurviveKill(t *testing.T) {
	enginetest.Need(t)
	dir := t.TempDir()
	e, err := engine.Start(t.Context(), engine.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	must(t, e, "CREATE DATABASE w")
	must(t, e, "CREATE TABLE w.t (a UInt64) ENGINE = MergeTree ORDER BY a")
	for i := range 20 {
		must(t, e, fmt.Sprintf("INSERT INTO w.t SELECT number FROM numbers(%d, 1000)", i*1000))
	}
	password := e.Password()
	if err := syscall.Kill(e.Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	// No wait for Done: Start has to wait for the folder by itself.
	e2, err := engine.Start(t.Context(), engine.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	<-e.Done()
	if e.Err() == nil {
		t.Error("a killed engine says that it ended well")
	}
	want(t, "password", e2.Password(), password)
	want(t, "rows after kill -9", must(t, e2, "SELECT count(), sum(a) FROM w.t"), "20000\t199990000")
	if err := e2.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	e3, err := engine.Start(t.Context(), engine.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want(t, "rows after an orderly stop", must(t, e3, "SELECT count() FROM w.t"), "20000")
	if err := e3.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestParentDeathEndsTheChild(t *testing.T) {
	enginetest.Need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	text, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
	child, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("the parent said %q", line)
	}
	if group, err := syscall.Getpgid(child); err != nil || group != child {
		t.Errorf("the child's process group is %d (%v), want its own, %d", group, err, child)
	}
	resp, err := http.Get("http://" + addr + "/ping")
	if err != nil {
		t.Fatalf("the child does not answer while its parent lives: %v", err)
	}
	resp.Body.Close()
	began := time.Now()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // killed, as asked
	eventually(t, 60*time.Second, "the child leaves after its parent", func() bool { return processIsGone(child) })
	t.Logf("the child left %v after its parent", time.Since(began))
}

// A shared engine of tests leaves nothing behind, however its parent ends.
func TestTemporaryEngineRemovesItsFolder(t *testing.T) {
	enginetest.Need(t)
	for _, how := range []string{"stopped", "parent killed"} {
		dir := filepath.Join(t.TempDir(), "engine")
		if how == "stopped" {
			e, err := engine.Start(t.Context(), engine.Config{Dir: dir, Temporary: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		} else {
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			parent := exec.Command(self)
			parent.Env = append(os.Environ(), parentEnv+"="+dir, parentEnv+"_TEMPORARY=1")
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "data", "status")); err != nil {
				t.Fatal(err)
			}
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // killed, as asked
		}
		eventually(t, 60*time.Second, how+": the folder is gone", func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) })
	}
}

func TestSigtermEndsTheChildInOrder(t *testing.T) {
	enginetest.Need(t)
	e := enginetest.Start(t)
	began := time.Now()
	if err := syscall.Kill(e.Pid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-e.Done():
	case <-time.After(60 * time.Second):
		t.Fatal("still there after 30 s")
	}
	if e.Err() != nil {
		t.Fatal(e.Err())
	}
	t.Logf("left %v after SIGTERM", time.Since(began))
}

// A client that sends rubbish or goes away in the middle must not take the engine with it.
func TestRudeClients(t *testing.T) {
	enginetest.Need(t)
	e := enginetest.Start(t)
	rude(t, e.HTTPAddr())
	rude(t, e.TCPAddr())
	want(t, "after rude clients", must(t, e, "SELECT 1"), "1")
}

func TestOneEngineAFolder(t *testing.T) {
	enginetest.Need(t)
	e := enginetest.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := engine.Start(ctx, engine.Config{Dir: e.Dir()})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Fatalf("a second engine in the same folder: %v", err)
	}
	want(t, "the first", must(t, e, "SELECT 1"), "1")
}

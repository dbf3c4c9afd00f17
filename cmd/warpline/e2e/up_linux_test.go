package e2e_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/warpline/warpline/sink/engine/enginetest"
)

// service is a `warpline up` as a process, on a folder that may be started again.
type service struct {
	t           testing.TB
	dir         string // --data
	addr, click string
	descriptors int // 0: as many as the test has
	cmd         *exec.Cmd
	done        chan struct{}
	client      *http.Client
	posted      int // sessions that were answered 200, named by their number

	mu    sync.Mutex
	lines []string
}

// startUp starts it and waits until it says that it is ready.
func startUp(t testing.TB, dir string, descriptors int) *service {
	t.Helper()
	s := &service{t: t, dir: dir, addr: freeAddr(t), click: freeAddr(t), descriptors: descriptors,
		client: &http.Client{Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	s.start()
	t.Cleanup(func() {
		s.kill()
		enginesGone(t, s.dir)
		if t.Failed() {
			s.mu.Lock()
			t.Log(strings.Join(s.lines[max(0, len(s.lines)-60):], "\n"))
			s.mu.Unlock()
		}
	})
	return s
}

func (s *service) start() {
	s.t.Helper()
	enginetest.Need(s.t)
	args := []string{"up", "--data", s.dir, "--listen", s.addr, "--grpc-listen", "127.0.0.1:0",
		"--clickhouse-tcp-port", port(s.click), "--clickhouse-http-port", "0",
		"--dev-key", devKey}
	s.cmd = exec.Command(binary, args...)
	if s.descriptors > 0 {
		s.cmd = exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, s.descriptors), binary}, args...)...)
	}
	s.cmd.Env = append(os.Environ(), "WARPLINE_LOG_FORMAT=text")
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.done = make(chan struct{})
	ready := make(chan struct{})
	go func() {
		defer close(s.done)
		lines, told := bufio.NewScanner(stderr), false
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			s.mu.Lock()
			s.lines = append(s.lines, lines.Text())
			s.mu.Unlock()
			if !told && strings.Contains(lines.Text(), "msg=ready") {
				told = true
				close(ready)
			}
		}
		s.cmd.Wait()
	}()
	select {
	case <-ready:
	case <-s.done:
		s.t.Fatalf("up ended before it was ready:\n%s", s.log())
	case <-time.After(3 * time.Minute):
		s.t.Fatalf("up is not ready:\n%s", s.log())
	}
}

// stop ends it in good order.
func (s *service) stop() {
	s.t.Helper()
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.done:
	case <-time.After(3 * time.Minute):
		s.t.Fatal("up does not stop")
	}
}

func (s *service) kill() {
	s.cmd.Process.Kill()
	<-s.done
}

func (s *service) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// forget empties the log.
func (s *service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = nil
}

// post sends one session, each third a trace or a capture; it returns the status and the body of a refusal.
func (s *service) post() (int, string) {
	path := "/api/v1/events/job_start"
	body := fmt.Sprintf(`{"type":"job_start","session_id":"s%d","app":"a","ts_ns":1795175929972476039}`, s.posted)
	if s.posted%3 == 2 {
		path, body = fmt.Sprint("/api/v1/traces?session=t", s.posted), `[{"ph":"X","name":"op","ts":1795175929972476,"dur":1}]`
	}
	if s.posted%6 == 5 {
		path = fmt.Sprint("/api/v1/intrakernel?session=c", s.posted)
		body = `[{"name":"a","ph":"X","ts":1,"dur":2,"pid":3,"tid":65,"cname":"good","args":{"sm":3,"block":1,"warp":1}}]`
	}
	req, err := http.NewRequest(http.MethodPost, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+devKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode < 300 {
		s.posted++
	}
	return resp.StatusCode, string(out)
}

// mustPost sends one session until it is accepted.
func (s *service) mustPost(within time.Duration) {
	s.t.Helper()
	eventually(s.t, within, "an upload is accepted", func() (bool, string) {
		status, body := s.post()
		return status > 0 && status < 300, fmt.Sprint(status, " ", body)
	})
}

func (s *service) readyz() (int, string) {
	resp, err := s.client.Get("http://" + s.addr + "/readyz")
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	out, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	return resp.StatusCode, string(out)
}

func (s *service) awaitReadyz(want int, within time.Duration) {
	s.t.Helper()
	eventually(s.t, within, fmt.Sprint("/readyz says ", want), func() (bool, string) {
		have, body := s.readyz()
		return have == want, fmt.Sprint(have, " ", body)
	})
}

// exact waits until SQL has every session that was accepted, once.
func (s *service) exact(within time.Duration) {
	s.t.Helper()
	eventually(s.t, within, fmt.Sprintf("each of %d sessions is in ClickHouse once", s.posted), func() (bool, string) {
		conn, err := s.sql()
		if err != nil {
			return false, err.Error()
		}
		defer conn.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
		var rows, sessions, events uint64
		if err := conn.QueryRow(ctx, "SELECT count(), uniqExact(session_id) FROM warpline.sessions WHERE tenant = 'dev'").
			Scan(&rows, &sessions); err != nil {
			return false, err.Error()
		}
		if err := conn.QueryRow(ctx, "SELECT sum(events) FROM warpline.usage WHERE tenant = 'dev'").Scan(&events); err != nil {
			return false, err.Error()
		}
		return rows == uint64(s.posted) && sessions == rows && events >= rows,
			fmt.Sprintf("%d rows, %d sessions, %d events", rows, sessions, events)
	})
}

// sql connects as whoever may read.
func (s *service) sql() (driver.Conn, error) {
	auth := clickhouse.Auth{Database: "warpline"}
	if secret, err := os.ReadFile(filepath.Join(s.dir, "reader-password")); err == nil {
		auth.Username, auth.Password = "reader", strings.TrimSpace(string(secret))
	}
	return clickhouse.Open(&clickhouse.Options{Addr: []string{s.click}, Auth: auth, DialTimeout: 20 * time.Second})
}

// nats returns the address of its NATS.
func (s *service) nats() string {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, "warpline.json"))
	var r struct {
		NATS string `json:"nats"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	if err != nil || r.NATS == "" {
		s.t.Fatalf("the address of NATS: %v in %s", err, raw)
	}
	return r.NATS
}

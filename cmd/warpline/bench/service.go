package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/warpline/warpline/sink/engine"
)

// Service is the Warpline that is measured. PID is 0 when it is not ours.
type Service struct {
	URL   string // of the gateway
	GRPC  string // host:port of its gRPC; "": not ours
	Key   string
	Read  SQL
	Write *SQL // a user that may OPTIMIZE and create; nil: nothing is measured at rest
	PID   int
	Alone bool          // nothing else sends to it, so counts do not need a filter
	Ready time.Duration // from its start until it was ready; 0: not ours
	NATS  string        // a URL, with the token; "": not ours

	cmd  *exec.Cmd
	log  string
	done chan struct{}
	err  error // after done
}

// devKey is the key of a service on loopback that lives as long as the bench.
const devKey = "gpfl_bench"

// devTenant is the tenant of devKey.
const devTenant = "dev"

// readyLimit is how long a start may take, a fetch of the engine's library included.
const readyLimit = 10 * time.Minute

// Start runs `binary up` on dir as a process of its own, so that its memory and CPU can be measured apart from the bench's, and waits until
// it is ready. args are further flags of up. The caller calls Stop.
func Start(ctx context.Context, binary, dir string, args ...string) (*Service, error) {
	args = append([]string{"up", "--data", dir, "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
		"--clickhouse-http-port", "0", "--clickhouse-tcp-port", "0",
		"--limit-events-per-second", "1e12", "--limit-bytes-per-second", "1TB"}, args...)
	s := &Service{Key: devKey, Alone: true, done: make(chan struct{}), log: filepath.Join(dir, "up.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("bench folder: %w", err)
	}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, fmt.Errorf("bench folder: %w", err)
	}
	defer log.Close()
	s.cmd = exec.Command(binary, args...)
	// Builds from before these two limits ignore their environment variables.
	s.cmd.Env = append(os.Environ(), "WARPLINE_DEV_KEY="+devKey, "WARPLINE_LIMIT_RAW_BYTES_PER_SECOND=1TB",
		"WARPLINE_LIMIT_REQUESTS_PER_SECOND=1e9")
	s.cmd.Stdout, s.cmd.Stderr = log, log
	began := time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start warpline up: %w", err)
	}
	s.PID = s.cmd.Process.Pid
	go func() { s.err = s.cmd.Wait(); close(s.done) }()
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	if err := s.await(ctx, dir); err != nil {
		err = fmt.Errorf("warpline up: %w; its last words:\n%s", err, s.lastWords())
		s.Stop()
		return nil, err
	}
	s.Ready = time.Since(began)
	return s, nil
}

// StartGateway runs a gateway as a role of its own before the streams of s, a service that Start started. The caller calls Stop.
func (s *Service) StartGateway(ctx context.Context, dir string, args ...string) (*Service, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := free.Addr().String()
	free.Close()
	g := &Service{URL: "http://" + addr, Key: devKey, done: make(chan struct{}), log: filepath.Join(dir, "gateway.log")}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("bench folder: %w", err)
	}
	log, err := os.Create(g.log)
	if err != nil {
		return nil, fmt.Errorf("bench folder: %w", err)
	}
	defer log.Close()
	g.cmd = exec.Command(s.cmd.Path, append([]string{"gateway", "--nats", s.NATS, "--listen", addr, "--spool-dir", dir, "--log-level", "warn",
		"--limit-events-per-second", "1e12", "--limit-bytes-per-second", "1TB", "--limit-raw-bytes-per-second", "1TB"}, args...)...)
	g.cmd.Env = append(os.Environ(), "WARPLINE_DEV_KEY="+devKey)
	g.cmd.Stdout, g.cmd.Stderr = log, log
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start warpline gateway: %w", err)
	}
	g.PID = g.cmd.Process.Pid
	go func() { g.err = g.cmd.Wait(); close(g.done) }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for !ready(ctx, addr) {
		err := g.Died()
		if err == nil {
			err = pause(ctx, 20*time.Millisecond)
		}
		if err != nil {
			err = fmt.Errorf("warpline gateway: %w; its last words:\n%s", err, g.lastWords())
			g.Stop()
			return nil, err
		}
	}
	return g, nil
}

// await waits for the file in which up says where it listens, then for the gateway to be ready.
func (s *Service) await(ctx context.Context, dir string) error {
	var at struct {
		PID            int    `json:"pid"`
		Gateway        string `json:"gateway"`
		GatewayGRPC    string `json:"gateway_grpc"`
		NATS           string `json:"nats"`
		ClickHouseHTTP string `json:"clickhouse_http"`
		ClickHouseUser string `json:"clickhouse_user"`
	}
	for {
		select {
		case <-s.done:
			return fmt.Errorf("ended before it was ready: %w", errors.Join(s.err, errors.New("see above")))
		default:
		}
		b, err := os.ReadFile(filepath.Join(dir, "warpline.json"))
		if err == nil && json.Unmarshal(b, &at) == nil && at.PID == s.PID && ready(ctx, at.Gateway) {
			break
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("not ready in time: %w", err)
		}
	}
	s.URL, s.GRPC, s.NATS = "http://"+at.Gateway, at.GatewayGRPC, at.NATS
	s.Read = SQL{Addr: at.ClickHouseHTTP, User: at.ClickHouseUser}
	if b, err := os.ReadFile(filepath.Join(dir, engine.ReaderSecret)); err == nil {
		s.Read.Password = strings.TrimSpace(string(b))
	}
	if b, err := os.ReadFile(filepath.Join(dir, engine.WriterSecret)); err == nil {
		s.Write = &SQL{Addr: at.ClickHouseHTTP, User: engine.Writer, Password: strings.TrimSpace(string(b))}
	}
	return nil
}

// newKey makes a key of another tenant. flags are further ones of `key create`.
func (s *Service) newKey(ctx context.Context, tenant string, flags ...string) (string, error) {
	args := append([]string{"key", "create", tenant, "--data", filepath.Dir(s.log)}, flags...)
	out, err := exec.CommandContext(ctx, s.cmd.Path, args...).Output()
	if err != nil {
		return "", fmt.Errorf("make a key of tenant %s: %w", tenant, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func ready(ctx context.Context, gateway string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+gateway+"/readyz", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// lastWords is the end of what the service printed.
func (s *Service) lastWords() string {
	if s.log == "" {
		return "(not ours: look at its log)"
	}
	b, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-15):], []byte("\n")))
}

// Died returns an error when the service has ended.
func (s *Service) Died() error {
	if s.done == nil {
		return nil
	}
	select {
	case <-s.done:
		return fmt.Errorf("warpline up ended: %v; its last words:\n%s", s.err, s.lastWords())
	default:
		return nil
	}
}

// Stop ends a service that Start started; it does nothing to another.
func (s *Service) Stop() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-s.done:
	case <-time.After(60 * time.Second):
		s.cmd.Process.Kill()
		<-s.done
	}
}

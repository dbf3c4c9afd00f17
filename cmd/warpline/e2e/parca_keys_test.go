package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/warpline/warpline/proto/parca/parcatest"
)

// comeAgain is the RetryInfo of an answer that may pass, 0 when it has none.
func comeAgain(err error) time.Duration {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration()
		}
	}
	return 0
}

// passing says what is wrong with an answer of a gateway that does not take a batch now and may later. Where there is no gateway the client
// has an answer of its own, without RetryInfo.
func passing(err error) string {
	switch code := status.Code(err); {
	case code != codes.Unavailable && code != codes.ResourceExhausted:
		return fmt.Sprintf("%v, want Unavailable or ResourceExhausted", err)
	case strings.Contains(err.Error(), "connection error"), strings.Contains(err.Error(), "error reading from server"),
		strings.Contains(err.Error(), "connection refused"), strings.Contains(err.Error(), "closing transport"):
		return ""
	case comeAgain(err) <= 0:
		return fmt.Sprintf("%v does not say when to come again", err)
	}
	return ""
}

// parcaKeys: what may pass is asked for again and counts once, and a key that is none, or none any more, is refused for good.
func (c *cluster) parcaKeys(ctx context.Context, t *testing.T) {
	totals := newParcaTotals()
	n := 0
	batch := func() []byte {
		n++
		rows := parcaBatch("keys", n)
		b := parcatest.Arrow(rows)
		totals.add(rows, len(b))
		return b
	}
	once := func(addr, key string) *parcatest.Client {
		t.Helper()
		a := c.agent(addr, key)
		a.Retry = parcatest.Retry{Attempts: 1, PerTry: 60 * time.Second, Overall: 60 * time.Second}
		return a
	}
	refused := parcatest.Arrow(parcaBatch("refused", 0))
	good := c.makeKey("keys")

	t.Run("none, and none any more", func(t *testing.T) {
		for _, key := range []string{"gpfl_0000000000000000000000000000", "no-such-key", ""} {
			if err := once(c.grpcAddr, key).WriteArrow(ctx, refused); status.Code(err) != codes.Unauthenticated || comeAgain(err) != 0 {
				t.Errorf("key %q: %v, want Unauthenticated", key, err)
			}
		}
		for range 5 { // new ones work at once, or say that they will
			key := c.makeKey("keys")
			a, b := once(c.grpcAddr, key), batch()
			if err := a.WriteArrow(ctx, b); err != nil {
				if wrong := passing(err); wrong != "" {
					t.Errorf("a new key: %s", wrong)
				}
				a.Retry = parcatest.Fast
				if err := a.WriteArrow(ctx, b); err != nil {
					t.Errorf("a new key: %v", err)
				}
			}
			out, err := exec.Command(binary, "key", "revoke", key, "--nats", "nats://"+c.natsAddr).CombinedOutput()
			if err != nil {
				t.Fatalf("key revoke: %v\n%s", err, out)
			}
			a.Retry = once(c.grpcAddr, key).Retry
			eventually(t, 3*time.Minute, "revoked", func() (bool, string) {
				err := a.WriteArrow(ctx, b) // a repeat, as long as it is taken
				return status.Code(err) == codes.Unauthenticated && comeAgain(err) == 0, fmt.Sprint(err)
			})
		}
	})
	addr, grpcAddr := freeAddr(t), freeAddr(t)
	c.addGateway("gateway2", addr, grpcAddr)
	t.Run("starting", func(t *testing.T) { // the agents are there before the gateway is
		for range 3 {
			var wg sync.WaitGroup
			for range 4 {
				b := batch()
				wg.Go(func() {
					for ctx.Err() == nil {
						a, err := parcatest.Dial(grpcAddr, good) // anew, or gRPC waits longer and longer
						if err != nil {
							t.Error(err)
							return
						}
						a.Retry = parcatest.Retry{Attempts: 1, PerTry: 60 * time.Second, Overall: 60 * time.Second}
						err = a.WriteArrow(ctx, b)
						a.Close()
						if err == nil {
							return
						}
						if wrong := passing(err); wrong != "" {
							t.Errorf("starting: %s", wrong)
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			c.start("gateway2")
			wg.Wait()
			c.waitReady("gateway2", 3*time.Minute)
			c.kill("gateway2")
		}
	})
	t.Run("draining", func(t *testing.T) {
		c.start("gateway2")
		c.waitReady("gateway2", 3*time.Minute)
		a := once(grpcAddr, good)
		if err := a.WriteArrow(ctx, batch()); err != nil {
			t.Fatal(err)
		}
		body, end := slowPost(ctx, t, addr, good) // as long as it is under way the gateway does not go
		r := c.roles["gateway2"]
		if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		b := batch()
		eventually(t, 3*time.Minute, "draining", func() (bool, string) {
			err := a.WriteArrow(ctx, b)
			if err == nil {
				return false, "taken"
			}
			if wrong := passing(err); wrong != "" {
				t.Errorf("draining: %s", wrong)
			}
			return strings.Contains(err.Error(), "draining"), fmt.Sprint(err)
		})
		if ok, err := a.Healthy(ctx); ok || err != nil {
			t.Errorf("the health of a gateway that drains: %v, %v", ok, err)
		}
		if err := once(c.grpcAddr, good).WriteArrow(ctx, b); err != nil { // the other one takes it
			t.Error(err)
		}
		last := batch()
		body <- last
		if err := <-end; err != nil {
			t.Errorf("what was under way: %v", err)
		}
		select {
		case <-r.done:
		case <-time.After(3 * time.Minute):
			t.Error("the gateway does not end")
		}
	})
	t.Run("NATS away", func(t *testing.T) {
		a, stranger := once(c.grpcAddr, good), once(c.grpcAddr, "made-while-nobody-could-tell")
		c.kill("nats")
		b := batch()
		for _, q := range []struct {
			who string
			of  *parcatest.Client
		}{{"a key", a}, {"a key that may be a new one", stranger}} {
			if wrong := passing(q.of.WriteArrow(ctx, b)); wrong != "" {
				t.Errorf("without NATS, %s: %s", q.who, wrong)
			}
		}
		c.start("nats")
		c.waitReady("nats", 3*time.Minute)
		a.Retry = parcatest.Fast
		if err := a.WriteArrow(ctx, b); err != nil {
			t.Error(err)
		}
		eventually(t, 3*time.Minute, "the stranger", func() (bool, string) {
			err := stranger.WriteArrow(ctx, refused)
			return status.Code(err) == codes.Unauthenticated, fmt.Sprint(err)
		})
	})
	c.checkParca(t, "keys", totals.pc, totals.kernels)
	c.books(t, "keys", totals.events, totals.cpu, totals.bytes)
}

// slowPost begins an upload by HTTP whose body comes when it is given. When it returns, the gateway has asked for the body.
func slowPost(ctx context.Context, t *testing.T, addr, key string) (body chan<- []byte, end <-chan error) {
	t.Helper()
	given, done, begun := make(chan []byte, 1), make(chan error, 1), make(chan struct{})
	go func() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+addr+"/api/v1/parca", &lateBody{given: given, begun: begun})
		if err != nil {
			done <- err
			return
		}
		req.Header.Set("Authorization", "Bearer "+key)
		req.Header.Set("Expect", "100-continue")
		client := http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute, DisableKeepAlives: true}}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				err = errors.New(resp.Status)
			}
		}
		done <- err
	}()
	<-begun
	return given, done
}

// lateBody is a body of which the first byte comes at once, and the others when they are given: the first is that of the whole.
type lateBody struct {
	given <-chan []byte
	begun chan struct{}
	sent  int
	rest  []byte
}

// Read implements io.Reader.
func (b *lateBody) Read(p []byte) (int, error) {
	b.sent++
	switch b.sent {
	case 1:
		p[0] = 0xff // as every Arrow stream begins
		return 1, nil
	case 2:
		close(b.begun)
		b.rest = (<-b.given)[1:]
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// maxUploads is how many windows are on their way at once: each has an open file and a connection. The other agents of a fleet wait
// meanwhile.
const maxUploads = 1024

// sender posts windows as the agent does: every channel of every session has its own order, and its own connection while there are few
// channels.
type sender struct {
	url, key string
	acked    func(w *Window, began, at time.Time) // called for every window that was acknowledged, from many goroutines; may be nil
	// due says when a window may be sent; nil: at once.
	due func(session int, w *Window) time.Time

	client  *http.Client
	seats   chan struct{}
	retries atomic.Int64
	mu      sync.Mutex
	answers map[int]int // by status
}

// connect makes what posts need. The caller calls close.
func (s *sender) connect() {
	s.seats = make(chan struct{}, maxUploads)
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConns: maxUploads, MaxIdleConnsPerHost: maxUploads, DisableCompression: true}}
}

func (s *sender) close() { s.client.CloseIdleConnections() }

// send posts everything and then ends every session.
func (s *sender) send(ctx context.Context, d *Data) error {
	s.connect()
	defer s.close()
	g, ctx := errgroup.WithContext(ctx)
	for i := range d.Sessions {
		g.Go(func() error {
			return s.session(ctx, i, &d.Sessions[i])
		})
	}
	return g.Wait()
}

// session posts the channels of one session side by side and ends it.
func (s *sender) session(ctx context.Context, i int, session *Session) error {
	channels, inner := errgroup.WithContext(ctx)
	for _, windows := range session.Windows {
		channels.Go(func() error { return s.channel(inner, i, windows) })
	}
	if err := channels.Wait(); err != nil {
		return err
	}
	return s.complete(ctx, session.ID)
}

func (s *sender) channel(ctx context.Context, session int, windows []Window) error {
	for i := range windows {
		w := &windows[i]
		if s.due != nil {
			if err := pause(ctx, time.Until(s.due(session, w))); err != nil {
				return err
			}
		}
		if err := s.window(ctx, w); err != nil {
			return err
		}
	}
	return nil
}

// window posts one until it is acknowledged. The agent never gives up; the bench does when the answer cannot change.
func (s *sender) window(ctx context.Context, w *Window) error {
	began := time.Now()
	for {
		status, wait, err := s.post(ctx, w)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.mu.Lock()
		if s.answers == nil {
			s.answers = map[int]int{}
		}
		s.answers[status]++
		s.mu.Unlock()
		switch {
		case err == nil:
			if s.acked != nil {
				s.acked(w, began, time.Now())
			}
			return nil
		case status == http.StatusTooManyRequests, status >= 500, status == 0:
			s.retries.Add(1)
			if err := pause(ctx, wait); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// defaultRetry is the pause after an answer without Retry-After.
const defaultRetry = 500 * time.Millisecond

// post sends a window once. The status is 0 when no answer came.
func (s *sender) post(ctx context.Context, w *Window) (status int, wait time.Duration, err error) {
	if err := s.sit(ctx); err != nil {
		return 0, 0, err
	}
	defer s.rise()
	f, err := w.open()
	if err != nil {
		return -1, 0, fmt.Errorf("window: %w", err)
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/events/stream", f)
	if err != nil {
		return -1, 0, fmt.Errorf("--url: %w", err)
	}
	req.ContentLength = w.GzBytes
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Content-Encoding", "gzip")
	req.Header.Set("X-GpuFlight-Session-Id", w.Session)
	req.Header.Set("X-GpuFlight-Hostname", Host)
	req.Header.Set("X-GpuFlight-Window-Id", w.ID)
	req.Header.Set("X-GpuFlight-Window-Channel", w.Channel)
	req.Header.Set("X-GpuFlight-Window-Sequence", strconv.Itoa(w.Sequence))
	req.Header.Set("X-GpuFlight-Window-CRC32", strconv.FormatUint(uint64(w.CRC32), 10))
	s.authorize(req)
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, defaultRetry, fmt.Errorf("post: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, defaultRetry, fmt.Errorf("answer: %w", err)
	}
	wait = defaultRetry
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n >= 0 && n < 3600 {
		wait = time.Duration(n) * time.Second
	}
	var answer struct {
		Acknowledged bool `json:"window_acknowledged"`
	}
	if resp.StatusCode/100 == 2 {
		if err := json.Unmarshal(body, &answer); err == nil && answer.Acknowledged {
			return resp.StatusCode, 0, nil
		}
		return resp.StatusCode, 0, fmt.Errorf("the gateway did not acknowledge window %s: %.300s", w.Path, body)
	}
	return resp.StatusCode, wait, fmt.Errorf("the gateway answers %s: %.300s", resp.Status, body)
}

func (w *Window) open() (io.ReadCloser, error) {
	if w.body != nil {
		return io.NopCloser(bytes.NewReader(w.body)), nil
	}
	return os.Open(w.Path)
}

// sit waits for one of the maxUploads places; rise gives it back.
func (s *sender) sit(ctx context.Context) error {
	select {
	case s.seats <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *sender) rise() { <-s.seats }

func (s *sender) authorize(req *http.Request) {
	req.Header.Set("User-Agent", "warpline-bench")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
}

// complete ends a session.
func (s *sender) complete(ctx context.Context, session string) error {
	for try := 0; ; try++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/api/v1/events/session-complete", nil)
		if err != nil {
			return fmt.Errorf("--url: %w", err)
		}
		req.Header.Set("X-GpuFlight-Session-Id", session)
		s.authorize(req)
		if err := s.sit(ctx); err != nil {
			return err
		}
		resp, err := s.client.Do(req)
		s.rise()
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode/100 == 2 {
				return nil
			}
			err = errors.New(resp.Status)
		}
		if try == 20 || ctx.Err() != nil {
			return fmt.Errorf("session-complete: %w", err)
		}
		if err := pause(ctx, defaultRetry); err != nil {
			return err
		}
	}
}

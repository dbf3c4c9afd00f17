package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// RetryEvery is how long the agent waits before it sends a window again.
const RetryEvery = 5 * time.Second

// maxFirstLine bounds how far a lone file is read for its session id.
const maxFirstLine = 4 << 20

// Sender posts sessions to a gateway. Its fields must not change while it sends; Send may be called from several goroutines.
type Sender struct {
	URL  string // base, with any path prefix: http://127.0.0.1:8080
	Key  string // "" sends no Authorization header
	Host string // X-GpuFlight-Hostname; "" does not send it
	HTTP *http.Client
	// Retry is the pause before a window is sent again (0: RetryEvery). Attempts bounds how often (0: for ever, as the agent does).
	Retry    time.Duration
	Attempts int
	// GiveUp reports whether to end the sending with err at once instead of trying again. The agent never gives up; people do.
	GiveUp func(err error) bool
	// Sent is called with the bytes of each window that was taken, Waiting with why a window has to wait. Both may be nil and are called
	// from several goroutines.
	Sent    func(bytes int64)
	Waiting func(w Window, err error)
	// Question goes with every window, see Verdict; nil does not ask.
	Question *Question
}

// Result adds up what the gateway answered.
type Result struct {
	Windows, Acknowledged int64     // windows taken; those that the agent may delete
	Accepted, Rejected    int64     // events, as the answers say
	Bytes                 int64     // of the windows taken
	Retried               int64     // how often a window was sent again
	Skipped               []Skipped // windows given up on 402 or 409, as the agent does
	Reasons               []string  // the reasons that the answers name, one for each of the first few refusals
}

// Skipped is a window that was refused for good, and the answer.
type Skipped struct {
	Path   string
	Status *StatusError
}

// String says both.
func (s Skipped) String() string { return s.Path + ": " + s.Status.Error() }

// maxReasons bounds Result.Reasons.
const maxReasons = 100_000

// tally is a Result that the channels of a session fill together.
type tally struct {
	mu sync.Mutex
	Result
}

func (t *tally) add(f func(*Result)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.Result)
}

// StatusError is an answer other than success.
type StatusError struct {
	Status int
	Body   string
}

// Error gives the status and what the gateway said: the detail of a problem document, or else the body.
func (e *StatusError) Error() string {
	var problem struct {
		Detail string `json:"detail"`
	}
	said := strings.TrimSpace(e.Body)
	if json.Unmarshal([]byte(e.Body), &problem) == nil && problem.Detail != "" {
		said = problem.Detail
	}
	return fmt.Sprintf("%d %s: %s", e.Status, http.StatusText(e.Status), said)
}

// Send posts all sessions, one after the other, the channels of each at the same time, and sends session-complete after each. It returns
// when everything is taken, ctx ends, or a window was refused Attempts times.
func (s *Sender) Send(ctx context.Context, sessions []Session) (Result, error) {
	var t tally
	for i := range sessions {
		if err := s.session(ctx, &sessions[i], &t); err != nil {
			return t.Result, fmt.Errorf("session %s: %w", sessions[i].ID, err)
		}
	}
	return t.Result, nil
}

func (s *Sender) session(ctx context.Context, one *Session, t *tally) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for _, windows := range one.Channels {
		wg.Go(func() {
			for _, w := range windows {
				if err := s.window(ctx, one.ID, w, t); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !one.Complete {
		return nil
	}
	return s.complete(ctx, one.ID)
}

// window posts one window until the answer is one on which the agent goes on.
func (s *Sender) window(ctx context.Context, session string, w Window, t *tally) error {
	ask := s.Question.Begin()
	defer ask.End(nil)
	for n := 1; ; n++ {
		err := s.post(ctx, session, w, t, ask)
		var status *StatusError
		switch {
		case err == nil:
			if s.Sent != nil {
				s.Sent(w.Size)
			}
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &status) && (status.Status == http.StatusPaymentRequired || status.Status == http.StatusConflict &&
			!strings.Contains(status.Body, "window_identity_conflict")):
			t.add(func(r *Result) { r.Skipped = append(r.Skipped, Skipped{w.Path, status}) })
			return nil
		case s.Attempts > 0 && n >= s.Attempts, s.GiveUp != nil && s.GiveUp(err):
			return fmt.Errorf("%s: %w", w.Path, err)
		}
		if s.Waiting != nil {
			s.Waiting(w, err)
		}
		t.add(func(r *Result) { r.Retried++ })
		pause := s.Retry
		if pause == 0 {
			pause = RetryEvery
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", w.Path, err)
		case <-time.After(pause):
		}
	}
}

// answer is the gateway's answer to a window.
type answer struct {
	Accepted     int64 `json:"accepted"`
	Rejected     int64 `json:"rejected"`
	Acknowledged bool  `json:"window_acknowledged"`
	Errors       []struct {
		Reason string `json:"reason"`
	} `json:"errors"`
}

func (s *Sender) post(ctx context.Context, session string, w Window, t *tally, ask *Attempt) error {
	f, err := w.FS.Open(w.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/events/stream", f)
	if err != nil {
		return err
	}
	req.ContentLength = w.Size
	h := s.headers(req, session)
	h.Set("Content-Type", "application/x-ndjson")
	if w.Gzip {
		h.Set("Content-Encoding", "gzip")
	}
	if c := w.Sidecar; c != nil {
		h.Set("X-GpuFlight-Window-Id", c.WindowID)
		h.Set("X-GpuFlight-Window-Channel", c.Channel)
		h.Set("X-GpuFlight-Window-Sequence", strconv.FormatUint(c.Sequence, 10))
		h.Set("X-GpuFlight-Window-CRC32", strconv.FormatUint(uint64(c.CRC32), 10))
	}
	ask.Ask(h)
	body, answered, err := s.do(req)
	if err != nil {
		return err
	}
	ask.End(answered)
	var a answer
	_ = json.Unmarshal(body, &a) // an answer without numbers counts as taken and not acknowledged, as the agent reads it
	t.add(func(r *Result) {
		r.Windows++
		r.Bytes += w.Size
		r.Accepted += a.Accepted
		r.Rejected += a.Rejected
		for _, e := range a.Errors {
			if len(r.Reasons) < maxReasons {
				r.Reasons = append(r.Reasons, e.Reason)
			}
		}
		if a.Acknowledged {
			r.Acknowledged++
		}
	})
	return nil
}

// complete sends session-complete: three tries, 2 s and 4 s apart; a 4xx ends it, as the agent does.
func (s *Sender) complete(ctx context.Context, session string) error {
	for n := 1; ; n++ {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/api/v1/events/session-complete", nil)
		if err != nil {
			return err
		}
		s.headers(req, session)
		_, _, err = s.do(req)
		var status *StatusError
		if err == nil || errors.As(err, &status) && status.Status < 500 {
			return nil
		}
		if n == 3 || ctx.Err() != nil {
			return fmt.Errorf("session-complete: %w", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(2*n) * time.Second):
		}
	}
}

func (s *Sender) headers(req *http.Request, session string) http.Header {
	req.Header.Set("X-GpuFlight-Session-Id", session)
	req.Header.Set("User-Agent", "warpline-send")
	if s.Host != "" {
		req.Header.Set("X-GpuFlight-Hostname", s.Host)
	}
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	return req.Header
}

func (s *Sender) client() *http.Client {
	if s.HTTP == nil {
		return http.DefaultClient
	}
	return s.HTTP
}

// do returns the body and the header of an answer that is a success.
func (s *Sender) do(req *http.Request) ([]byte, http.Header, error) {
	resp, err := s.client().Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return nil, nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, nil, &StatusError{resp.StatusCode, string(body[:min(len(body), 2000)])}
	}
	return body, resp.Header, nil
}

// firstSession reads the session id of a lone file's first line that has one.
func firstSession(w Window) (string, error) {
	f, err := w.FS.Open(w.Path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var in io.Reader = f
	if w.Gzip {
		z, err := gzip.NewReader(f)
		if err != nil {
			return "", fmt.Errorf("not gzip: %w", err)
		}
		in = z
	}
	lines := bufio.NewReader(io.LimitReader(in, maxFirstLine))
	for empty := true; ; {
		line, err := lines.ReadBytes('\n')
		empty = empty && len(line) == 0
		var head struct {
			Session string `json:"session_id"`
		}
		if json.Unmarshal(bytes.TrimSpace(line), &head) == nil && head.Session != "" {
			return head.Session, nil
		}
		switch {
		case err == nil:
		case errors.Is(err, io.ErrUnexpectedEOF):
			return "", errors.New("its gzip ends before the first line with a session_id: copy it again")
		case empty:
			return "", errors.New("it is empty")
		default:
			return "", errors.New("no line has a session_id: is it a GPU Flight log?")
		}
	}
}

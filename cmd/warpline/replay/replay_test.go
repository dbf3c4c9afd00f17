package replay_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warpline/warpline/cmd/warpline/replay"
)

// door is the far side of an agent: it notes what comes and answers as told.
type door struct {
	mu     sync.Mutex
	events []string // "device 1", …, "complete"
	bodies map[string][]byte
	wrong  []string
	answer func(channel, sequence string, n int) (int, string) // n counts the tries of one window
	tries  map[string]int
}

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Authorization") != "Bearer k" ||
		r.Header.Get("X-GpuFlight-Session-Id") == "" || r.Header.Get("X-GpuFlight-Hostname") != "h" {
		d.wrong = append(d.wrong, fmt.Sprintf("%s %s %v %v", r.Method, r.URL.Path, r.Header, err))
	}
	if r.URL.Path == "/pre/api/v1/events/session-complete" {
		if len(body) > 0 || r.Header.Get("Content-Type") != "" {
			d.wrong = append(d.wrong, "session-complete with a body or a content type")
		}
		d.events = append(d.events, "complete")
		return
	}
	channel, sequence := r.Header.Get("X-GpuFlight-Window-Channel"), r.Header.Get("X-GpuFlight-Window-Sequence")
	name := channel + " " + sequence
	d.tries[name]++
	if r.URL.Path != "/pre/api/v1/events/stream" || r.Header.Get("Content-Encoding") != "gzip" ||
		r.Header.Get("Content-Type") != "application/x-ndjson" ||
		r.Header.Get("X-GpuFlight-Window-CRC32") != strconv.FormatUint(uint64(crc32.ChecksumIEEE(body)), 10) ||
		r.Header.Get("X-GpuFlight-Window-Id") == "" || r.ContentLength != int64(len(body)) {
		d.wrong = append(d.wrong, fmt.Sprintf("%s: %s %v", name, r.URL.Path, r.Header))
	}
	status, text := http.StatusOK, `{"accepted":7,"rejected":1,"window_acknowledged":true}`
	if d.answer != nil {
		if s, t := d.answer(channel, sequence, d.tries[name]); s != 0 {
			status, text = s, t
		}
	}
	if status == http.StatusOK {
		d.events = append(d.events, name)
		d.bodies[name] = body
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
}

// serve returns the door's address and what closes it: after that, nobody writes to d any more.
func serve(t *testing.T, d *door) (url string, close func()) {
	t.Helper()
	d.bodies, d.tries = map[string][]byte{}, map[string]int{}
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	return srv.URL + "/pre", srv.Close
}

const rotated = "../../../testdata/gpuflight/trace_rotated"

func TestSendIsWhatTheAgentDoes(t *testing.T) {
	sessions, err := replay.Open(rotated)
	if err != nil || len(sessions) != 1 {
		t.Fatalf("%d sessions, %v", len(sessions), err)
	}
	d := &door{answer: func(channel, sequence string, n int) (int, string) {
		if channel == "scope" && sequence == "2" && n < 3 {
			return http.StatusServiceUnavailable, "busy"
		}
		return 0, ""
	}}
	url, closeDoor := serve(t, d)
	r, err := (&replay.Sender{URL: url, Key: "k", Host: "h", Retry: time.Millisecond}).Send(t.Context(), sessions)
	closeDoor()
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range d.wrong {
		t.Error(w)
	}
	next := map[string]int{}
	files := 0
	for _, e := range d.events[:len(d.events)-1] {
		channel, sequence, _ := strings.Cut(e, " ")
		n, _ := strconv.Atoi(sequence)
		if next[channel]++; n != next[channel] {
			t.Errorf("%s came when window %d was due", e, next[channel])
		}
		want, err := os.ReadFile(filepath.Join(rotated, sessions[0].ID, fmt.Sprintf("%s.%d.log.gz", channel, n)))
		if err != nil || !bytes.Equal(d.bodies[e], want) {
			t.Errorf("%s is not the file's bytes: %v", e, err)
		}
		files++
	}
	on, err := filepath.Glob(filepath.Join(rotated, "*", "*.log.gz"))
	if err != nil || files != len(on) || files == 0 {
		t.Errorf("%d windows sent of %d files", files, len(on))
	}
	if d.events[len(d.events)-1] != "complete" {
		t.Errorf("the last word is %s", d.events[len(d.events)-1])
	}
	if r.Retried != 2 || r.Windows != int64(files) || r.Accepted != 7*int64(files) || r.Rejected != int64(files) ||
		r.Acknowledged != int64(files) {
		t.Errorf("%+v", r)
	}
}

func TestAnswersThatEndAWindow(t *testing.T) {
	sessions, err := replay.Open(rotated)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		status   int
		body     string
		skipped  int
		attempts int
		fails    int // status of the error, 0 for none
	}{
		{"quota is skipped", 402, "pay", 1, 0, 0},
		{"finalised is skipped", 409, "done", 1, 0, 0},
		{"conflict is tried again", 409, `{"error":"window_identity_conflict"}`, 0, 3, 409},
		{"a wrong key is tried again", 401, "", 0, 3, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := &door{answer: func(channel, sequence string, _ int) (int, string) {
				if channel == "sass" && sequence == "1" {
					return c.status, c.body
				}
				return 0, ""
			}}
			url, closeDoor := serve(t, d)
			r, err := (&replay.Sender{URL: url, Key: "k", Host: "h", Retry: time.Millisecond, Attempts: c.attempts}).Send(t.Context(), sessions)
			closeDoor()
			var status *replay.StatusError
			if got := errors.As(err, &status); got != (c.fails != 0) || got && status.Status != c.fails {
				t.Errorf("error is %v", err)
			}
			if len(r.Skipped) != c.skipped {
				t.Errorf("%d skipped: %v", len(r.Skipped), r.Skipped)
			}
			if c.attempts > 0 && d.tries["sass 1"] != c.attempts {
				t.Errorf("%d tries, want %d", d.tries["sass 1"], c.attempts)
			}
			if done := d.events != nil && d.events[len(d.events)-1] == "complete"; done != (c.fails == 0) {
				t.Errorf("session-complete sent: %v", done)
			}
		})
	}
}

func TestSendEndsWithItsContext(t *testing.T) {
	sessions, err := replay.Open(rotated)
	if err != nil {
		t.Fatal(err)
	}
	d := &door{answer: func(string, string, int) (int, string) { return 500, "" }}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	url, _ := serve(t, d)
	if _, err := (&replay.Sender{URL: url, Key: "k", Host: "h", Retry: time.Hour}).Send(ctx, sessions); err == nil {
		t.Error("no error")
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) string {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var z bytes.Buffer
	g := gzip.NewWriter(&z)
	io.WriteString(g, "not json\n{\"type\":\"job_start\",\"session_id\":\"from-gzip\"}\n")
	g.Close()
	for _, c := range []struct{ name, path, id, wrong string }{
		{"plain log", write("a.log", "{\"session_id\":\"from-log\"}\n"), "from-log", ""},
		{"without a line end", write("b.ndjson", "{\"session_id\":\"x\"}"), "x", ""},
		{"gzip", write("c.log.gz", z.String()), "from-gzip", ""},
		{"no gzip", write("d.gz", "plain"), "", "not gzip"},
		{"no session", write("e.log", "{}\n[1]\n"), "", "no line has a session_id"},
		{"empty", write("g.log", ""), "", "it is empty"},
		{"torn gzip", write("h.log.gz", z.String()[:len(z.String())/2]), "", "its gzip ends before"},
		{"another file", write("f.txt", "x"), "", "neither a folder"},
		{"nothing", filepath.Join(dir, "none"), "", "name a file or folder that is there"},
		{"empty folder", dir, "", "no windows in it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := replay.Open(c.path)
			if c.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error is %v", err)
				}
				return
			}
			if err != nil || len(s) != 1 || s[0].ID != c.id || s[0].Complete {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
	// Names that are no windows are left alone; ten comes after two, and what a client left behind that died last.
	for _, n := range []string{"sess/device.10.log.gz", "sess/device.2.log.gz", "sess/.tmp/device.log", "sess/.tmp/device.11.log.gz",
		"sess/notes.log", "sess/device.x.log.gz", "sess/other.1.log.gz"} {
		write(n, "x")
	}
	s, err := replay.Open(filepath.Join(dir, "sess"))
	if err != nil || len(s) != 1 || s[0].ID != "sess" || !s[0].Complete || len(s[0].Channels) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	if d := s[0].Channels["device"]; len(d) != 3 || d[0].Path != "device.2.log.gz" || d[1].Path != "device.10.log.gz" || d[0].Sidecar != nil ||
		d[2].Path != ".tmp/device.log" || d[2].Gzip {
		t.Errorf("%+v", d)
	}
}

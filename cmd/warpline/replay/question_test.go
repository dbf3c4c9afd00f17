package replay

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// counting is a gateway whose receipts say how many uploads they stand for.
type counting struct {
	*httptest.Server
	mu       sync.Mutex
	fail     int // so many uploads fail after they were taken
	ages     int // tries that say when the first was
	asked    string
	pending  int // answers until it is done
	withhold bool
}

func newCounting(t *testing.T) *counting {
	c := &counting{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if receipts, ok := strings.CutPrefix(r.URL.Path, "/api/v1/uploads/"); ok {
			if c.asked = receipts; c.pending > 0 {
				c.pending--
				fmt.Fprint(w, `{"state":"pending","parts":9,"parts_folded":1}`)
				return
			}
			fmt.Fprint(w, `{"state":"done","events":3,"stored":1,"rejected":2,"reasons":[{"reason":"r","events":2}]}`)
			return
		}
		if r.Header.Get("Warpline-Upload-Age") != "" {
			c.ages++
		}
		if c.fail > 0 {
			c.fail--
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if given := r.Header.Get("Warpline-Upload"); given != "" && !c.withhold {
			name, _, _ := strings.Cut(given, ".")
			w.Header().Set("Warpline-Upload", fmt.Sprintf("%s.%d", name, 1+units(given)))
		}
		fmt.Fprint(w, `{"accepted":1,"window_acknowledged":true}`)
	}))
	t.Cleanup(c.Close)
	return c
}

// units adds up what joined receipts stand for.
func units(text string) (n int) {
	for one := range strings.SplitSeq(text, ",") {
		if _, number, ok := strings.Cut(one, "."); ok {
			var k int
			fmt.Sscan(number, &k)
			n += k
		}
	}
	return n
}

// However many windows go side by side, and however often they fail, the question at the end stands for each of them once.
func TestQuestionStandsForEveryUpload(t *testing.T) {
	c := newCounting(t)
	c.fail, c.pending = 20, 2
	dir := t.TempDir()
	for s := range 5 {
		for _, channel := range Channels {
			for i := range 6 {
				path := filepath.Join(dir, fmt.Sprintf("s%d", s), fmt.Sprintf("%s.%d.log", channel, i+1))
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(`{"session_id":"s"}`), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	sessions, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &Sender{URL: c.URL, Key: "k", Retry: time.Millisecond, Question: NewQuestion()}
	r, err := s.Send(t.Context(), sessions)
	if err != nil || r.Windows != 120 {
		t.Fatal(r, err)
	}
	heard := 0
	v, err := s.Verdict(t.Context(), time.Minute, func(Verdict) { heard++ })
	if err != nil || v.State != Done || v.Rejected != 2 || v.Reasons[0].Reason != "r" || heard != 3 {
		t.Errorf("%+v, %v, heard %d times", v, err, heard)
	}
	if n := units(c.asked); n != 120 {
		t.Errorf("the question stands for %d uploads, want 120: %s", n, c.asked)
	}
	if n := strings.Count(c.asked, ",") + 1; n > len(Channels) {
		t.Errorf("%d receipts at the end", n)
	}
	if c.ages < 15 { // session-complete may have had some of the failures
		t.Errorf("%d tries said when the first was", c.ages)
	}
}

// The wait is bounded, and an older gateway is told from one that does not know any more.
func TestQuestionWithoutAnAnswer(t *testing.T) {
	c := newCounting(t)
	file := filepath.Join(t.TempDir(), "a.log")
	if err := os.WriteFile(file, []byte(`{"session_id":"s"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	sessions, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(limit time.Duration) Verdict {
		t.Helper()
		s := &Sender{URL: c.URL, Key: "k", Question: NewQuestion()}
		if _, err := s.Send(t.Context(), sessions); err != nil {
			t.Fatal(err)
		}
		v, err := s.Verdict(t.Context(), limit, nil)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	c.pending = 1 << 30
	if v := ask(50 * time.Millisecond); v.State != Pending || v.Parts != 9 {
		t.Errorf("%+v", v)
	}
	c.withhold = true
	if v := ask(time.Minute); v.State != Untold {
		t.Errorf("%+v", v)
	}
	if v, err := (&Sender{URL: c.URL, Question: NewQuestion()}).Verdict(t.Context(), 0, nil); err != nil || v.State != Done {
		t.Errorf("of nothing: %+v, %v", v, err)
	}
}

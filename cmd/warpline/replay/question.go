package replay

import (
	"context"
	"crypto/rand"
	"encoding/hex"
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

// Question asks the gateway what became of everything that was sent with it: whether a worker refused what the gateway had accepted. It
// keeps the gateway's receipts; the next upload brings those that are there, so that they stay few. The zero value is not valid, see
// NewQuestion. It is safe for concurrent use.
type Question struct {
	name string

	mu       sync.Mutex
	receipts []string
	taken    int  // uploads that were answered
	untold   bool // an answer had no receipt: the gateway is older than this
	unknown  bool // an answer said that nothing is known
}

// NewQuestion returns a question about nothing yet.
func NewQuestion() *Question {
	var name [16]byte
	rand.Read(name[:]) // never fails since Go 1.24
	return &Question{name: hex.EncodeToString(name[:])}
}

const (
	headerUpload    = "Warpline-Upload"
	headerUploadAge = "Warpline-Upload-Age"
	maxTaken        = 16      // receipts that one upload brings
	maxTakenBytes   = 6 << 10 // of them: proxies let this much pass
)

// Attempt is one upload on its way, in as many tries as it takes.
type Attempt struct {
	q     *Question
	first time.Time
	took  []string
}

// Begin is called before the first try of an upload. A nil question does not ask anything.
func (q *Question) Begin() *Attempt { return &Attempt{q: q} }

// Ask adds the headers to a try.
func (a *Attempt) Ask(h http.Header) {
	if a.q == nil {
		return
	}
	if a.first.IsZero() {
		a.first = time.Now()
	} else {
		h.Set(headerUploadAge, strconv.FormatInt(int64(time.Since(a.first)/time.Second), 10))
	}
	if a.took == nil {
		a.took = a.q.take()
	}
	value := a.q.name
	if len(a.took) > 0 {
		value = strings.Join(a.took, ",")
	}
	h.Set(headerUpload, value)
}

// take takes some receipts out.
func (q *Question) take() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.receipts) && n < maxTaken && size+len(q.receipts[n]) <= maxTakenBytes {
		size += len(q.receipts[n]) + 1
		n++
	}
	out := append([]string{}, q.receipts[:n]...)
	q.receipts = append(q.receipts[:0], q.receipts[n:]...)
	return out
}

// End is called when the upload was answered: with the answer's header when it was taken, or with nil when it was given up.
func (a *Attempt) End(h http.Header) {
	q := a.q
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	took := a.took
	a.took = nil
	if h == nil {
		q.receipts = append(q.receipts, took...)
		return
	}
	q.taken++
	receipt := h.Get(headerUpload)
	switch {
	case receipt == "":
		q.untold = true
		q.receipts = append(q.receipts, took...)
	case !strings.HasPrefix(receipt, q.name+"."):
		q.unknown = true
		q.receipts = append(q.receipts, took...)
	default:
		q.receipts = append(q.receipts, receipt)
	}
}

// States of a verdict.
const (
	Pending = "pending" // not all of it is folded yet
	Done    = "done"
	Unknown = "unknown" // it is not known any more
	Untold  = "untold"  // the gateway is older than this program, and cannot answer
)

// Verdict is what became of everything that was sent with a question, as far as that is known.
type Verdict struct {
	State      string `json:"state"`
	Events     int64  `json:"events"` // = Stored + Rejected + Duplicates
	Stored     int64  `json:"stored"`
	Rejected   int64  `json:"rejected"`
	Duplicates int64  `json:"duplicates"`
	Reasons    []struct {
		Reason string `json:"reason"`
		Events int64  `json:"events"`
	} `json:"reasons"`
	// Repeated are events of uploads that had been taken before, RepeatedRejected those of them that the gateway refused then. They are not
	// in the counts above.
	Repeated         int64  `json:"repeated"`
	RepeatedRejected int64  `json:"repeated_rejected"`
	Parts            int64  `json:"parts"`
	PartsFolded      int64  `json:"parts_folded"`
	Detail           string `json:"detail"`
}

// errBusy is an answer after which the same question may be asked again.
var errBusy = errors.New("the gateway is busy")

// Verdict asks until all is known, for up to limit. told is called with each answer on the way; it may be nil. The error is why no question
// could be asked at the end of the time, and comes with the last answer; with the state Pending or Unknown the counts are what is known so
// far.
func (s *Sender) Verdict(ctx context.Context, limit time.Duration, told func(Verdict)) (Verdict, error) {
	q := s.Question
	q.mu.Lock()
	receipts, untold, unknown, taken := strings.Join(q.receipts, ","), q.untold, q.unknown, q.taken
	q.mu.Unlock()
	switch {
	case taken == 0:
		return Verdict{State: Done}, nil
	case receipts == "" && untold:
		return Verdict{State: Untold}, nil
	case receipts == "":
		return Verdict{State: Unknown}, nil
	}
	until := time.Now().Add(limit)
	last := Verdict{State: Pending}
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		v, after, err := s.askOnce(ctx, receipts)
		if err == nil {
			last = v
			if untold && v.State == Done {
				last.State = Untold
			}
			if unknown && v.State == Done {
				last.State = Unknown
			}
			if told != nil {
				told(last)
			}
		}
		var status *StatusError
		switch {
		case ctx.Err() != nil:
			return last, context.Cause(ctx)
		case errors.As(err, &status) && status.Status == http.StatusNotFound: // the gateway has another secret now
			last.State = Unknown
			return last, nil
		case err != nil && !errors.Is(err, errBusy) && status != nil && status.Status/100 == 4:
			return last, err
		case err == nil && last.State != Pending:
			return last, nil
		}
		wait := max(pause, after)
		if left := time.Until(until); left <= 0 {
			return last, err
		} else if wait > left {
			wait = left
		}
		select {
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// askOnce asks once. after is how long the gateway wants not to be asked.
func (s *Sender) askOnce(ctx context.Context, receipts string) (v Verdict, after time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/api/v1/uploads/"+receipts, nil)
	if err != nil {
		return v, 0, err
	}
	req.Header.Set("User-Agent", "warpline-send")
	if s.Key != "" {
		req.Header.Set("Authorization", "Bearer "+s.Key)
	}
	resp, err := s.client().Do(req)
	if err != nil {
		return v, 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return v, 0, err
	}
	if resp.StatusCode != http.StatusOK {
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			after = time.Duration(min(n, 3600)) * time.Second
		}
		status := &StatusError{resp.StatusCode, string(body[:min(len(body), 2000)])}
		if resp.StatusCode == http.StatusTooManyRequests {
			return v, after, fmt.Errorf("%w: %w", errBusy, status)
		}
		return v, after, status
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, 0, fmt.Errorf("the answer is not the gateway's: %w", err)
	}
	if v.State != Done && v.State != Unknown {
		v.State = Pending // also a state that only later gateways know
	}
	return v, 0, nil
}

package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/moogar0880/problems"
)

// Refusal is the answer when nothing was taken: an RFC 9457 problem document.
type Refusal struct {
	Status int
	Code   string // machine-readable, in the member "error"
	Detail string // says the limit as configured and what to do
	// RetryAfter is sent as Retry-After, rounded up, when it is above 0.
	RetryAfter time.Duration
	Header     [2]string // one more of the answer
	Cause      error     // for the log
	routes     []string  // what exists, for 404
}

// Error is for the log: the answer in one line, and its cause.
func (r *Refusal) Error() string {
	if r.Cause != nil {
		return fmt.Sprintf("%d %s: %s: %v", r.Status, r.Code, r.Detail, r.Cause)
	}
	return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Detail)
}

// problem is the document: the standard members and ours.
type problem struct {
	problems.Problem
	Code   string   `json:"error"`
	Routes []string `json:"routes,omitempty"`
	After  int      `json:"retry_after_seconds,omitempty"`
}

// Write sends the document.
func (r *Refusal) Write(w http.ResponseWriter) {
	p := problem{Code: r.Code, Routes: r.routes}
	p.Type, p.Title, p.Status, p.Detail = "urn:warpline:problem:"+r.Code, http.StatusText(r.Status), r.Status, r.Detail
	h := w.Header()
	if r.RetryAfter > 0 {
		p.After = int(math.Ceil(r.RetryAfter.Seconds()))
		h.Set("Retry-After", strconv.Itoa(p.After))
	}
	if r.Header[0] != "" {
		h.Set(r.Header[0], r.Header[1])
	}
	h.Set("Content-Type", problems.ProblemMediaType)
	w.WriteHeader(r.Status)
	encode(w, p)
}

// soon is a Retry-After for troubles whose end is not known: 5 to 8 s, so that senders do not all come back at once.
func soon() time.Duration { return 5*time.Second + time.Duration(rand.IntN(4))*time.Second }

// Unavailable is the answer while Warpline itself cannot take data; the client keeps it and comes again.
func Unavailable(code, detail string, cause error) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Code: code, Detail: detail + "; nothing is lost: send the same again",
		RetryAfter: soon(), Cause: cause}
}

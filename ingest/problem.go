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

// refusal is an answer that takes nothing: an RFC 9457 problem document.
type refusal struct {
	status int
	code   string // machine-readable, in the member "error"
	detail string // says the limit as configured and what to do
	// retryAfter is sent as Retry-After, rounded up, when it is above 0.
	retryAfter time.Duration
	routes     []string // what exists, for 404
	header     [2]string
	cause      error // for the log
}

func (r *refusal) Error() string {
	if r.cause != nil {
		return fmt.Sprintf("%d %s: %s: %v", r.status, r.code, r.detail, r.cause)
	}
	return fmt.Sprintf("%d %s: %s", r.status, r.code, r.detail)
}

// problem is the document: the standard members and ours.
type problem struct {
	problems.Problem
	Code   string   `json:"error"`
	Routes []string `json:"routes,omitempty"`
	After  int      `json:"retry_after_seconds,omitempty"`
}

// write sends the document.
func (r *refusal) write(w http.ResponseWriter) {
	p := problem{Code: r.code, Routes: r.routes}
	p.Type, p.Title, p.Status, p.Detail = "urn:warpline:problem:"+r.code, http.StatusText(r.status), r.status, r.detail
	h := w.Header()
	if r.retryAfter > 0 {
		p.After = int(math.Ceil(r.retryAfter.Seconds()))
		h.Set("Retry-After", strconv.Itoa(p.After))
	}
	if r.header[0] != "" {
		h.Set(r.header[0], r.header[1])
	}
	h.Set("Content-Type", problems.ProblemMediaType)
	w.WriteHeader(r.status)
	encode(w, p)
}

// soon is a Retry-After for troubles whose end is not known: 5 to 8 s, so that senders do not come back all at once.
func soon() time.Duration { return 5*time.Second + time.Duration(rand.IntN(4))*time.Second }

// unavailable is the answer while Warpline itself cannot take data; the client keeps it and comes again.
func unavailable(code, detail string, cause error) *refusal {
	return &refusal{status: http.StatusServiceUnavailable, code: code, detail: detail + "; nothing is lost: send the same again", retryAfter: soon(), cause: cause}
}

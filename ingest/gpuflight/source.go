// Package gpuflight is the door of GPU Flight: windows of NDJSON as its agent and its client send them, single lines of its legacy mode,
// and the end of a session.
//
// Start with Source. Uploads are cut on line boundaries into parts (cut.go) and their rows are counted (count.go); a line of legacy mode is
// found in its wrapper first (wrapper.go). The answers follow from what the agent does with them: it repeats an upload for ever until it
// gets a success, so what cannot be taken is kept as a reject.
package gpuflight

import (
	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// Source is what the gateway is given of GPU Flight. Its clients choose the ids of sessions.
func Source() ingest.Source {
	return ingest.Source{
		Name: "gpu-flight",
		Routes: []ingest.Route{
			{Path: "/api/v1/events/stream", Upload: newWindow},
			{Path: "/api/v1/events/session-complete", Notice: complete},
			{Path: "/api/v1/events/{type}", Upload: newLine, MostBody: lineBody, AnyEncoding: true},
		},
		Kinds:    []stream.Kind{stream.KindGPUFlight, stream.KindComplete},
		Reasons:  []string{gpuflight.ReasonBadJSON, gpuflight.ReasonMissingField},
		Refusals: []string{"crc_mismatch", "window_identity_conflict", "session_missing"},
	}
}

// answer is the answer to an accepted upload.
type answer struct {
	Accepted uint64      `json:"accepted"` // events
	Rejected uint64      `json:"rejected"`
	Errors   []lineError `json:"errors"` // the first few
	// Whole says that every byte was kept, so the client may delete its copy.
	Whole bool `json:"window_acknowledged"`
}

// lineError is an entry of the answer's "errors".
type lineError struct {
	Line   int64  `json:"line"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// Bounds of what clients name, and of the answer.
const (
	maxWindowIDBytes = 128
	maxHostBytes     = 255
	maxListedErrors  = 10
)

// upload is what a window and a line have in common.
type upload struct {
	host    string
	channel string
	missing string // why there is no session: everything is a reject
	reason  string // of that reject
	errors  []lineError
	cutting
}

// Answer implements ingest.Intake.
func (p *upload) Answer(o ingest.Outcome) any {
	answer := answer{Accepted: o.Accepted, Rejected: o.Rejected, Errors: p.errors, Whole: o.Whole}
	if o.Repeat || answer.Errors == nil {
		answer.Errors = []lineError{}
	}
	return answer
}

// isToken reports whether s is a short plain word, as channels are.
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return s != "" && len(s) <= 32
}

var _, _ ingest.Intake = (*window)(nil), (*line)(nil)

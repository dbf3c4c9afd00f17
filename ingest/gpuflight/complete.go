package gpuflight

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/stream"
)

// completeIdentity is the identity of every session-complete, so that the second one of a session changes nothing.
const completeIdentity = "complete"

// complete is the notice that a session has ended. Launcher and agent may both send it, early or twice.
func complete(r *http.Request) (*ingest.Notice, error) {
	session := strings.TrimSpace(r.Header.Get("X-GpuFlight-Session-Id"))
	if session == "" || ingest.Printable(session, stream.MaxSessionBytes) != session {
		return nil, &ingest.Refusal{
			Status: http.StatusBadRequest, Code: "session_missing",
			Detail: fmt.Sprintf("send X-GpuFlight-Session-Id: the session that has ended, at most %d bytes without control characters",
				stream.MaxSessionBytes),
		}
	}
	return &ingest.Notice{
		Session: session, Host: ingest.Printable(r.Header.Get("X-GpuFlight-Hostname"), maxHostBytes),
		Kind: stream.KindComplete, Identity: completeIdentity,
		Answer: struct {
			Session string `json:"session_id"`
			State   string `json:"state"`
		}{session, "complete"},
	}, nil
}

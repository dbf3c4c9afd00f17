package gpuflight

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// window is an upload of NDJSON: a window of the agent, with headers that name it, or a file without.
type window struct {
	upload
	header   http.Header
	id       string // "" without window headers
	sequence uint64
	crc      uint32
}

func newWindow(r *http.Request, _ tenant.Limits) (ingest.Intake, error) {
	return &window{header: r.Header}, nil
}

// Received implements ingest.Intake.
func (p *window) Received(u *ingest.Upload) error {
	p.describe(u)
	if p.id != "" && p.crc != u.CRC32() && !u.Unread() { // before anything is acknowledged: a body may be lost whole
		words := fmt.Sprintf("the body's CRC-32 is %d, X-GpuFlight-Window-CRC32 says %d: it was damaged on the way", u.CRC32(), p.crc)
		return ingest.Unavailable("crc_mismatch", words, nil)
	}
	if u.Size() == 0 {
		return ingest.ErrNothing
	}
	return nil
}

// describe reads the headers. Window headers count only when all four are there and make sense.
func (p *window) describe(u *ingest.Upload) {
	h := p.header
	p.host = ingest.Printable(h.Get("X-GpuFlight-Hostname"), maxHostBytes)
	id, channel := strings.TrimSpace(h.Get("X-GpuFlight-Window-Id")), strings.TrimSpace(h.Get("X-GpuFlight-Window-Channel"))
	sequence, errSeq := strconv.ParseUint(strings.TrimSpace(h.Get("X-GpuFlight-Window-Sequence")), 10, 64)
	crc, errCRC := strconv.ParseUint(strings.TrimSpace(h.Get("X-GpuFlight-Window-CRC32")), 10, 32)
	if isToken(channel) {
		p.channel = channel
	}
	switch {
	case id != "" && channel != "" && errSeq == nil && errCRC == nil:
		p.id, p.sequence, p.crc = id, sequence, uint32(crc)
		if len(id) > maxWindowIDBytes || ingest.Printable(id, maxWindowIDBytes) != id {
			p.id = "wid-" + ingest.DigestOf(id).String()
		}
		if p.channel == "" {
			p.channel = "x-" + ingest.DigestOf(channel).String()[:8]
		}
	case id != "" || h.Get("X-GpuFlight-Window-Sequence") != "" || h.Get("X-GpuFlight-Window-CRC32") != "":
		// Without all of the headers the upload is identified by its body's hash.
		u.Odd("incomplete_headers", "window_headers", "window headers are incomplete or malformed and were not used",
			strings.TrimSpace(h.Get("X-GpuFlight-Session-Id")))
	}
}

// Survey implements ingest.Intake: it finds the session.
func (p *window) Survey(u *ingest.Upload) (ingest.Identity, error) {
	u.Limits.MaxLine = min(u.Limits.MaxLine, stream.MaxBodyBytes-1) // what a worker agrees to read back
	session := strings.TrimSpace(p.header.Get("X-GpuFlight-Session-Id"))
	if session == "" {
		session = firstSession(u)
	}
	p.reason, p.missing = u.SetSession(session)
	if session == "" {
		p.missing = "neither X-GpuFlight-Session-Id nor the first line has a session id"
	}
	u.Window = p.id
	if p.id != "" && p.missing == "" {
		return u.ByWindow(p.channel, p.id, p.sequence), nil
	}
	return u.ByContent(u.Sum(), "sha256-"+u.Sum().String()), nil
}

// firstSession is the session id of the first line.
func firstSession(u *ingest.Upload) string {
	head := u.Buffer()[:stream.RejectBytes]
	n, _ := io.ReadFull(u.Open(), head)
	head = head[:n]
	for len(head) > 0 {
		line := head
		if i := slices.Index(head, '\n'); i >= 0 {
			line, head = head[:i], head[i+1:]
		} else {
			head = nil
		}
		if len(strings.TrimSpace(string(line[:min(len(line), 8)]))) == 0 {
			continue
		}
		_, id := gpuflight.Peek(line)
		return string(id)
	}
	return ""
}

// Conflict implements ingest.Intake.
func (p *window) Conflict(u *ingest.Upload) *ingest.Refusal {
	return &ingest.Refusal{
		Status: http.StatusConflict, Code: "window_identity_conflict",
		Detail: fmt.Sprintf("window %s of session %s was accepted with other bytes; this channel waits until that is decided: "+
			"if the new bytes are right, an operator runs `warpline window accept %s %s %s`", p.id, u.Session, u.Tenant, u.Session, p.id),
	}
}

// Publish implements ingest.Intake.
func (p *window) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	p.lend()
	defer p.giveBack()
	p.cutter.reset(u.Open(), u.Limits.MaxLine, u.Buffer())
	return p.publish(ctx, u, to)
}

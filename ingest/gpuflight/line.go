package gpuflight

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Legacy mode: the agent posts each line by itself, as a string inside a wrapper. The type in the route is not used, since the line names
// it too: every type is taken. Whatever the body is, the answer is 200 once it is stored, as an event or as a reject: after any other
// answer the agent would repeat it for ever.

// wrapperBytes is what a wrapper may add to its line beside the escapes.
const wrapperBytes = 64 << 10

// lineBody is the most that the body of a line may have as received: escaping at most doubles a line, since it does not hold control
// characters.
func lineBody(l tenant.Limits) int64 { return min(l.MaxBodyBytes, 2*l.MaxLineBytes+wrapperBytes) }

// line is an upload of one line. It is known by its content: sent again it is the same part, which a worker folds once, and so are the
// copies that the client writes to every channel. Any Content-Encoding is taken: a body that is neither gzip nor a line is a reject.
type line struct {
	upload
	found  openedLine
	limits ingest.CutLimits // under which it was found
}

func newLine(r *http.Request, _ tenant.Limits) (ingest.Intake, error) {
	p := &line{}
	if channel := strings.TrimSpace(r.Header.Get("X-Key")); isToken(channel) {
		p.channel = channel
	}
	return p, nil
}

// Received implements ingest.Intake.
func (p *line) Received(u *ingest.Upload) error {
	if u.Size() == 0 {
		return ingest.ErrNothing
	}
	return nil
}

// Survey implements ingest.Intake: it finds the line.
func (p *line) Survey(u *ingest.Upload) (id ingest.Identity, err error) {
	u.Outcome = "line"
	u.Limits.MaxRaw = min(u.Limits.MaxRaw, u.Limits.MaxBody)
	u.Limits.MaxLine = min(u.Limits.MaxLine, stream.MaxBodyBytes-1)
	p.limits = u.Limits
	p.lend()
	defer p.giveBack()
	p.found, err = p.open(u)
	if err != nil {
		return id, err
	}
	if p.found.blank {
		return id, ingest.ErrNothing
	}
	if p.found.size >= stream.PartBytes && p.missing == "" {
		// It goes to the object store, and must not be stored there again after a worker has deleted it.
		return u.ByContent(p.found.sum, p.found.identity()), nil
	}
	return ingest.Unrecorded(p.found.identity()), nil
}

// Conflict implements ingest.Intake. Two lines of one content are the same line.
func (p *line) Conflict(*ingest.Upload) *ingest.Refusal {
	return ingest.Unavailable("internal", "the gateway failed", nil)
}

// Publish implements ingest.Intake.
func (p *line) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	p.limits.MaxLine = u.Limits.MaxLine
	u.Limits = p.limits
	p.lend()
	defer p.giveBack()
	if err := p.found.begin(u, &p.cutting); err != nil {
		return err
	}
	return p.publish(ctx, u, to)
}

// openedLine is what the cutter is about to read.
type openedLine struct {
	sum   ingest.Digest // of the line, or of the body where no line was found
	size  int64
	body  bool // it is the body, all of it a reject
	blank bool
	where foundLine
}

// identity names the part of a line. An upload with window headers has a '/' in its identity, one without begins with sha256-.
func (l openedLine) identity() string {
	if l.body {
		return "body-" + l.sum.String()
	}
	return "line-" + l.sum.String()
}

// begin makes the cutter ready to cut the line, or the body where there is no line.
func (l *openedLine) begin(u *ingest.Upload, c *cutting) error {
	body := u.Open()
	if l.body {
		c.cutter.reset(body, u.Limits.MaxLine, u.Buffer())
		return nil
	}
	if _, err := io.CopyN(io.Discard, body, l.where.start); err != nil {
		return fmt.Errorf("read spooled body: %w", err)
	}
	c.reader.reset(body, l.where.end-l.where.start, l.where.quoted)
	c.cutter.reset(&c.reader, u.Limits.MaxLine, u.Buffer())
	return nil
}

// open finds the line, its hash and its session. A body without a line, or a line without a session, sets p.missing.
func (p *line) open(u *ingest.Upload) (openedLine, error) {
	found, err := findLine(u.Open(), u.Buffer()[:stream.RejectBytes])
	var bad *wrapperError
	var torn *ingest.TornError
	switch {
	case errors.As(err, &bad):
		p.reason, p.missing = bad.reason, bad.detail
	case errors.As(err, &torn):
		p.reason, p.missing = torn.Reason, torn.Detail
	case err != nil:
		return openedLine{}, err
	}
	if err != nil {
		u.SetSession(stream.NoSession)
		return openedLine{sum: u.Sum(), size: u.Size(), body: true}, nil
	}
	p.host = ingest.Printable(found.host, maxHostBytes)
	line := openedLine{where: found}
	if err := line.begin(u, &p.cutting); err != nil {
		return openedLine{}, err
	}
	head := u.Buffer()[:stream.RejectBytes]
	n, err := io.ReadFull(&p.reader, head)
	head = head[:n]
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return openedLine{}, err
	}
	_, id := gpuflight.Peek(head)
	session := string(id) // copied before the buffer is used for the rest
	line.blank = len(bytes.TrimSpace(head)) == 0 && n < stream.RejectBytes
	sum := sha256.New()
	sum.Write(head)
	rest, err := io.CopyBuffer(sum, &p.reader, u.Buffer()[stream.RejectBytes:2*stream.RejectBytes])
	if err != nil {
		return openedLine{}, err
	}
	line.sum, line.size = ingest.SumOf(sum), int64(n)+rest
	p.reason, p.missing = u.SetSession(session)
	if session == "" {
		p.missing = "the line has no session_id"
	}
	return line, nil
}

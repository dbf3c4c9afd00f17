package ingest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Legacy mode: the agent posts each line by itself, as a string inside a wrapper. The route names a type, which the line names too, so it
// is not looked at: every type is taken. Whatever the body is, the answer is 200 once it is stored, as an event or as a reject, since the
// agent repeats anything else for ever.

// wrapperBytes is what a wrapper may add to its line beside the escapes.
const wrapperBytes = 64 << 10

// lineBody is the most that the body of a line may have as received: escaping doubles a line at most, but for control characters, of which a
// line has none.
func lineBody(l tenant.Limits) int64 { return min(l.MaxBodyBytes, 2*l.MaxLineBytes+wrapperBytes) }

// serveLine takes one line. Its Content-Encoding is not held against it: a body that is neither gzip nor a line is a reject.
func (g *Gateway) serveLine(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	m, no := g.enter(r, x)
	if no != nil {
		return no
	}
	defer g.leave(m)
	_, limits := m.current()
	u, s, no := g.receive(ctx, w, r, x, m, lineBody(limits))
	if no != nil {
		return no
	}
	defer s.close()
	if channel := strings.TrimSpace(r.Header.Get("X-Key")); isToken(channel) {
		u.channel = channel
	}
	if u.asked = g.asks(r, m); s.size == 0 {
		g.answers(ctx, w, m, u.asked)
		x.answer = receipt{Errors: []lineError{}, Whole: true}
		return nil
	}
	answer, no := g.acceptLine(ctx, m, limits, u, s, x)
	if no != nil {
		return no
	}
	g.answers(ctx, w, m, u.asked)
	x.answer = answer
	return nil
}

// acceptLine stores the line in a spooled body. It is known by its content: sent again it is the same part, which a worker folds once, and
// so are the copies that the client writes to every channel.
func (g *Gateway) acceptLine(ctx context.Context, m *meter, limits tenant.Limits, u *upload, s *spool, x *exchange) (*receipt, *refusal) {
	wk, no := g.takeWorker(ctx, m)
	if no != nil {
		return nil, no
	}
	defer g.giveWorker(m, wk)
	if !u.gzip {
		var magic [2]byte
		s.ReadAt(magic[:], 0)
		u.gzip = magic == [2]byte{0x1f, 0x8b}
	}
	maxBody := lineBody(limits)
	cut := cutLimits{maxBody: maxBody, maxRaw: min(limits.MaxRawBytes, maxBody), maxRatio: limits.MaxRatio, maxLine: min(limits.MaxLineBytes, stream.MaxBodyBytes-1)}
	line, err := g.openLine(u, s, wk, cut)
	if err != nil {
		return nil, unavailable("internal", "the gateway failed", err)
	}
	x.session, x.outcome = u.session, "line"
	if line.blank {
		return &receipt{Errors: []lineError{}, Whole: true}, nil
	}
	var c *claim
	if line.size >= stream.PartBytes && u.missing == "" { // it goes to the object store, which must not get it again after a worker deleted it
		at := place{tenant: u.tenant, key: uploadKey(u.tenant, u.session, line.sum)}
		c, err = g.claim(ctx, at, window{id: line.sum, body: line.sum, limits: cut}, func(*claim) string { return line.identity() })
		if err != nil {
			return nil, g.failed("recognising the line", atWindows(err))
		}
		if c.window.state == windowDone {
			g.repeated(u.tenant, "gpu-flight", x, limits, c)
			u.asked.repeat(&c.window)
			if u.asked.mayWait(&c.window) {
				u.asked.waits(stream.Partition(u.tenant, u.session, g.streams.Partitions), c.window.last)
			}
			m.charge(time.Now(), cost{events: c.window.accepted})
			return &receipt{Accepted: c.window.accepted, Rejected: c.window.rejected, Errors: []lineError{}, Whole: c.window.whole}, nil
		}
		wk.cutter.maxLine = c.window.limits.maxLine
	}
	p := g.publisher(u, line.identity(), limits, wk)
	t, err := g.publish(ctx, p, wk, u)
	wk.out = p.scratch
	if err != nil {
		p.abandon()
		return nil, g.failed("storing the line", err)
	}
	first := true
	if c != nil {
		if first, err = g.settle(ctx, c, t, p.last); err != nil {
			return nil, g.failed("recording the line", atWindows(err))
		}
	} else {
		first = p.known == 0 // one part: JetStream has it from minutes ago
	}
	m.charge(time.Now(), t.cost())
	if !first {
		g.repeated(u.tenant, "gpu-flight", x, limits, &claim{window: window{accepted: t.Accepted, rejected: t.Rejected}})
		return &t.receipt, nil
	}
	g.enterBooks(u.tenant, x, t)
	return &t.receipt, nil
}

// openedLine is what the cutter is about to read.
type openedLine struct {
	sum   digest // of the line, or of the body where no line was found
	size  int64
	body  bool // it is the body, all of it a reject
	blank bool
}

// identity names the part of a line. An upload with window headers has a '/' in its identity, one without begins with sha256-.
func (l openedLine) identity() string {
	if l.body {
		return "body-" + l.sum.String()
	}
	return "line-" + l.sum.String()
}

// openLine finds the line, its hash and its session, and makes the worker ready to cut it. A body without a line, or a line without a
// session, sets u.missing.
func (g *Gateway) openLine(u *upload, s *spool, wk *worker, cut cutLimits) (openedLine, error) {
	wk.open(s, u.gzip, cut)
	found, err := findLine(&wk.source, wk.buf[:stream.RejectBytes])
	var bad *wrapperError
	var torn *tornError
	switch {
	case errors.As(err, &bad):
		u.reason, u.missing = bad.reason, bad.detail
	case errors.As(err, &torn):
		u.reason, u.missing = torn.reason, torn.detail
	case err != nil:
		return openedLine{}, err
	}
	if err != nil {
		u.session = noSession
		wk.open(s, u.gzip, cut)
		return openedLine{sum: s.sum, size: s.size, body: true}, nil
	}
	u.host = printable(found.host, maxHostBytes)
	open := func() error {
		wk.open(s, u.gzip, cut)
		if _, err := io.CopyN(io.Discard, &wk.source, found.start); err != nil {
			return fmt.Errorf("read spooled body: %w", err)
		}
		wk.line.reset(&wk.source, found.end-found.start, found.quoted)
		wk.cutter.reset(&wk.line, cut.maxLine, wk.buf)
		return nil
	}
	if err := open(); err != nil {
		return openedLine{}, err
	}
	head := wk.buf[:stream.RejectBytes]
	n, err := io.ReadFull(&wk.line, head)
	head = head[:n]
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return openedLine{}, err
	}
	_, id := gpuflight.Peek(head)
	u.session = string(id)
	line := openedLine{blank: len(bytes.TrimSpace(head)) == 0 && n < stream.RejectBytes}
	sum := sha256.New()
	sum.Write(head)
	rest, err := io.CopyBuffer(sum, &wk.line, wk.buf[stream.RejectBytes:2*stream.RejectBytes])
	if err != nil {
		return openedLine{}, err
	}
	line.sum, line.size = half(sum), int64(n)+rest
	if u.checkSession(); u.missing != "" && len(id) == 0 {
		u.missing = "the line has no session_id"
	}
	return line, open()
}

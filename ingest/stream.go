package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Bounds of what clients name.
const (
	maxSessionBytes  = stream.MaxSessionBytes
	maxWindowIDBytes = 128
	maxHostBytes     = 255
	maxListedErrors  = 10
)

// noSession is the session under which uploads without a usable session id are kept, all of them rejects.
const noSession = stream.NoSession

// upload is one stream request, understood.
type upload struct {
	tenant   string
	session  string
	missing  string // why there is no session: everything is a reject
	reason   string // of that reject, "" for session_missing
	host     string
	channel  string
	window   string // window id, "" without window headers
	sequence uint64
	crc      uint32
	gzip     bool
	received time.Time
	asked    *asked // nil: nobody asks what becomes of it
}

// lineError is an entry of the answer's "errors".
type lineError struct {
	Line   int64  `json:"line"`
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// receipt is the answer to an accepted upload.
type receipt struct {
	Accepted uint64      `json:"accepted"` // events
	Rejected uint64      `json:"rejected"`
	Errors   []lineError `json:"errors"` // the first few
	// Whole says that every byte was kept, so the client may delete its copy.
	Whole bool `json:"window_acknowledged"`
}

func (g *Gateway) serveStream(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *refusal {
	m, no := g.enter(r, x)
	if no != nil {
		return no
	}
	defer g.leave(m)
	_, limits := m.current()
	if no := knownEncoding(r); no != nil {
		return no
	}
	u, s, no := g.receive(ctx, w, r, x, m, limits.MaxBodyBytes)
	if no != nil {
		return no
	}
	defer s.close()
	g.describe(u, r)
	if u.window != "" && u.crc != s.crc && !s.unread { // before anything is acknowledged: a body may be lost whole
		return unavailable("crc_mismatch", fmt.Sprintf("the body's CRC-32 is %d, X-GpuFlight-Window-CRC32 says %d: it was damaged on the way", s.crc, u.crc), nil)
	}
	if u.asked = g.asks(r, m); s.size == 0 {
		g.answers(ctx, w, m, u.asked)
		x.answer = receipt{Errors: []lineError{}, Whole: true}
		return nil
	}
	answer, no := g.accept(ctx, m, limits, u, s, x)
	if no != nil {
		return no
	}
	g.answers(ctx, w, m, u.asked)
	x.answer = answer
	return nil
}

// asRefusal returns err as the refusal it is, or as a 503.
func asRefusal(err error) *refusal {
	var no *refusal
	if errors.As(err, &no) {
		return no
	}
	return unavailable("internal", "the gateway failed", err)
}

// describe reads the headers. Window headers count only when all four are there and make sense.
func (g *Gateway) describe(u *upload, r *http.Request) {
	h := r.Header
	u.session = strings.TrimSpace(h.Get("X-GpuFlight-Session-Id"))
	u.host = printable(h.Get("X-GpuFlight-Hostname"), maxHostBytes)
	id, channel := strings.TrimSpace(h.Get("X-GpuFlight-Window-Id")), strings.TrimSpace(h.Get("X-GpuFlight-Window-Channel"))
	sequence, errSeq := strconv.ParseUint(strings.TrimSpace(h.Get("X-GpuFlight-Window-Sequence")), 10, 64)
	crc, errCRC := strconv.ParseUint(strings.TrimSpace(h.Get("X-GpuFlight-Window-CRC32")), 10, 32)
	if isToken(channel) {
		u.channel = channel
	}
	switch {
	case id != "" && channel != "" && errSeq == nil && errCRC == nil:
		u.window, u.sequence, u.crc = id, sequence, uint32(crc)
		if len(id) > maxWindowIDBytes || printable(id, maxWindowIDBytes) != id {
			u.window = "wid-" + digestOf(id).String()
		}
		if u.channel == "" {
			u.channel = "x-" + digestOf(channel).String()[:8]
		}
	case id != "" || h.Get("X-GpuFlight-Window-Sequence") != "" || h.Get("X-GpuFlight-Window-CRC32") != "":
		// Some headers without the others identify nothing. The body's hash does.
		g.metrics.windows.WithLabelValues(u.tenant, "incomplete_headers").Inc()
		if ok, held := g.quiet.say("window_headers", time.Now()); ok {
			g.cfg.Logger.Warn("window headers are incomplete or malformed and were not used", "tenant", u.tenant, "session", printable(u.session, maxSessionBytes), "alike_since_last_line", held)
		}
	}
}

// accept stores a spooled upload, or recognises that it is stored.
func (g *Gateway) accept(ctx context.Context, m *meter, limits tenant.Limits, u *upload, s *spool, x *exchange) (*receipt, *refusal) {
	wk, no := g.takeWorker(ctx, m)
	if no != nil {
		return nil, no
	}
	defer g.giveWorker(m, wk)
	if !u.gzip { // JSON never begins with these bytes
		var magic [2]byte
		s.ReadAt(magic[:], 0)
		u.gzip = magic == [2]byte{0x1f, 0x8b}
	}
	cut := cutLimits{
		maxBody: limits.MaxBodyBytes, maxRaw: limits.MaxRawBytes, maxRatio: limits.MaxRatio,
		maxLine: min(limits.MaxLineBytes, stream.MaxBodyBytes-1), // what a worker agrees to read back
	}
	g.findSession(u, s, wk, cut)
	x.session, x.window = u.session, u.window

	at, identity := place{tenant: u.tenant, key: uploadKey(u.tenant, u.session, s.sum)}, "sha256-"+s.sum.String()
	want := window{id: s.sum, body: s.sum, limits: cut}
	if u.window != "" && u.missing == "" {
		at.key, at.channel = windowKey(u.tenant, u.session, u.channel, u.window), channelKey(u.tenant, u.session, u.channel)
		identity = ""
		want.id, want.sequence = digestOf(u.window), u.sequence
	}
	name := func(c *claim) string {
		switch {
		case identity == "":
			return windowIdentity(u.channel, c.window.generation, u.window)
		case c.window.generation > 0:
			return identity + "~" + strconv.FormatUint(c.window.generation, 10)
		}
		return identity
	}
	c, err := g.claim(ctx, at, want, name)
	switch {
	case errors.Is(err, errConflict):
		x.outcome = "conflict"
		g.metrics.windows.WithLabelValues(u.tenant, "conflict").Inc()
		g.uploads.noteConflict(ctx, conflictKey(u.tenant, u.session, u.window, u.channel), at)
		return nil, &refusal{status: http.StatusConflict, code: "window_identity_conflict",
			detail: fmt.Sprintf("window %s of session %s was accepted with other bytes; this channel waits until that is decided: if the new bytes are right, an operator runs `warpline window accept %s %s %s`",
				u.window, u.session, u.tenant, u.session, u.window)}
	case err != nil:
		return nil, g.failed("recognising the upload", atWindows(err))
	case c.window.state == windowDone:
		g.repeated(u.tenant, "gpu-flight", x, limits, c)
		u.asked.repeat(&c.window)
		if u.asked.mayWait(&c.window) {
			u.asked.waits(stream.Partition(u.tenant, u.session, g.streams.Partitions), c.window.last)
		}
		m.charge(time.Now(), cost{events: c.window.accepted})
		return &receipt{Accepted: c.window.accepted, Rejected: c.window.rejected, Errors: []lineError{}, Whole: c.window.whole}, nil
	}
	x.outcome = c.outcome()
	wk.open(s, u.gzip, c.window.limits)
	p := g.publisher(u, name(c), limits, wk)
	t, err := g.publish(ctx, p, wk, u)
	wk.out = p.scratch
	if err != nil {
		p.abandon()
		return nil, g.failed("storing the upload", err)
	}
	first, err := g.settle(ctx, c, t, p.last)
	if err != nil {
		return nil, g.failed("recording the upload", atWindows(err))
	}
	if m.charge(time.Now(), t.cost()); !first {
		g.repeated(u.tenant, "gpu-flight", x, limits, c)
		return &t.receipt, nil
	}
	g.enterBooks(u.tenant, x, t)
	return &t.receipt, nil
}

// claim looks an upload up and records it as pending when it is new, or when INGEST has lost what was accepted. name gives the identity of its parts.
func (g *Gateway) claim(ctx context.Context, at place, want window, name func(*claim) string) (*claim, error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.PublishTimeout)
	defer cancel()
	c, err := g.uploads.claim(ctx, at, want)
	if err != nil || c.window.state != windowDone {
		return c, err
	}
	stored, err := g.history.has(ctx, g.js, at.key, name(c), &c.window)
	if err == nil && !stored {
		c.again(want)
	}
	return c, err
}

// settle records a claimed upload as done. first is false when another request had done so before.
func (g *Gateway) settle(ctx context.Context, c *claim, t *tally, last uint64) (first bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, g.cfg.PublishTimeout)
	defer cancel()
	if first, err = g.uploads.settle(ctx, c, t.Accepted, t.Rejected, t.Whole, last); !first {
		c.window.accepted, c.window.rejected = t.Accepted, t.Rejected
	}
	return first, err
}

// outcome is what an upload that is about to be published is called in the metrics.
func (c *claim) outcome() string {
	switch {
	case c.lost:
		return "lost_and_resent"
	case c.resumed:
		return "resumed"
	}
	return "new"
}

// windowIdentity names an upload with window headers: <channel>/<conflicts accepted>/<window id>. A channel has no '/', so no client's id
// can be taken for another channel's, for an upload known by its hash, or for a session's end.
func windowIdentity(channel string, generation uint64, window string) string {
	return channel + "/" + strconv.FormatUint(generation, 10) + "/" + window
}

// takeWorker waits for a turn: first among the uploads of this tenant, so that one cannot take all workers, then among all.
func (g *Gateway) takeWorker(ctx context.Context, m *meter) (*worker, *refusal) {
	select {
	case m.guest.turns <- struct{}{}:
	case <-ctx.Done():
		return nil, unavailable("busy", "the upload waited its turn for too long", ctx.Err())
	}
	select {
	case wk := <-g.workers:
		return wk, nil
	case <-ctx.Done():
		<-m.guest.turns
		return nil, unavailable("busy", "the upload waited its turn for too long", ctx.Err())
	}
}

func (g *Gateway) giveWorker(m *meter, wk *worker) {
	wk.source.body = nil
	wk.source.section = io.SectionReader{} // holds the spool, as body does
	wk.cutter.src = nil
	g.workers <- wk
	<-m.guest.turns
}

// open makes the worker ready to cut a spooled body.
func (wk *worker) open(s *spool, gz bool, l cutLimits) {
	if wk.buf == nil {
		wk.buf = make([]byte, stream.PartBytes)
	}
	size, cutOff := min(s.size, l.maxBody), ""
	if s.total > size {
		cutOff = fmt.Sprintf("the body is longer than limit-body = %d bytes: what follows was not taken", l.maxBody)
	}
	wk.source.reset(s, size, gz, l, cutOff)
	wk.cutter.reset(&wk.source, l.maxLine, wk.buf)
}

// findSession checks the session id, or takes it from the first line.
func (g *Gateway) findSession(u *upload, s *spool, wk *worker, l cutLimits) {
	if u.session == "" {
		wk.open(s, u.gzip, l)
		head := wk.buf[:stream.RejectBytes]
		n, _ := io.ReadFull(&wk.source, head)
		head = head[:n]
		for len(head) > 0 && u.session == "" {
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
			u.session = string(id)
			break
		}
	}
	u.checkSession()
}

// checkSession says what is missing when the session id cannot be used.
func (u *upload) checkSession() {
	switch {
	case u.session == "":
		u.missing = "neither X-GpuFlight-Session-Id nor the first line has a session id"
	case len(u.session) > maxSessionBytes:
		u.missing = fmt.Sprintf("the session id is longer than %d bytes", maxSessionBytes)
	case printable(u.session, maxSessionBytes) != u.session:
		u.missing = "the session id holds control characters or is not UTF-8"
	}
	if u.missing != "" {
		u.session = noSession
	}
}

func (g *Gateway) publisher(u *upload, identity string, limits tenant.Limits, wk *worker) *publisher {
	token := stream.SessionToken(u.session)
	partition := stream.Partition(u.tenant, u.session, g.streams.Partitions)
	p := &publisher{
		asked: u.asked, partition: partition, js: g.js, objects: g.streams.Parts, parts: g.parts, metrics: g.metrics, token: token, timeout: g.cfg.PublishTimeout,
		subject: stream.IngestSubject(partition, u.tenant, token),
		envelope: stream.Envelope{
			Tenant: u.tenant, Session: u.session, Kind: stream.KindGPUFlight, Source: "gpu-flight", Channel: u.channel, Identity: identity,
			ReceivedAt: u.received.UnixNano(), Host: u.host, RetentionDays: limits.RetentionDays, RollupDays: limits.RollupDays,
		},
	}
	if u.asked != nil {
		p.envelope.Asked = u.asked.id
	}
	if wk != nil {
		p.scratch = wk.out
	}
	return p
}

// publish cuts the opened upload and publishes its pieces. All of them are acknowledged when it returns without error.
func (g *Gateway) publish(ctx context.Context, p *publisher, wk *worker, u *upload) (*tally, error) {
	t := &tally{receipt: receipt{Errors: []lineError{}, Whole: true}}
	if u.missing != "" {
		return t, g.publishRefused(ctx, p, wk, u, t)
	}
	c := &wk.cutter
	for part := 0; ; part++ {
		got, err := c.next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		e := p.envelope
		e.Part = part
		body := got.body
		if got.kind == pieceGiant {
			var name string
			if name, got, err = p.giant(ctx, c, part); err != nil {
				return nil, err
			}
			if body = got.body; got.kind == pieceGiant {
				e.Object, body = name, nil
			}
		}
		e.Events, e.Bytes, e.Last = got.events, uint64(got.size), c.last()
		if got.kind == pieceReject {
			e.Kind, e.Reject = stream.KindReject, &stream.Reject{Reason: got.reason, Detail: got.detail, Ref: "line " + strconv.FormatInt(got.line, 10)}
		}
		if err := p.send(ctx, &e, body); err != nil {
			return nil, err
		}
		t.add(got)
	}
	return t, p.flush(ctx)
}

// publishRefused publishes one reject that stands for the whole upload.
func (g *Gateway) publishRefused(ctx context.Context, p *publisher, wk *worker, u *upload, t *tally) error {
	all := piece{kind: pieceReject, line: 1, reason: cmp.Or(u.reason, gpuflight.ReasonSessionMissing), detail: u.missing, whole: true}
	head := make([]byte, 0, stream.RejectBytes)
	for {
		got, err := wk.cutter.next()
		if err == io.EOF {
			break
		}
		if err == nil && got.kind == pieceGiant {
			got, err = wk.cutter.endGiant()
			all.whole = false
			if got.body == nil {
				got.body = wk.buf[:stream.RejectBytes] // where the cutter leaves the beginning
			}
		}
		if err != nil {
			return err
		}
		head = append(head, got.body[:min(len(got.body), cap(head)-len(head))]...)
		all.size += got.size
		all.lines += got.lines
		all.events += got.events
		all.whole = all.whole && (got.kind == piecePart || got.whole)
	}
	all.events = max(all.events, 1)
	all.body, all.whole = head, all.whole && all.size == int64(len(head))
	e := p.envelope
	e.Kind, e.Events, e.Bytes, e.Last = stream.KindReject, all.events, uint64(all.size), true
	e.Reject = &stream.Reject{Reason: all.reason, Detail: all.detail}
	if err := p.send(ctx, &e, head); err != nil {
		return err
	}
	t.add(all)
	return p.flush(ctx)
}

// failed turns a failure of JetStream into a 503.
func (g *Gateway) failed(doing string, err error) *refusal {
	reason, words := failure(err)
	g.metrics.failures.WithLabelValues(reason).Inc()
	g.metrics.storing.failed(reason, words)
	return unavailable("not_stored", words, fmt.Errorf("%s: %w", doing, err))
}

// printable returns s if it is UTF-8 without control characters and at most limit bytes long, otherwise what remains of it then.
func printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return -1
		}
		return r
	}, s)
	for len(s) > limit {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	return s
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

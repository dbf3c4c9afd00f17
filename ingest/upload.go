package ingest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Upload is one upload while it is handled.
type Upload struct {
	Tenant   string
	Received time.Time
	// Session is set by SetSession; "" is an upload that has several.
	Session string
	// Limits are those of the tenant, or what Survey makes of them. From Publish on they are those under which the upload was first seen.
	Limits CutLimits
	// Window is what the client calls the upload, for the log.
	Window string
	// Outcome is what an upload that is stored now is called in the log and the metrics; with "" the record of uploads decides.
	Outcome string

	gateway   *Gateway
	source    *Source
	limits    tenant.Limits
	gzip      bool
	spool     *spool
	spilled   []*spool
	workspace *workspace
	asked     *asked // nil: the client does not ask what becomes of it
}

// Size is how many bytes of the body are here, at most the limit.
func (u *Upload) Size() int64 { return u.spool.size }

// Total is how many bytes of the body came.
func (u *Upload) Total() int64 { return u.spool.total }

// Unread reports whether the body was even longer than what came.
func (u *Upload) Unread() bool { return u.spool.unread }

// Sum is the hash of all that came.
func (u *Upload) Sum() Digest { return u.spool.sum }

// CRC32 is the checksum of all that came.
func (u *Upload) CRC32() uint32 { return u.spool.crc }

// Gzip reports whether the body is compressed. It is known from Survey on.
func (u *Upload) Gzip() bool { return u.gzip }

// close gives back what the upload holds.
func (u *Upload) close() {
	u.spool.close()
	for _, s := range u.spilled {
		s.close()
	}
}

// SessionURL is where people see the upload's session, "" where no operator has said so.
func (u *Upload) SessionURL() string {
	if u.gateway.cfg.UIURL == "" {
		return ""
	}
	return strings.TrimRight(u.gateway.cfg.UIURL, "/") + "/session?session=" + url.QueryEscape(u.Session)
}

// Reader reads the body as it came, compressed or not, as far as it is here.
func (u *Upload) Reader() io.ReaderAt { return u.spool }

// Own are the limits of the upload's tenant and key.
func (u *Upload) Own() tenant.Limits { return u.limits }

// Spill writes what is read from r beside the body, until the upload is handled, and returns it. It takes at most so many bytes; an error
// of r's is returned as it is.
func (u *Upload) Spill(r io.Reader, most int64) (io.ReaderAt, int64, error) {
	s := u.gateway.newSpool(u.Tenant)
	u.spilled = append(u.spilled, s)
	n, err := io.Copy(spillWriter{s, u.gateway.cfg.SpoolDir}, io.LimitReader(r, most+1))
	if err == nil && n > most {
		err = &TornError{Reason: reject.BodyTooLarge, Detail: fmt.Sprintf("it holds more than limit-raw-body = %d bytes", most)}
	}
	return s, s.size, err
}

// Open begins to read the body anew, under Limits. There is one Body: what was opened before ends.
func (u *Upload) Open() *Body {
	s, size, cutOff := u.spool, min(u.spool.size, u.Limits.MaxBody), ""
	if s.total > size {
		cutOff = fmt.Sprintf("the body is longer than limit-body = %d bytes: what follows was not taken", u.Limits.MaxBody)
	}
	u.workspace.body.Reset(s, size, u.gzip, u.Limits, cutOff)
	return &u.workspace.body
}

// Buffer is room for a part, stream.PartBytes long. There is one.
func (u *Upload) Buffer() []byte {
	if u.workspace.buf == nil {
		u.workspace.buf = make([]byte, stream.PartBytes)
	}
	return u.workspace.buf
}

// Odd counts something unusual about the upload in addition to its outcome, and warns of it in the log, at most one line for each code in
// ten seconds.
func (u *Upload) Odd(outcome, code, words, session string) {
	g := u.gateway
	g.metrics.windows.WithLabelValues(u.Tenant, outcome).Inc()
	if ok, held := g.quiet.say(code, time.Now()); ok {
		g.cfg.Logger.Warn(words, "tenant", u.Tenant, "session", Printable(session, stream.MaxSessionBytes), "alike_since_last_line", held)
	}
}

// take returns the handler of uploads to a route.
func (g *Gateway) take(s *Source, route *Route) handlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange) *Refusal {
		m, no := g.enter(r, x)
		if x.meter != nil { // also where it may not enter
			defer func() { x.meter.tell(w.Header(), time.Now(), g.active.Active(x.tenant)) }() // the answer is written behind it
		}
		if no != nil {
			return no
		}
		defer g.leave(m)
		_, limits := m.current()
		in, err := route.Upload(r, limits)
		if err != nil {
			return asRefusal(err)
		}
		if !route.AnyEncoding {
			if no := knownEncoding(r); no != nil {
				return no
			}
		}
		most := limits.MaxBodyBytes
		if route.MostBody != nil {
			most = route.MostBody(limits)
		}
		u := &Upload{
			Tenant: x.tenant, Received: time.Now(), gateway: g, source: s, limits: limits,
			Limits: CutLimits{MaxBody: most, MaxRaw: limits.MaxRawBytes, MaxLine: limits.MaxLineBytes, MaxRatio: limits.MaxRatio},
		}
		if no := g.receive(ctx, w, r, x, m, u); no != nil {
			return no
		}
		defer u.close()
		err = g.store(ctx, m, u, in, x, func() { u.asked = g.asks(r, m) })
		if err != nil {
			return asRefusal(err)
		}
		g.answers(ctx, w, m, u.asked)
		return nil
	}
}

// store stores an upload whose body is here, however it came. ask, which may be nil, reads what the client asks about it.
func (g *Gateway) store(ctx context.Context, m *meter, u *Upload, in Intake, x *exchange, ask func()) error {
	if no := m.shutOut(); no != nil {
		return no
	}
	err := in.Received(u)
	if ask != nil && (err == nil || errors.Is(err, ErrNothing)) { // a body may be lost whole, so nothing is acknowledged before
		ask()
	}
	if err == nil {
		err = g.accept(ctx, m, u, in, x)
	}
	if errors.Is(err, ErrNothing) {
		x.outcome = u.Outcome
		x.answer, err = in.Answer(Outcome{Whole: true}), nil
	}
	return err
}

// accept stores a spooled upload, or recognises that it is stored.
func (g *Gateway) accept(ctx context.Context, m *meter, u *Upload, in Intake, x *exchange) error {
	ws, no := g.takeWorkspace(ctx, m)
	if no != nil {
		return no
	}
	defer g.giveWorkspace(m, ws)
	u.workspace = ws
	if !u.gzip { // nothing that is read here begins with these bytes
		var magic [2]byte
		u.spool.ReadAt(magic[:], 0)
		u.gzip = magic == [2]byte{0x1f, 0x8b}
	}
	all, ok := in.(Several)
	limits := u.Limits
	if !ok {
		err := g.acceptOne(ctx, m, u, in, x)
		var over *HandOver
		if !errors.As(err, &over) {
			return err
		}
		if in, err = g.handOver(u, over); err != nil {
			return err
		}
		u.Limits = limits
		return g.acceptOne(ctx, m, u, in, x)
	}
	var beyond error // sessions that may not begin yet; others go on
	for {
		u.Limits = limits
		one, err := all.Next(u)
		if err == io.EOF && beyond != nil {
			return beyond
		}
		if err == io.EOF {
			x.answer = in.Answer(Outcome{Whole: true})
			return nil
		}
		if err == nil {
			u.Session = ""
			err = g.acceptOne(ctx, m, u, one, x)
		}
		var no *Refusal
		if errors.As(err, &no) && no.Code == tooManySessions {
			beyond = err
			continue
		}
		if err != nil && !errors.Is(err, ErrNothing) {
			return err
		}
	}
}

// acceptOne stores what is recognised as one, as accept does.
func (g *Gateway) acceptOne(ctx context.Context, m *meter, u *Upload, in Intake, x *exchange) error {
	ws := u.workspace
	id, err := in.Survey(u)
	x.session, x.window = u.Session, u.Window
	if err == nil {
		id.at.tenant = u.Tenant
		err = g.mayBegin(ctx, u, &id)
	}
	if err != nil {
		return err
	}
	var c *claim
	if id.at.key != "" {
		id.want.limits = u.Limits
		reached := uint64(0)
		if u.Session != "" {
			reached = g.backlog.upTo(stream.Partition(u.Tenant, u.Session, g.streams.Partitions))
		}
		c, err = g.claim(ctx, id.at, id.want, id.part, reached)
		if errors.Is(err, errConflict) {
			x.outcome = "conflict"
			g.metrics.windows.WithLabelValues(u.Tenant, "conflict").Inc()
			if id.window != "" {
				g.uploads.noteConflict(ctx, conflictKey(u.Tenant, u.Session, id.window, id.channel), id.at)
			}
			return in.Conflict(u)
		}
		if err != nil {
			return g.failed("recognising the upload", atWindows(err))
		}
		u.Limits = c.window.limits
		x.outcome = c.outcome()
	}
	p := g.publisher(u, id.part(c))
	p.dry = c != nil && c.window.state == windowDone
	if c != nil && c.lost {
		p.lost, p.only = c.window.last, c.only
	}
	if p.dry {
		return g.acceptAgain(ctx, m, u, in, x, id, c, p)
	}
	x.outcome = cmp.Or(u.Outcome, x.outcome)
	err = in.Publish(ctx, u, p)
	if err == nil {
		err = p.flush(ctx)
	}
	ws.out = p.scratch
	if err != nil {
		p.abandon()
		if p.beyond != nil && p.last == 0 {
			g.uploads.unclaim(ctx, c)
		}
		g.enterDoor(u, p, c, 0)
		return g.failed("storing the upload", err)
	}
	t := &p.Tally
	// Of an upload that is not recorded: JetStream has it from minutes ago. If it had only some of it, the first try was not answered.
	first := p.known == 0 || p.known < t.Accepted+t.Rejected
	if c != nil {
		first, err = g.settle(ctx, c, t, p.last)
		if err != nil {
			g.enterDoor(u, p, c, 0)
			return g.failed("recording the upload", atWindows(err))
		}
	}
	g.enterDoor(u, p, c, p.last)
	if id.all {
		g.active.End(time.Now(), u.Tenant, activeID(stream.SessionToken(u.Session)))
	}
	if m.charge(time.Now(), t.cost()); first {
		g.enterBooks(u.Tenant, x, t, p.Envelope.Kind)
	} else {
		g.repeated(u, x, t.Accepted+t.Rejected)
	}
	x.answer = in.Answer(Outcome{Accepted: t.Accepted, Rejected: t.Rejected, Whole: t.Whole})
	return nil
}

// acceptAgain answers an upload that was stored before, as then.
func (g *Gateway) acceptAgain(ctx context.Context, m *meter, u *Upload, in Intake, x *exchange, id Identity, c *claim, p *Publisher) error {
	stored, again := &c.window, cost{events: c.window.accepted}
	if id.Again {
		err := in.Publish(ctx, u, p)
		u.workspace.out = p.scratch
		if err != nil {
			return g.failed("storing the upload", err)
		}
		again = cost{events: stored.accepted + stored.rejected, raw: p.Tally.cost().raw}
	}
	g.repeated(u, x, stored.accepted+stored.rejected)
	u.asked.repeat(stored)
	if u.asked.mayWait(stored) {
		if u.Session != "" {
			u.asked.waits(stream.Partition(u.Tenant, u.Session, g.streams.Partitions), stored.last)
		}
		for partition, seq := range g.ends(ctx, p.partitions) {
			u.asked.waits(partition, seq)
		}
	}
	m.charge(time.Now(), again)
	x.answer = in.Answer(Outcome{Accepted: stored.accepted, Rejected: stored.rejected, Whole: stored.whole, Repeat: true})
	return nil
}

// notice returns the handler of a route that takes notices.
func (g *Gateway) notice(s *Source, route *Route) handlerFunc {
	return func(ctx context.Context, _ http.ResponseWriter, r *http.Request, x *exchange) *Refusal {
		m, no := g.enter(r, x)
		if no != nil {
			return no
		}
		defer g.leave(m)
		_, limits := m.current()
		n, err := route.Notice(r)
		if err != nil {
			return asRefusal(err)
		}
		if words := g.mayName(s, n.Session); words != "" {
			return &Refusal{Status: http.StatusBadRequest, Code: reject.SessionReserved, Detail: words}
		}
		x.session = n.Session
		// It costs one event: each one may make a worker keep a session.
		if no := m.admit(time.Now(), 0); no != nil {
			return no
		}
		m.charge(time.Now(), cost{events: 1})
		if low := g.disk.check(); low != "" {
			return Unavailable("disk_low", low, nil)
		}
		u := &Upload{Tenant: x.tenant, Session: n.Session, Received: time.Now(), gateway: g, source: s, limits: limits}
		p := g.publisher(u, n.Identity)
		e := p.Envelope
		e.Kind, e.Host, e.Last = n.Kind, n.Host, true
		err = p.Send(ctx, &e, nil)
		if err == nil {
			err = p.flush(ctx)
		}
		if err != nil {
			p.abandon()
			return asRefusal(g.failed("storing the end of the session", err))
		}
		g.enterDoor(u, p, nil, 0)
		g.metrics.parts.WithLabelValues(x.tenant, string(n.Kind)).Inc()
		g.active.End(time.Now(), u.Tenant, activeID(stream.SessionToken(u.Session)))
		x.answer = n.Answer
		return nil
	}
}

// knownEncoding refuses a body that is compressed in a way the gateway does not read.
func knownEncoding(r *http.Request) *Refusal {
	switch contentEncoding(r) {
	case "", "identity", "gzip", "x-gzip":
		return nil
	}
	return &Refusal{
		Status: http.StatusUnsupportedMediaType, Code: "unsupported_encoding", Header: [2]string{"Accept-Encoding", "gzip, identity"},
		Detail: "Content-Encoding must be gzip or identity",
	}
}

func contentEncoding(r *http.Request) string {
	return strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
}

// receive admits an upload and spools its body as far as the limit goes. The caller closes the spool.
func (g *Gateway) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, x *exchange, m *meter, u *Upload) *Refusal {
	if low := g.disk.check(); low != "" {
		return Unavailable("disk_low", low, nil)
	}
	u.Received = time.Now()
	switch contentEncoding(r) {
	case "gzip", "x-gzip":
		u.gzip = true
	}
	if no := g.mayOwe(m); no != nil {
		return no
	}
	if no := m.admit(u.Received, r.ContentLength); no != nil {
		return no
	}
	s := &spool{budget: g.budget, tenant: x.tenant}
	pace := pace{still: g.cfg.ReadTimeout, grace: g.cfg.SlowGrace, least: g.cfg.LeastSpeed}
	if err := s.receive(ctx, w, r, g.cfg.SpoolDir, u.Limits.MaxBody, pace); err != nil {
		s.close()
		return asRefusal(err)
	}
	x.body = s.total
	if r.ContentLength <= 0 {
		m.charge(time.Now(), cost{bytes: s.total})
	}
	g.metrics.bodyBytes.WithLabelValues(x.tenant).Add(float64(s.total))
	if s.unread {
		w.Header().Set("Connection", "close")
	}
	u.spool = s
	return nil
}

// asRefusal returns err as the refusal it is, or as a 503.
func asRefusal(err error) *Refusal {
	var no *Refusal
	if errors.As(err, &no) {
		return no
	}
	return Unavailable("internal", "the gateway failed", err)
}

// failed turns a failure of JetStream into a 503. What is a refusal stays one.
func (g *Gateway) failed(doing string, err error) error {
	var no *Refusal
	if errors.As(err, &no) {
		return no
	}
	reason, words := failure(err)
	g.metrics.failures.WithLabelValues(reason).Inc()
	g.metrics.storing.failed(reason, words)
	return Unavailable("not_stored", words, fmt.Errorf("%s: %w", doing, err))
}

// takeWorkspace waits for a turn among the uploads of this tenant. There are always some for other tenants.
func (g *Gateway) takeWorkspace(ctx context.Context, m *meter) (*workspace, *Refusal) {
	if err := g.cuts.wait(ctx, m.guest.name); err != nil {
		return nil, Unavailable("busy", "the upload waited its turn for too long", err)
	}
	select {
	case ws := <-g.workspaces:
		return ws, nil
	default:
		return &workspace{}, nil
	}
}

func (g *Gateway) giveWorkspace(m *meter, ws *workspace) {
	ws.body.body = nil
	ws.body.section = io.SectionReader{} // holds the spool, as body does
	select {
	case g.workspaces <- ws:
	default: // more were needed for a while
	}
	g.cuts.give(m.guest.name, 1)
}

// Printable returns s as UTF-8 without control characters, cut to at most limit bytes.
func Printable(s string, limit int) string {
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

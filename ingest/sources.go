package ingest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Source is one kind of data as the gateway knows it: where it is sent, and how an upload of it is read. The gateway does what all sources
// have in common: keys, limits, seats, the spool, the record of what was accepted, publishing, the books.
type Source struct {
	// Name is what sessions.source and usage.source say.
	Name string
	// Prefixes begin the id of every session that the source has, and of no other source's, where it makes the ids itself: each a word of
	// small letters and a colon, as "mem:". A source without chooses no ids, its clients do; an id may not begin with another source's prefix.
	Prefixes []string
	// Recurs says that the sessions come back with their senders, see stream.Envelope.Recurs.
	Recurs bool
	// Routes are where the source is sent.
	Routes []Route
	// RPCs makes the methods that the source serves over gRPC, for one gateway. It may start what they need with Gateway.Go. nil: none.
	RPCs func(g *Gateway) []RPC
	// Kinds are the kinds of its parts, Reasons those for which it refuses records, Refusals the codes of its problem documents. Series of
	// them, beside the gateway's own, are in the metrics from the start.
	Kinds             []stream.Kind
	Reasons, Refusals []string
}

// Route is a path and what answers there. One of Upload, Notice and Page is set.
type Route struct {
	// Path is a pattern of http.ServeMux, without method and host.
	Path string
	// Upload reads the headers and the address of a POST with a body. Its error is answered as one of Intake's methods is.
	Upload func(*http.Request, tenant.Limits) (Intake, error)
	// MostBody is how much of a body is taken; by default it is the tenant's limit-body.
	MostBody func(tenant.Limits) int64
	// AnyEncoding takes a body whatever its Content-Encoding says: what cannot be read is a reject then, and not a refusal.
	AnyEncoding bool
	// Notice reads a POST without a body that becomes a part without a body.
	Notice func(*http.Request) (*Notice, error)
	// Page serves what a GET asks for. It is public: no key is needed.
	Page http.HandlerFunc
}

// Intake is one upload as its source reads it. The gateway calls the methods in the order in which they stand here, each at most once. An
// error that is a *Refusal is the answer. ErrNothing ends the upload as accepted. Any other error is a fault of Warpline's own.
type Intake interface {
	// Received looks at the body as a whole once it is here, before anything of it is read.
	Received(u *Upload) error
	// Survey reads as much of the body as it takes to know what the upload is recognised by. It calls SetSession when all of the body is of
	// one session.
	Survey(u *Upload) (Identity, error)
	// Conflict is the answer when the client's name for the upload stands for an earlier upload with other bytes.
	Conflict(u *Upload) *Refusal
	// Publish cuts the body into parts, gives them to p, and counts every event and byte in p.Tally.
	Publish(ctx context.Context, u *Upload, p *Publisher) error
	// Answer is the answer to the client, as JSON.
	Answer(o Outcome) any
}

// Several is an Intake whose body holds several uploads, each recognised and stored by itself. Its own Survey, Conflict and Publish are not
// called, and Answer once, when all are stored.
type Several interface {
	// Next returns the next upload, io.EOF after the last. Its Received is not called. An earlier one is not used any more.
	Next(u *Upload) (Intake, error)
}

// HandOver is an error of Survey: the body is another source's. It is handled as if it had been posted to Path with Query, and refused with
// Else where no source has that path.
type HandOver struct {
	Path  string
	Query url.Values
	Else  *Refusal
}

// Error says where the body goes.
func (h *HandOver) Error() string { return "handed over to " + h.Path }

// handOver makes the upload one of the source to which its body is handed over.
func (g *Gateway) handOver(u *Upload, h *HandOver) (Intake, error) {
	for i := range g.cfg.Sources {
		s := &g.cfg.Sources[i]
		for j := range s.Routes {
			if s.Routes[j].Path != h.Path || s.Routes[j].Upload == nil {
				continue
			}
			r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: h.Path, RawQuery: h.Query.Encode()}, Header: http.Header{}}
			in, err := s.Routes[j].Upload(r, u.limits)
			if err != nil {
				return nil, err
			}
			u.source, u.Session = s, ""
			return in, in.Received(u)
		}
	}
	return nil, h.Else
}

// ErrNothing says that a body holds nothing: it is accepted, and nothing is stored.
var ErrNothing = errors.New("the body holds nothing")

// Outcome is what became of an upload.
type Outcome struct {
	Accepted, Rejected uint64 // events
	// Whole says that every byte was kept, so that the client may delete its copy.
	Whole bool
	// Repeat says that the upload was stored before. Accepted, Rejected and Whole are as they were then.
	Repeat bool
}

// Notice is a part without a body, and the answer once it is stored.
type Notice struct {
	Session, Host string
	Kind          stream.Kind
	Identity      string // that of every notice of this kind, so that the second one of a session changes nothing
	Answer        any
}

// owner returns the source to which an id belongs by its prefix, nil if there is none.
func owner(sources []Source, session string) *Source {
	for i := range sources {
		for _, p := range sources[i].Prefixes {
			if strings.HasPrefix(session, p) {
				return &sources[i]
			}
		}
	}
	return nil
}

// mayName says why a session of this source cannot have an id, in words for people; "" means that it can. This is the one rule that keeps
// sessions of different sources apart, whatever ids clients choose.
func (g *Gateway) mayName(s *Source, session string) string {
	of := owner(g.cfg.Sources, session)
	switch {
	case session == stream.NoSession || of == s && of != nil:
		return ""
	case of != nil:
		return fmt.Sprintf("session ids that begin with %q are made for %s: call the session otherwise",
			strings.Join(of.Prefixes, ", "), of.Name)
	case len(s.Prefixes) > 0:
		return fmt.Sprintf("session ids of %s begin with %q", s.Name, strings.Join(s.Prefixes, ", "))
	}
	return ""
}

// SetSession says which session all of the upload is of. If the id cannot be a session's, the upload is of stream.NoSession, and reason and
// detail say why.
func (u *Upload) SetSession(session string) (reason, detail string) {
	words := u.gateway.mayName(u.source, session)
	switch {
	case session == "":
		reason, detail = reject.SessionMissing, "there is no session id"
	case len(session) > stream.MaxSessionBytes:
		reason, detail = reject.SessionMissing, fmt.Sprintf("the session id is longer than %d bytes", stream.MaxSessionBytes)
	case Printable(session, stream.MaxSessionBytes) != session:
		reason, detail = reject.SessionMissing, "the session id holds control characters or is not UTF-8"
	case words != "":
		reason, detail = reject.SessionReserved, words
	default:
		u.Session = session
		return "", ""
	}
	u.Session = stream.NoSession
	return reason, detail
}

// check returns an error that says what is wrong with the list of sources.
func check(sources []Source) error {
	names, paths := map[string]bool{}, map[string]bool{}
	for i := range sources {
		s := &sources[i]
		if s.Name == "" || names[s.Name] {
			return fmt.Errorf("BUG: ingest: source %q is there twice, or has no name", s.Name)
		}
		names[s.Name] = true
		for _, p := range s.Prefixes {
			if p == "" || !(&stream.Deletion{Session: p}).Bounded() {
				return fmt.Errorf("BUG: ingest: prefix %q of source %s is not a word of small letters and a colon", p, s.Name)
			}
			if of := owner(sources, p); of != s {
				return fmt.Errorf("BUG: ingest: prefix %q of source %s is that of %s", p, s.Name, of.Name)
			}
		}
		for _, r := range s.Routes {
			if paths[r.Path] {
				return fmt.Errorf("BUG: ingest: route %s is there twice", r.Path)
			}
			paths[r.Path] = true
		}
	}
	return nil
}

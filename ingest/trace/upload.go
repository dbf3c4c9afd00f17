package trace

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/kineto"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/tenant"
)

// upload is one trace.
type upload struct {
	o       *options
	most    int64 // limit-body
	session string
	meta    *kineto.Meta
	field   io.ReaderAt // of a form, nil for none
	size    int64       // of field
	packed  bool        // field is gzip
	answer  answer
}

// answer is the answer to an upload. It is the same when the upload comes again, except for Duplicate.
type answer struct {
	SessionID string         `json:"session_id"`
	Accepted  uint64         `json:"accepted"` // elements of the list of events
	Rejected  uint64         `json:"rejected"`
	Duplicate bool           `json:"duplicate"` // all of it was stored before
	Complete  bool           `json:"complete"`  // the trace was whole
	TornAt    *int64         `json:"torn_at"`   // byte from which on it cannot be read, null of a whole one
	URL       string         `json:"session_url"`
	Errors    []elementError `json:"errors"` // the first few
	Omitted   uint64         `json:"errors_omitted"`
}

// elementError is an entry of the answer's "errors".
type elementError struct {
	Offset  int64  `json:"offset"` // of its first byte, in the trace without compression
	Code    string `json:"code"`
	Message string `json:"message"`
}

// maxListedErrors bounds the answer.
const maxListedErrors = 100

func newUpload(form bool) func(*http.Request, tenant.Limits) (ingest.Intake, error) {
	return func(r *http.Request, l tenant.Limits) (ingest.Intake, error) {
		o, no := readOptions(r, form)
		if no != nil {
			return nil, no
		}
		return &upload{o: o, most: l.MaxBodyBytes, answer: answer{Errors: []elementError{}}}, nil
	}
}

// Received implements ingest.Intake.
func (p *upload) Received(u *ingest.Upload) error {
	if u.Total() > u.Size() {
		return tooLarge(reject.BodyTooLarge, fmt.Sprintf("the body is longer than limit-body = %d bytes", p.most))
	}
	return nil
}

func tooLarge(code, detail string) *ingest.Refusal {
	return refuse(http.StatusRequestEntityTooLarge, code, detail+"; nothing was stored: send it gzip-compressed, raise the limit, or profile "+
		"fewer steps")
}

// Survey implements ingest.Intake. A trace is known by its session, and stands for what it holds and what is said of it.
func (p *upload) Survey(u *ingest.Upload) (ingest.Identity, error) {
	if p.o.boundary != "" {
		if err := p.openForm(u); err != nil {
			return ingest.Identity{}, p.refusal(err)
		}
	}
	sum := sha256.New()
	in := bufio.NewReaderSize(io.TeeReader(p.trace(u), sum), 1<<16)
	if no := p.foreign(in); no != nil {
		return ingest.Identity{}, no
	}
	meta, err := kineto.Survey(in)
	if err == nil {
		_, err = io.Copy(io.Discard, in) // what stands behind the trace: the hash is of all
	}
	var torn *ingest.TornError
	cut := errors.As(err, &torn) && torn.Cut
	switch {
	case err != nil && !cut:
		return ingest.Identity{}, p.refusal(err)
	case meta.Stretched:
		return ingest.Identity{}, refuse(http.StatusUnprocessableEntity, "stretched_times", "ikp_nsys_merge made this trace, and stretched its "+
			"times over the kernel: nothing was stored; give the trace that write_trace wrote")
	case meta.Regions:
		return ingest.Identity{}, p.elsewhere()
	case meta.Readable == 0:
		why := "it has no list of events"
		if meta.Listed {
			why = "no event in it can be read"
		}
		if meta.Why != "" {
			why += fmt.Sprintf(", byte %d: %s", meta.TornAt, meta.Why)
		}
		return ingest.Identity{}, unusable("bad_trace", "the body is no trace in Chrome's JSON: "+ingest.Printable(why, 300))
	}
	p.meta = meta
	content := [sha256.Size]byte(sum.Sum(nil))
	p.session = sessionID(p.o.session, content)
	if reason, detail := u.SetSession(p.session); reason != "" {
		return ingest.Identity{}, fmt.Errorf("BUG: ingest/trace: session %q: %s", p.session, detail)
	}
	p.answer.URL = u.SessionURL()
	said := sha256.New()
	fmt.Fprintf(said, "trace 1\n%x\n%q\n%q\n%d\n%d\n", content, p.o.job, p.o.host, p.o.rank, p.o.world)
	id := u.BySession(ingest.SumOf(said))
	id.Again = true // the answer lists what was refused
	return id, nil
}

// elsewhere hands a trace of an intra-kernel profiler to its own door: read as one of PyTorch's, its times would be wrong. A form is
// refused, since the other door takes a form for the profiler's buffers.
func (p *upload) elsewhere() error {
	const path = "/api/v1/intrakernel"
	no := refuse(http.StatusUnprocessableEntity, "intra_kernel_trace", "an intra-kernel profiler wrote this trace: nothing was stored; send "+
		"it to "+path)
	if p.o.boundary != "" || p.o.world > 0 {
		return no
	}
	q := url.Values{}
	for name, value := range map[string]string{"session": p.o.session, "job": p.o.job, "host": p.o.host} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if p.o.rank >= 0 {
		q.Set("rank", strconv.FormatInt(p.o.rank, 10))
	}
	return &ingest.HandOver{Path: path, Query: q, Else: no}
}

// trace begins to read the trace anew.
func (p *upload) trace(u *ingest.Upload) io.Reader {
	if p.field == nil {
		return u.Open()
	}
	in := new(ingest.Body)
	in.Reset(p.field, p.size, p.packed, u.Limits, "")
	return in
}

// openForm keeps the field trace of a form. Other fields are passed over.
func (p *upload) openForm(u *ingest.Upload) error {
	form := multipart.NewReader(u.Open(), p.o.boundary)
	for {
		part, err := form.NextRawPart()
		var torn *ingest.TornError
		switch {
		case errors.As(err, &torn):
			return err
		case err == io.EOF:
			return unusable("bad_form", "the form has no field trace")
		case err != nil:
			return unusable("bad_form", "the form ends in the middle or is damaged: "+ingest.Printable(err.Error(), 200))
		}
		if part.FormName() != "trace" {
			continue
		}
		p.field, p.size, err = u.Spill(part, u.Limits.MaxRaw)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return unusable("bad_form", "the form ends in the middle of the field trace")
		}
		var magic [2]byte
		if err == nil {
			p.field.ReadAt(magic[:], 0)
		}
		p.packed = magic == [2]byte{0x1f, 0x8b}
		return err
	}
}

// foreign refuses what is no JSON by how it begins.
func (p *upload) foreign(in *bufio.Reader) *ingest.Refusal {
	head, _ := in.Peek(64)
	if len(head) == 0 || head[0] != '\n' {
		return nil
	}
	if rest := bytes.TrimLeft(head, " \t\r\n"); len(rest) == 0 || rest[0] == '{' || rest[0] == '[' {
		return nil
	}
	return refuse(http.StatusUnsupportedMediaType, "perfetto_protobuf", "the body is a Perfetto trace in protobuf, and traces in Chrome's "+
		"JSON are taken: export it as JSON, with Perfetto's traceconv json; nothing was stored")
}

// refusal is the answer to a trace that cannot be read.
func (p *upload) refusal(err error) error {
	var torn *ingest.TornError
	var no *ingest.Refusal
	switch {
	case errors.As(err, &no):
		return no
	case errors.As(err, &torn) && torn.Reason == reject.TornGzip:
		return unusable(torn.Reason, torn.Detail)
	case errors.As(err, &torn):
		return tooLarge(torn.Reason, torn.Detail)
	}
	return ingest.Unavailable("spool_failed", "the gateway cannot read its spool folder", err)
}

// Conflict implements ingest.Intake.
func (p *upload) Conflict(*ingest.Upload) *ingest.Refusal {
	return refuse(http.StatusUnprocessableEntity, "session_conflict", fmt.Sprintf("session %q has another trace, or the same one with other "+
		"options; nothing was stored: call this one otherwise with ?session=, or delete that session first",
		ingest.Printable(p.session, 300)))
}

// Answer implements ingest.Intake.
func (p *upload) Answer(o ingest.Outcome) any {
	a := p.answer
	a.SessionID, a.Accepted, a.Rejected, a.Duplicate, a.Complete = p.session, o.Accepted, o.Rejected, o.Repeat, p.meta.Complete
	if !a.Complete {
		a.TornAt = &p.meta.TornAt
	}
	a.Omitted = a.Rejected - min(a.Rejected, uint64(len(a.Errors)))
	return a
}

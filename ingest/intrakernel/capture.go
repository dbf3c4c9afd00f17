package intrakernel

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// Bounds of a capture, beside the tenant's.
const (
	// maxEventBytes is how long the buffer of events may be, whatever of it is kept.
	maxEventBytes = 8 << 30
	// maxCounterBytes is how long the buffer of counters may be: 16 M warps.
	maxCounterBytes = 64 << 20
	// maxRecords is how many records are kept in memory, of a trace and of rings that cannot be paired one by one: each takes up to 64
	// bytes.
	maxRecords = 4 << 20
	// smallCapture is how many records a capture may have to be held in memory without a turn.
	smallCapture = 1 << 16
	// smallCounters is how many bytes of counters may be in memory without a turn: 256 K warps.
	smallCounters = 1 << 20
)

// tooManyRecords is the code of the answer to a capture of more records than may be kept.
const tooManyRecords = "too_many_records"

// upload is one capture.
type upload struct {
	o       *options
	most    int64 // limit-body
	desk    *desk
	session string // its id
	large   bool   // it takes much memory, and turns

	line parts // nil: it is read again; desk.mu guards it
	head intrakernel.PartHead
	text int64 // bytes of a trace's text
}

// parts is a capture that was read, whichever profiler it is from.
type parts interface {
	Cut(head intrakernel.PartHead, limit int, send func(head *intrakernel.PartHead, records uint64, body []byte) error) error
}

// answer is the answer to an upload. Accepted and Rejected are the same when it comes again.
type answer struct {
	SessionID string   `json:"session_id"`
	Accepted  uint64   `json:"accepted"` // records that rings and filter left; of a trace, elements of its list
	Rejected  uint64   `json:"rejected"`
	Duplicate bool     `json:"duplicate"` // all of it was stored before
	Errors    []string `json:"errors"`
}

// desk bounds what large captures take of a gateway's memory: one is read and paired at a time, one is held between looking at it and
// publishing it, and two are published. Small ones wait for nobody, whatever others send. It is safe for concurrent use.
type desk struct {
	working chan struct{} // full while a large capture is read
	sending chan struct{} // has one for each that is published
	mu      sync.Mutex
	held    *upload // nil for none
}

// hold keeps what p read, in place of that of another.
func (d *desk) hold(p *upload) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held != nil {
		d.held.line = nil
	}
	d.held = p
}

// take returns what p read, nil if it is not held any more.
func (d *desk) take(p *upload) parts {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := p.line
	p.line = nil
	if d.held == p {
		d.held = nil
	}
	return line
}

func newUpload(d *desk) func(*http.Request, tenant.Limits) (ingest.Intake, error) {
	return func(r *http.Request, l tenant.Limits) (ingest.Intake, error) {
		o, no := readOptions(r)
		if no != nil {
			return nil, no
		}
		return &upload{o: o, most: l.MaxBodyBytes, desk: d}, nil
	}
}

// Received implements ingest.Intake.
func (p *upload) Received(u *ingest.Upload) error {
	if u.Total() > u.Size() {
		return refuse(http.StatusRequestEntityTooLarge, reject.BodyTooLarge, fmt.Sprintf("the body is longer than limit-body = %d bytes; "+
			"nothing was stored: send the buffers as gzip, or ask the operator for a higher limit", p.most))
	}
	return nil
}

// Survey implements ingest.Intake. A capture is known by its session, and stands for what it holds and how it is to be read.
func (p *upload) Survey(u *ingest.Upload) (ingest.Identity, error) {
	sum := sha256.New()
	err := p.read(u, sum, smallCapture)
	if errors.Is(err, errLarge) {
		err = p.readLarge(u, sum)
	}
	if err != nil {
		return ingest.Identity{}, err
	}
	if p.large {
		p.desk.hold(p)
	}
	p.session = sessionID(p.o.session, [sha256.Size]byte(sum.Sum(nil)))
	if reason, detail := u.SetSession(p.session); reason != "" {
		return ingest.Identity{}, fmt.Errorf("BUG: ingest/intrakernel: session %q: %s", p.session, detail)
	}
	content := sha256.New()
	fmt.Fprintf(content, "intra-kernel 1\n%x\n%t\n%v\n%+q\n", sum.Sum(nil), p.o.boundary != "", p.o.scale, p.o.said())
	return u.BySession(ingest.SumOf(content)), nil
}

// readLarge reads a capture that is not small, in its turn if it takes much memory.
func (p *upload) readLarge(u *ingest.Upload, sum hash.Hash) error {
	if p.o.boundary != "" {
		return p.largeForm(u, sum)
	}
	p.large = true
	sum.Reset()
	p.desk.working <- struct{}{}
	defer func() { <-p.desk.working }()
	return p.read(u, sum, maxRecords)
}

// said is what the parameters say of a launch, in one order.
func (o *options) said() []string {
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	l := &o.launch
	return []string{l.Kernel, l.Host, l.Device, l.Job, number(l.Rank), number(l.Number), strconv.FormatInt(l.StartedAt, 10)}
}

// Conflict implements ingest.Intake.
func (p *upload) Conflict(*ingest.Upload) *ingest.Refusal {
	p.desk.take(p)
	return refuse(http.StatusUnprocessableEntity, "session_conflict", fmt.Sprintf("session %q has another capture, or the same one with "+
		"other options; nothing was stored: call this one otherwise with ?session=, or delete that session first",
		ingest.Printable(p.session, 300)))
}

// Publish implements ingest.Intake.
func (p *upload) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	if p.large {
		select {
		case p.desk.sending <- struct{}{}:
		case <-ctx.Done():
			return ingest.Unavailable("busy", "the capture waited its turn for too long", ctx.Err())
		}
		defer func() { <-p.desk.sending }()
	}
	line := p.desk.take(p)
	if line == nil {
		if err := p.readLarge(u, sha256.New()); err != nil {
			return err
		}
		line = p.desk.take(p)
	}
	to.Envelope.Kind = stream.KindIntraKernel
	to.Tally.Whole = true
	return line.Cut(p.head, stream.PartBytes, func(head *intrakernel.PartHead, records uint64, body []byte) error {
		e := to.Envelope
		e.Session, e.Part, e.Events, e.Last = u.Session, head.Index, records, head.Index == head.Parts-1
		e.Bytes = records * intrakernel.RecordSize
		if p.o.boundary == "" {
			if e.Bytes = 0; head.Index == 0 {
				e.Bytes = uint64(p.text)
			}
		}
		to.Tally.Accept(records, int64(e.Bytes))
		return to.Send(ctx, &e, body)
	})
}

// Answer implements ingest.Intake.
func (p *upload) Answer(o ingest.Outcome) any {
	p.desk.take(p) // of a repeat
	return answer{SessionID: p.session, Accepted: o.Accepted, Rejected: o.Rejected, Duplicate: o.Repeat, Errors: []string{}}
}

// read reads a capture of at most so many records, and writes what it holds, without compression, to sum. One that has more, but not more
// than may be kept, is errLarge.
func (p *upload) read(u *ingest.Upload, sum hash.Hash, most int) error {
	small := most == smallCapture
	most = min(most, p.mostRecords(u))
	err := p.readAtMost(u, sum, most)
	var of *ingest.Refusal
	if small && most == smallCapture && errors.As(err, &of) && of.Code == tooManyRecords {
		return errLarge
	}
	return err
}

// mostRecords is how many records the tenant's limit for what is unpacked leaves.
func (p *upload) mostRecords(u *ingest.Upload) int {
	return int(max(1, min(u.Own().MaxRawBytes, maxEventBytes)/intrakernel.RecordSize))
}

var errLarge = errors.New("a large capture")

func (p *upload) readAtMost(u *ingest.Upload, sum hash.Hash, most int) error {
	if p.o.boundary != "" {
		return p.readForm(u, sum, most)
	}
	h := &intrakernel.Header{Path: "trace.json", Options: intrakernel.DefaultOptions(), Most: most}
	h.Options.Scale = p.o.scale
	p.head = intrakernel.PartHead{Launch: p.o.launch, Clock: intrakernel.ClockGlobalTimer}
	err := p.readTrace(u, sum, func(r io.Reader) (parts, error) {
		line, err := intrakernel.ReadTrace(r, h, false)
		if err == nil {
			p.head.Recorded = uint64(line.Survivors)
		}
		return line, err
	})
	if !errors.Is(err, intrakernel.ErrProton) {
		return err
	}
	if p.o.scale != 1 {
		return unusable("bad_scale", fmt.Sprintf("scale %v: the times of Proton's traces are as they are; leave scale out", p.o.scale))
	}
	sum.Reset()
	return p.readTrace(u, sum, func(r io.Reader) (parts, error) {
		trace, err := intrakernel.ReadProton(r, most)
		if err == nil {
			p.head.Recorded = uint64(len(trace.Visits))
			p.head.Kernel = cmp.Or(trace.Kernel(), p.o.launch.Kernel)
		}
		return trace, err
	})
}

// readTrace reads a trace with read.
func (p *upload) readTrace(u *ingest.Upload, sum hash.Hash, read func(io.Reader) (parts, error)) error {
	counted := &counter{r: io.TeeReader(u.Open(), sum)}
	line, err := read(counted)
	if errors.Is(err, intrakernel.ErrProton) {
		return err
	}
	if err != nil {
		return p.refusal(err)
	}
	if _, err := io.Copy(io.Discard, counted); err != nil { // what stands behind the trace: the hash is of all
		return p.refusal(err)
	}
	p.line, p.text = line, counted.n
	return nil
}

// counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// refusal is the answer to a capture that cannot be read.
func (p *upload) refusal(err error) error {
	var torn *ingest.TornError
	var of *intrakernel.Error
	var no *ingest.Refusal
	switch {
	case errors.Is(err, errLarge), errors.Is(err, intrakernel.ErrMixed):
		return err
	case errors.As(err, &no):
		return no
	case errors.As(err, &torn) && torn.Reason == reject.TornGzip:
		return unusable(torn.Reason, torn.Detail)
	case errors.As(err, &torn):
		return refuse(http.StatusRequestEntityTooLarge, torn.Reason, torn.Detail+"; nothing was stored")
	case !errors.As(err, &of):
		return ingest.Unavailable("spool_failed", "the gateway cannot read its spool folder", err)
	case errors.Is(err, intrakernel.ErrTooMany):
		return refuse(http.StatusRequestEntityTooLarge, tooManyRecords, of.Error()+"; nothing was stored")
	case errors.Is(err, intrakernel.ErrStretched):
		return refuse(http.StatusUnprocessableEntity, "stretched_times", of.Error()+"; nothing was stored")
	}
	return unusable("bad_"+of.In, ingest.Printable(of.Error(), 1024))
}

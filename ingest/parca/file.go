package parca

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/klauspost/compress/zstd"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/ingest/rpc"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
	"github.com/warpline/warpline/proto/tenant"
)

// How files begin.
const (
	magicPadata = 0xA6E7CCCA
	magicStream = 0xFFFFFFFF // Arrow IPC
	magicZstd   = 0x28B52FFD
)

// Bounds of the answer.
const (
	maxListedErrors = 100
	maxErrorBytes   = 512
)

// zstdWindow bounds the memory that unpacking takes.
const zstdWindow = 32 << 20

// fileError is an entry of the answer's "errors".
type fileError struct {
	Index   int    `json:"index"` // of the batch in the file
	Code    string `json:"code"`
	Message string `json:"message"`
}

// fileAnswer is the answer to a file. Accepted and Rejected are the same when it comes again.
type fileAnswer struct {
	Sessions   int         `json:"sessions"` // processes that the rows come from
	Accepted   uint64      `json:"accepted"` // rows
	Rejected   uint64      `json:"rejected"` // batches that could not be decoded, each as one event
	Duplicates uint64      `json:"duplicates"`
	Duplicate  bool        `json:"duplicate"` // all of it was stored before
	Errors     []fileError `json:"errors"`    // the first few
	Omitted    int         `json:"errors_omitted"`
}

// file is an upload by HTTP: a file of the agent's offline mode, which may still grow, or one batch.
type file struct {
	most     int64 // limit-body
	answer   fileAnswer
	sessions map[string]struct{}

	opened bool
	pad    *parca.Padata
	one    []byte // a batch alone
	index  int    // of the next batch
}

func newFile(r *http.Request, l tenant.Limits) (ingest.Intake, error) {
	for name := range r.URL.Query() {
		return nil, refuse(http.StatusBadRequest, "bad_option", fmt.Sprintf("%q is no option: there are none", ingest.Printable(name, 40)))
	}
	return &file{most: l.MaxBodyBytes, sessions: map[string]struct{}{}, answer: fileAnswer{Errors: []fileError{}}}, nil
}

// Received implements ingest.Intake.
func (f *file) Received(u *ingest.Upload) error {
	if u.Total() > u.Size() {
		return fileTooLarge(fmt.Sprintf("the body is longer than limit-body = %d bytes", f.most))
	}
	return nil
}

func fileTooLarge(detail string) *ingest.Refusal {
	return refuse(http.StatusRequestEntityTooLarge, reject.BodyTooLarge, detail+"; nothing was stored: ask the operator for a higher limit")
}

// Next implements ingest.Several.
func (f *file) Next(u *ingest.Upload) (ingest.Intake, error) {
	if !f.opened {
		f.opened = true
		if err := f.open(u); err != nil {
			return nil, err
		}
	}
	b := &fileBatch{file: f, index: f.index}
	b.recorded, b.sessions = true, f.sessions
	f.index++
	if f.pad == nil {
		if f.one == nil {
			return nil, io.EOF
		}
		b.bytes, f.one = [][]byte{f.one}, nil
		return b, nil
	}
	var torn *parca.TornError
	ipc, err := f.pad.Next()
	switch {
	case err == io.EOF:
		return nil, io.EOF
	case errors.As(err, &torn): // it is still written, or was cut off
		f.fail(b.index, "torn_file", torn.Error()+": what comes before is stored; send the file again when it is whole")
		return nil, io.EOF
	case err != nil:
		return nil, undecodable(err)
	}
	b.bytes = ipc
	if len(ipc) == 2 {
		b.form = formArrowV1
	}
	return b, nil
}

// open finds out what the body is.
func (f *file) open(u *ingest.Upload) error {
	from, size := u.Reader(), u.Size()
	if u.Gzip() {
		var err error
		from, size, err = f.unpack(u, u.Open(), "the gzip data")
		if err != nil {
			return err
		}
	}
	if begins(from) == magicZstd {
		z, err := zstd.NewReader(io.NewSectionReader(from, 0, size), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return err
		}
		defer z.Close()
		from, size, err = f.unpack(u, z, "the zstd data")
		if err != nil {
			return err
		}
	}
	switch begins(from) {
	case magicPadata:
		var err error
		f.pad, err = parca.NewPadata(from, size)
		return undecodable(err)
	case magicStream:
		if size > rpc.MaxMessage {
			return fileTooLarge(fmt.Sprintf("a batch has at most %d bytes", rpc.MaxMessage))
		}
		f.one = make([]byte, size)
		if _, err := from.ReadAt(f.one, 0); err != nil && err != io.EOF {
			return fmt.Errorf("read spooled body: %w", err)
		}
		return nil
	}
	if size == 0 {
		return ingest.ErrNothing
	}
	return refuse(http.StatusBadRequest, reasonBadBatch, "the body is neither a .padata file nor an Arrow IPC stream; nothing was stored")
}

// unpack writes what is packed beside the body. A tail that cannot be unpacked is left out, and told of.
func (f *file) unpack(u *ingest.Upload, r io.Reader, what string) (io.ReaderAt, int64, error) {
	l := u.Own()
	most := min(l.MaxRawBytes, max(192<<20, int64(min(float64(u.Size())*l.MaxRatio, 1<<62))))
	from, size, err := u.Spill(r, most)
	var torn *ingest.TornError
	var no *ingest.Refusal
	switch {
	case err == nil:
	case errors.As(err, &no):
		return nil, 0, err
	case errors.As(err, &torn) && torn.Reason != reject.TornGzip:
		return nil, 0, fileTooLarge(fmt.Sprintf("unpacked it is longer than limit-raw-body and limit-ratio allow, %d bytes", most))
	default:
		f.fail(0, "torn_file", what+" ends in the middle or is damaged: whole batches before that are stored")
	}
	return from, size, nil
}

// begins is how a file begins.
func begins(from io.ReaderAt) uint32 {
	var head [4]byte
	n, _ := from.ReadAt(head[:], 0)
	if n < len(head) {
		return 0
	}
	return binary.BigEndian.Uint32(head[:])
}

func (f *file) fail(index int, code, message string) {
	if len(f.answer.Errors) == maxListedErrors {
		f.answer.Omitted++
		return
	}
	f.answer.Errors = append(f.answer.Errors, fileError{Index: index, Code: code, Message: ingest.Printable(message, maxErrorBytes)})
}

// Survey, Conflict and Publish implement ingest.Intake; they are those of the batches.
func (f *file) Survey(*ingest.Upload) (ingest.Identity, error) {
	return ingest.Identity{}, errors.New("BUG: ingest/parca: a file is not one upload")
}

// Conflict implements ingest.Intake.
func (f *file) Conflict(*ingest.Upload) *ingest.Refusal {
	return ingest.Unavailable("internal", "the gateway failed", nil)
}

// Publish implements ingest.Intake.
func (f *file) Publish(context.Context, *ingest.Upload, *ingest.Publisher) error {
	return errors.New("BUG: ingest/parca: a file is not one upload")
}

// Answer implements ingest.Intake.
func (f *file) Answer(ingest.Outcome) any {
	a := f.answer
	a.Sessions = len(f.sessions)
	a.Duplicate = a.Duplicates > 0 && a.Duplicates == a.Accepted+a.Rejected
	return a
}

// fileBatch is a batch of a file. One that cannot be decoded is a reject: the others are stored.
type fileBatch struct {
	batch
	file  *file
	index int
	bad   *ingest.Refusal
}

// Survey implements ingest.Intake.
func (b *fileBatch) Survey(u *ingest.Upload) (ingest.Identity, error) {
	id, err := b.batch.Survey(u)
	if errors.As(err, &b.bad) && b.bad.Code == reasonBadBatch && b.file.pad != nil {
		b.file.fail(b.index, reasonBadBatch, b.bad.Detail)
		return b.identity(u), nil
	}
	return id, err
}

// Publish implements ingest.Intake.
func (b *fileBatch) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	if b.bad == nil {
		return b.batch.Publish(ctx, u, to)
	}
	e := to.Envelope
	e.Kind, e.Session, e.Events, e.Bytes, e.Last = stream.KindReject, stream.NoSession, 1, uint64(b.size()), true
	e.Reject = &stream.Reject{Reason: reasonBadBatch, Detail: ingest.Printable(b.bad.Detail, maxErrorBytes),
		Ref: fmt.Sprintf("batch %d of the file", b.index)}
	head := b.bytes[0][:min(len(b.bytes[0]), stream.RejectBytes)]
	to.Envelope.Kind = stream.KindParca
	to.Tally.Whole = int64(len(head)) == b.size()
	to.Tally.Refuse(reasonBadBatch, 1, b.size())
	return to.Send(ctx, &e, head)
}

// Answer implements ingest.Intake.
func (b *fileBatch) Answer(o ingest.Outcome) any {
	a := &b.file.answer
	a.Accepted, a.Rejected = a.Accepted+o.Accepted, a.Rejected+o.Rejected
	if o.Repeat {
		a.Duplicates += o.Accepted + o.Rejected
	}
	return b.batch.Answer(o)
}

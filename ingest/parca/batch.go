package parca

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/parca"
	"github.com/warpline/warpline/proto/stream"
)

// batches are used again: a batch has many tables.
var batches = sync.Pool{New: func() any { return new(parca.Batch) }}

// Forms of a batch.
const (
	formArrow   = iota // schema v2, one stream
	formArrowV1        // samples and locations
	formOTLP
)

// batch is one upload of rows. Its bytes are in memory.
type batch struct {
	form     int
	recorded bool     // in the record of uploads: what comes again within days is known
	bytes    [][]byte // one stream, two of v1
	rows     *parca.Batch
	sessions map[string]struct{} // that it has, where the answer says that
	outcome  ingest.Outcome
}

// size is the batch's length.
func (b *batch) size() (n int64) {
	for _, part := range b.bytes {
		n += int64(len(part))
	}
	return n
}

// digest is what the batch is known by.
func (b *batch) digest() ingest.Digest {
	h := sha256.New()
	for _, part := range b.bytes {
		h.Write(part)
	}
	return ingest.SumOf(h)
}

// decode fills rows.
func (b *batch) decode() error {
	b.rows = batches.Get().(*parca.Batch)
	b.rows.Reset()
	switch b.form {
	case formArrowV1:
		return b.rows.DecodeArrowV1(b.bytes[0], b.bytes[1])
	case formOTLP:
		return b.rows.DecodeOTLP(b.bytes[0])
	}
	return b.rows.DecodeArrow(b.bytes[0])
}

// giveBack ends the use of rows.
func (b *batch) giveBack() {
	if b.rows != nil {
		batches.Put(b.rows)
		b.rows = nil
	}
}

// Received implements ingest.Intake.
func (b *batch) Received(*ingest.Upload) error { return nil }

// Survey implements ingest.Intake. What cannot be decoded is refused before anything of it is stored.
func (b *batch) Survey(u *ingest.Upload) (ingest.Identity, error) {
	if err := b.decode(); err != nil {
		b.giveBack()
		return ingest.Identity{}, undecodable(err)
	}
	if b.rows.Len() == 0 {
		b.giveBack()
		return ingest.Identity{}, ingest.ErrNothing
	}
	return b.identity(u), nil
}

// identity is the content. What came over gRPC is sent again within minutes, which JetStream and the workers notice by themselves: a record
// of each batch would be the most that NATS holds.
func (b *batch) identity(u *ingest.Upload) ingest.Identity {
	id := b.digest()
	name := "parca/batch/" + id.String() // where AuditUploads looks for the record of a file's batches
	if !b.recorded {
		return ingest.Unrecorded(name)
	}
	known := u.BySource("batch", id, id, name)
	known.Again = true
	return known
}

// undecodable is the answer to a batch that cannot be decoded.
func undecodable(err error) error {
	if err == nil {
		return nil
	}
	var bad *parca.Error
	var missing *parca.NeedLocations
	switch {
	case errors.As(err, &bad):
		return &ingest.Refusal{Status: http.StatusBadRequest, Code: reasonBadBatch, Detail: bad.Code + ": " + bad.Detail + "; nothing was stored"}
	case errors.As(err, &missing):
		return &ingest.Refusal{Status: http.StatusBadRequest, Code: reasonBadBatch,
			Detail: "samples of schema v1 need the stacks that they refer to: send them with Write, or as a .padata file; nothing was stored"}
	}
	return err
}

// Conflict implements ingest.Intake. There is none: a batch is known by its content.
func (b *batch) Conflict(*ingest.Upload) *ingest.Refusal {
	return ingest.Unavailable("internal", "the gateway failed", nil)
}

// Publish implements ingest.Intake.
func (b *batch) Publish(ctx context.Context, u *ingest.Upload, to *ingest.Publisher) error {
	defer b.giveBack()
	to.Envelope.Kind, to.Envelope.NoStacks = stream.KindParca, u.Own().NoLaunchStacks
	to.Tally.Whole = true
	size, part := b.size(), 0
	return b.rows.Cut(func(piece parca.Piece) error {
		e := to.Envelope
		e.Session, e.Events, e.Part = piece.Session, piece.Events, part
		if part == 0 { // the length of a batch counts once
			e.Bytes = uint64(size)
		}
		part++
		if b.sessions != nil {
			b.sessions[piece.Session] = struct{}{}
		}
		if err := to.Send(ctx, &e, piece.Body); err != nil {
			return err
		}
		to.Tally.Accept(piece.Events, int64(e.Bytes))
		return nil
	})
}

// Answer implements ingest.Intake.
func (b *batch) Answer(o ingest.Outcome) any {
	b.giveBack()
	b.outcome = o
	return o
}

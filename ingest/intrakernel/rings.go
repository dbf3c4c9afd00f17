package intrakernel

import (
	"bytes"
	"errors"
	"hash"
	"io"

	"github.com/warpline/warpline/ingest"
	"github.com/warpline/warpline/proto/intrakernel"
	"github.com/warpline/warpline/proto/stream"
)

// rings is a capture that is read ring by ring, again when it is published: what is kept of it between is small.
type rings struct {
	p    *upload
	u    *ingest.Upload
	form *form // without its counters, if they are large
	*intrakernel.Rings
}

// surveyRings reads the buffers of a form ring by ring, with at most so many bytes of counters in memory.
func (p *upload) surveyRings(u *ingest.Upload, sum hash.Hash, counters int64) error {
	f, err := p.parseForm(u, counters)
	if err != nil {
		return err
	}
	f.header.Most = p.mostRecords(u)
	r := &rings{p: p, u: u, form: f}
	sum.Reset()
	if err := p.readEvents(u, f, sum, func(events io.Reader) (err error) {
		r.Rings, err = intrakernel.SurveyRings(events, bytes.NewReader(f.counters), f.header, f.launch.Kernel, stream.PartBytes)
		return err
	}); err != nil {
		return p.refusal(err)
	}
	p.head = intrakernel.PartHead{Launch: f.launch, Clock: intrakernel.ClockGlobalTimer}
	p.line = r
	if f.input = nil; len(f.counters) > smallCounters {
		f.counters = nil
	}
	return nil
}

// Cut implements parts.
func (r *rings) Cut(head intrakernel.PartHead, _ int, send func(*intrakernel.PartHead, uint64, []byte) error) error {
	counters := r.form.counters
	if counters == nil {
		f, err := r.p.parseForm(r.u, maxCounterBytes)
		if err != nil {
			return err
		}
		counters = f.counters
	}
	var failed error // of the sending, which says itself what it is
	err := r.p.readEvents(r.u, r.form, io.Discard, func(events io.Reader) error {
		return r.Rings.Cut(events, bytes.NewReader(counters), head, func(head *intrakernel.PartHead, records uint64, body []byte) error {
			failed = send(head, records, body)
			return failed
		})
	})
	if failed != nil || err == nil {
		return failed
	}
	return r.p.refusal(err)
}

// largeForm reads a form of more than smallCapture records or smallCounters bytes. Only what cannot be paired ring by ring, and many
// counters, wait for their turn.
func (p *upload) largeForm(u *ingest.Upload, sum hash.Hash) error {
	err := p.surveyRings(u, sum, smallCounters)
	if p.large = errors.Is(err, errLarge) || errors.Is(err, intrakernel.ErrMixed); !p.large {
		return err
	}
	p.desk.working <- struct{}{}
	defer func() { <-p.desk.working }()
	if errors.Is(err, errLarge) {
		err = p.surveyRings(u, sum, maxCounterBytes)
	}
	if errors.Is(err, intrakernel.ErrMixed) {
		sum.Reset()
		err = p.read(u, sum, maxRecords)
	}
	return err
}

package ingest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"sync"
	"time"
)

// spoolBuffer is how much of a body is held in memory; what is longer goes to a file.
const spoolBuffer = 256 << 10

// drainFactor is how many times the limit is read of a body over limit-body. What is too much is thrown away: the client reads the answer
// only after it has sent all.
const drainFactor = 4

var spoolBuffers = sync.Pool{New: func() any { b := make([]byte, spoolBuffer); return &b }}

// spool is one request's body: received whole, with its digests, before anything is done with it.
type spool struct {
	buf     *[]byte
	file    *os.File  // nil while the body fits buf
	size    int64     // bytes kept, at most the limit
	total   int64     // bytes received
	unread  bool      // the body was even longer
	crc     uint32    // of all bytes received
	sum     Digest    // likewise
	digest  hash.Hash // of newSpool's; sum follows it
	budget  *pool
	tenant  string
	granted int64
}

// grow makes sure that the budget covers n bytes.
func (s *spool) grow(n int64) *Refusal {
	more := n - s.granted
	if more <= 0 {
		return nil
	}
	if !s.budget.take(s.tenant, more) {
		return s.full()
	}
	s.granted = n
	return nil
}

func (s *spool) full() *Refusal {
	if s.budget.held(s.tenant) > s.budget.max/4 {
		return Unavailable("spool_full", fmt.Sprintf("this tenant's uploads would spool more than half of what spool-max = %d bytes "+
			"leaves it: send fewer at a time", s.budget.max), nil)
	}
	return Unavailable("spool_full", fmt.Sprintf("all uploads together would spool more than spool-max = %d bytes: the operator can "+
		"raise it, or start another gateway", s.budget.max), nil)
}

// newSpool makes a spool that is written and not received.
func (g *Gateway) newSpool(tenant string) *spool {
	s := &spool{budget: g.budget, tenant: tenant, digest: sha256.New()}
	s.sum = SumOf(s.digest)
	return s
}

// write appends to a spool of newSpool's.
func (s *spool) write(dir string, p []byte) error {
	if err := s.grow(s.size + int64(len(p))); err != nil {
		return err
	}
	if err := s.keep(dir, p, false); err != nil {
		return err
	}
	s.total += int64(len(p))
	s.digest.Write(p)
	s.sum = SumOf(s.digest)
	return nil
}

// spillWriter writes to a spool.
type spillWriter struct {
	to  *spool
	dir string
}

// Write implements io.Writer.
func (w spillWriter) Write(p []byte) (int, error) {
	if err := w.to.write(w.dir, p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// pace is how slowly a body may come.
type pace struct {
	still time.Duration // without a byte
	grace time.Duration // from the start, in which nothing is said about the speed
	least int64         // bytes a second on average from then on
}

// late is when a body of which this much has come is too slow.
func (p pace) late(began time.Time, received int64) time.Time {
	return began.Add(max(p.grace, time.Duration(float64(received)/float64(p.least)*float64(time.Second))))
}

// receive reads the request's body, keeping at most limit bytes of it. What it holds of the budget grows with what has come, whatever the
// client has announced. The caller closes the spool, also after an error.
func (s *spool) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, dir string, limit int64, pace pace) error {
	if r.ContentLength > 0 && !s.budget.would(s.tenant, min(r.ContentLength, limit)) { // before it is sent in vain
		return s.full()
	}
	s.buf = spoolBuffers.Get().(*[]byte)
	buf := (*s.buf)[:spoolBuffer]
	began := time.Now()
	rc := http.NewResponseController(w)
	// A deadline left behind would end the connection while we publish: net/http reads ahead to notice that the client leaves.
	defer rc.SetReadDeadline(time.Time{})
	end, _ := ctx.Deadline()
	crc, sum := crc32.NewIEEE(), sha256.New()
	for eof := false; !eof; {
		n := 0
		for n < len(buf) && !eof {
			deadline := time.Now().Add(pace.still)
			late := pace.late(began, s.total+int64(n))
			if late.Before(deadline) {
				deadline = late
			}
			if !end.IsZero() && end.Before(deadline) {
				deadline = end
			}
			rc.SetReadDeadline(deadline)
			got, err := r.Body.Read(buf[n:])
			n += got
			if err == io.EOF {
				eof = true
			} else if err != nil {
				return bodyError(ctx, err, pace, !time.Now().Before(late))
			}
		}
		crc.Write(buf[:n])
		sum.Write(buf[:n])
		keep := int(min(int64(n), limit-s.size))
		s.total += int64(n)
		if keep > 0 {
			if err := s.grow(s.size + int64(keep)); err != nil {
				return err
			}
			if err := s.keep(dir, buf[:keep], eof && s.total == int64(n)); err != nil {
				return err
			}
		}
		if !eof && s.total > limit*drainFactor {
			s.unread = true
			break
		}
	}
	s.crc = crc.Sum32()
	s.sum = SumOf(sum)
	return nil
}

// SumOf returns the digest of what was written to h, a SHA-256.
func SumOf(h hash.Hash) Digest {
	var full [sha256.Size]byte
	return Digest(h.Sum(full[:0])[:16])
}

// keep stores the next bytes of the body; all says that these, still in buf, are the whole of it.
func (s *spool) keep(dir string, p []byte, all bool) error {
	if all {
		s.size = int64(len(p))
		return nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(dir, "warpline-spool-*")
		if err != nil {
			return Unavailable("spool_failed", "the gateway cannot write to its spool folder: its log says why", err)
		}
		s.file = f
		// Without a name nothing is left behind by a kill.
		os.Remove(f.Name())
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	if err != nil {
		return Unavailable("spool_failed", "the gateway cannot write to its spool folder: its log says why", err)
	}
	return nil
}

// ReadAt reads what was kept.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	if s.buf == nil || off >= s.size {
		return 0, io.EOF
	}
	n := copy(p, (*s.buf)[off:s.size])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// close gives everything back.
func (s *spool) close() {
	if s.file != nil {
		s.file.Close()
	}
	if s.buf != nil {
		spoolBuffers.Put(s.buf)
		s.buf = nil
	}
	s.budget.give(s.tenant, s.granted)
	s.granted = 0
}

// bodyError turns a failed read into an answer; the client is often gone by then.
func bodyError(ctx context.Context, err error, pace pace, late bool) error {
	switch {
	case ctx.Err() != nil:
		return Unavailable("too_slow", "the upload took too long as a whole: send less at a time, or over a faster line", err)
	case errors.Is(err, os.ErrDeadlineExceeded) && late:
		return &Refusal{Status: http.StatusRequestTimeout, Code: "too_slow", Cause: err,
			Detail: fmt.Sprintf("fewer than %d bytes a second came, over %s and more; nothing was stored: send less at a time, or over "+
				"a faster line", pace.least, pace.grace)}
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &Refusal{Status: http.StatusRequestTimeout, Code: "too_slow", Cause: err,
			Detail: fmt.Sprintf("no byte came for %s; nothing was stored: send the same again", pace.still)}
	}
	return &Refusal{Status: http.StatusBadRequest, Code: "broken_body",
		Detail: "the body ended early; nothing was stored: send the same again", Cause: err}
}

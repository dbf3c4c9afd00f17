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
	"sync/atomic"
	"time"
)

// spoolBuffer is how much of a body is held in memory; what is longer goes to a file.
const spoolBuffer = 256 << 10

// drainFactor: of a body over limit-body, up to this many times the limit is read and thrown away, so that the client, which
// reads the answer only after it has sent all, gets it.
const drainFactor = 4

var spoolBuffers = sync.Pool{New: func() any { b := make([]byte, spoolBuffer); return &b }}

// spoolBudget bounds the bytes spooled by all requests together, and each key to half of that.
type spoolBudget struct {
	max  int64
	used atomic.Int64
}

// spool is one request's body: received whole, with its digests, before anything is done with it.
type spool struct {
	buf     *[]byte
	file    *os.File // nil while the body fits buf
	size    int64    // bytes kept, at most the limit
	total   int64    // bytes received
	unread  bool     // the body was even longer
	crc     uint32   // of all bytes received
	sum     digest   // likewise
	budget  *spoolBudget
	meter   *meter
	granted int64
}

// grow makes sure that the budget covers n bytes.
func (s *spool) grow(n int64) *refusal {
	more := n - s.granted
	if more <= 0 {
		return nil
	}
	s.granted += more
	all, own := s.budget.used.Add(more), s.meter.spooled.Add(more)
	switch {
	case own > s.budget.max/2:
		return unavailable("spool_full", fmt.Sprintf("this key's uploads would spool more than half of spool-max = %d bytes at once: send fewer at a time", s.budget.max), nil)
	case all > s.budget.max:
		return unavailable("spool_full", fmt.Sprintf("all uploads together would spool more than spool-max = %d bytes: the operator can raise it, or start another gateway", s.budget.max), nil)
	}
	return nil
}

// receive reads the request's body, keeping at most limit bytes of it. The caller closes the spool, also after an error.
func (s *spool) receive(ctx context.Context, w http.ResponseWriter, r *http.Request, dir string, limit int64, progress time.Duration) error {
	s.buf = spoolBuffers.Get().(*[]byte)
	buf := (*s.buf)[:spoolBuffer]
	if r.ContentLength > 0 {
		if err := s.grow(min(r.ContentLength, limit)); err != nil {
			return err
		}
	}
	rc := http.NewResponseController(w)
	// A deadline left behind would end the connection while we publish: net/http reads ahead to notice that the client leaves.
	defer rc.SetReadDeadline(time.Time{})
	end, _ := ctx.Deadline()
	crc, sum := crc32.NewIEEE(), sha256.New()
	for eof := false; !eof; {
		n := 0
		for n < len(buf) && !eof {
			deadline := time.Now().Add(progress)
			if !end.IsZero() && end.Before(deadline) {
				deadline = end
			}
			rc.SetReadDeadline(deadline)
			got, err := r.Body.Read(buf[n:])
			n += got
			if err == io.EOF {
				eof = true
			} else if err != nil {
				return bodyError(ctx, err, progress)
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
	s.sum = half(sum)
	return nil
}

func half(h hash.Hash) digest {
	var full [sha256.Size]byte
	return digest(h.Sum(full[:0])[:16])
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
			return unavailable("spool_failed", "the gateway cannot write to its spool folder: its log says why", err)
		}
		s.file = f
		// Without a name nothing is left behind by a kill.
		os.Remove(f.Name())
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	if err != nil {
		return unavailable("spool_failed", "the gateway cannot write to its spool folder: its log says why", err)
	}
	return nil
}

// ReadAt reads what was kept.
func (s *spool) ReadAt(p []byte, off int64) (int, error) {
	if s.file != nil {
		return s.file.ReadAt(p, off)
	}
	if off >= s.size {
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
	s.budget.used.Add(-s.granted)
	s.meter.spooled.Add(-s.granted)
	s.granted = 0
}

// bodyError turns a failed read into an answer; the client is often gone by then.
func bodyError(ctx context.Context, err error, progress time.Duration) error {
	switch {
	case ctx.Err() != nil:
		return unavailable("too_slow", "the upload took too long as a whole: send less at a time, or over a faster line", err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{status: http.StatusRequestTimeout, code: "too_slow", cause: err,
			detail: fmt.Sprintf("no byte came for %s; nothing was stored: send the same again", progress)}
	}
	return &refusal{status: http.StatusBadRequest, code: "broken_body", detail: "the body ended early; nothing was stored: send the same again", cause: err}
}

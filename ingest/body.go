package ingest

import (
	"errors"
	"fmt"
	"io"

	"github.com/warpline/warpline/ingest/inflate"
	"github.com/warpline/warpline/proto/reject"
	"github.com/warpline/warpline/proto/stream"
)

// CutLimits are the limits that decide how an upload is cut. They are frozen when it is first seen, so that a second try after a crash
// cuts the same parts even when the limits have changed in between.
type CutLimits struct {
	// MaxBody bounds the body as it came, MaxRaw decompressed, MaxLine one line of it.
	MaxBody, MaxRaw, MaxLine int64
	// MaxRatio bounds how many times larger it may become.
	MaxRatio float64
}

// minRatioBytes: a body may always expand to this much. It is above the largest window that the real client uploads (128 MiB raw), so that
// one absurdly compressible line, say of a hundred million equal characters, costs itself and not the lines after it.
const minRatioBytes = 192 << 20

// budget returns how many bytes a gzip body of the given size may expand to, and the reason and words for what is beyond.
func (l CutLimits) budget(size int64) (int64, string, string) {
	allowed := max(minRatioBytes, int64(min(float64(size)*l.MaxRatio, 1<<62)))
	if allowed < l.MaxRaw {
		return allowed, reject.RatioExceeded,
			fmt.Sprintf("the body expands more than limit-ratio = %g fold: what follows was not decompressed", l.MaxRatio)
	}
	return l.MaxRaw, reject.BodyTooLarge, l.overRaw()
}

func (l CutLimits) overRaw() string {
	return fmt.Sprintf("the body holds more than limit-raw-body = %d bytes: what follows was not taken", l.MaxRaw)
}

// Body reads a spooled body, decompressed. It ends with io.EOF or a *TornError. Its reads never go over the budget.
type Body struct {
	body    io.ReaderAt
	size    int64
	cutOff  string // why bytes after size are missing, "" when none are
	gz      bool
	section io.SectionReader
	zr      *inflate.Reader
	inside  bool // of a gzip member
	left    int64
	over    string // reason and words once left is used up
	overWhy string
	err     error
}

// Reset makes s ready to read size bytes of body from the start. cutOff says why the body is longer than that; "" means it is not.
func (s *Body) Reset(body io.ReaderAt, size int64, gz bool, l CutLimits, cutOff string) {
	s.body, s.size, s.gz, s.cutOff, s.inside, s.err = body, size, gz, cutOff, false, nil
	s.section = *io.NewSectionReader(body, 0, size)
	if gz {
		if s.zr == nil {
			s.zr = new(inflate.Reader)
		}
		s.zr.Reset(&s.section)
	}
	s.left, s.over, s.overWhy = l.MaxRaw, reject.BodyTooLarge, l.overRaw()
	if gz {
		s.left, s.over, s.overWhy = l.budget(size)
	}
}

// TornError is how a Body says that an upload ends in bytes which cannot be taken.
type TornError struct {
	// Reason is one of proto/reject.
	Reason, Detail string
	// Intact says that everything before is known to be good, so a last line without a newline is a line.
	Intact bool
	// Cut says that compressed data is missing at the end; what came before it is as it was sent, as far as one can tell.
	Cut bool
	// Raw is the first stream.RejectBytes of the refused bytes, as they were received, where they cannot be decoded; RawSize is
	// how many there are.
	Raw     []byte
	RawSize int64
}

// Error renders "reason: detail".
func (e *TornError) Error() string { return e.Reason + ": " + e.Detail }

// Read implements io.Reader.
func (s *Body) Read(p []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if s.left == 0 { // one more byte would be too many: is there one?
		var probe [1]byte
		n, err := s.decode(probe[:])
		if n > 0 {
			err = &TornError{Reason: s.over, Detail: s.overWhy}
		}
		s.err = err
		return 0, err
	}
	n, err := s.decode(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.err = err
	return n, err
}

func (s *Body) decode(p []byte) (int, error) {
	if !s.gz {
		n, err := s.section.Read(p)
		if err == io.EOF && s.cutOff != "" {
			err = &TornError{Reason: reject.BodyTooLarge, Detail: s.cutOff}
		}
		return n, err
	}
	for {
		if !s.inside {
			if err := s.member(); err != nil {
				return 0, err
			}
		}
		n, err := s.zr.Read(p)
		if err == io.EOF {
			s.inside = false
			err = nil
		}
		if err != nil {
			return n, s.torn(err)
		}
		if n > 0 {
			return n, nil
		}
	}
}

// member starts the next gzip member. Bytes after a whole member that do not begin another one are refused as they are.
func (s *Body) member() error {
	err := s.zr.NextMember()
	switch {
	case err == nil:
		s.inside = true
		return nil
	case err == io.EOF && s.cutOff != "":
		return &TornError{Reason: reject.BodyTooLarge, Detail: s.cutOff, Intact: true}
	case err == io.EOF && s.size > 0:
		return io.EOF
	case err != io.EOF && !errors.Is(err, inflate.ErrHeader):
		return fmt.Errorf("read spooled body: %w", err)
	}
	at := s.zr.Offset()
	if s.cutOff != "" {
		return &TornError{Reason: reject.BodyTooLarge, Detail: s.cutOff, Intact: true}
	}
	raw := make([]byte, min(s.size-at, stream.RejectBytes))
	if _, err := s.body.ReadAt(raw, at); err != nil && err != io.EOF {
		return fmt.Errorf("read spooled body: %w", err)
	}
	detail := "the body is not gzip although Content-Encoding says so"
	if at > 0 {
		detail = fmt.Sprintf("%d bytes behind the end of the gzip data", s.size-at)
	}
	return &TornError{Reason: reject.TornGzip, Detail: detail, Intact: true, Raw: raw, RawSize: s.size - at}
}

func (s *Body) torn(err error) error {
	switch {
	case s.cutOff != "" && errors.Is(err, io.ErrUnexpectedEOF):
		return &TornError{Reason: reject.BodyTooLarge, Detail: s.cutOff}
	case errors.Is(err, inflate.ErrChecksum):
		return &TornError{Reason: reject.TornGzip,
			Detail: "the gzip checksum is wrong: some of the decompressed bytes are not what was compressed"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &TornError{Reason: reject.TornGzip, Detail: "the gzip data ends in the middle", Cut: true}
	}
	if !errors.Is(err, inflate.ErrCorrupt) {
		return fmt.Errorf("read spooled body: %w", err)
	}
	return &TornError{Reason: reject.TornGzip, Detail: "the gzip data is damaged"}
}

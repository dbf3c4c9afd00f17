package ingest

import (
	"errors"
	"fmt"
	"io"

	"github.com/warpline/warpline/ingest/inflate"
	"github.com/warpline/warpline/proto/gpuflight"
	"github.com/warpline/warpline/proto/stream"
)

// cutLimits are the limits that decide how an upload is cut. They are frozen when it is first seen, so that a second try after a crash
// cuts the same parts even when the limits have changed in between.
type cutLimits struct {
	maxBody, maxRaw, maxLine int64
	maxRatio                 float64
}

// minRatioBytes: a body may always expand to this much. It is above the largest window that the real client uploads (128 MiB raw), so
// that one absurdly compressible line, say of a hundred million equal characters, costs itself and not the lines behind it.
const minRatioBytes = 192 << 20

// budget returns how many bytes a gzip body of the given size may expand to, and the reason to give beyond it.
func (l cutLimits) budget(size int64) (int64, string, string) {
	allowed := max(minRatioBytes, int64(min(float64(size)*l.maxRatio, 1<<62)))
	if allowed < l.maxRaw {
		return allowed, gpuflight.ReasonRatioExceeded, fmt.Sprintf("the body expands more than limit-ratio = %g fold: what follows was not decompressed", l.maxRatio)
	}
	return l.maxRaw, gpuflight.ReasonBodyTooLarge, l.overRaw()
}

func (l cutLimits) overRaw() string {
	return fmt.Sprintf("the body holds more than limit-raw-body = %d bytes: what follows was not taken", l.maxRaw)
}

// source reads the lines of a spooled body. It ends with io.EOF or a *tornError. Its reads never go over the budget.
type source struct {
	body    io.ReaderAt
	size    int64
	cutOff  string // why bytes behind size are missing, "" when none are
	gz      bool
	section io.SectionReader
	zr      *inflate.Reader
	inside  bool // of a gzip member
	left    int64
	over    string // reason and words once left is used up
	overWhy string
	err     error
}

// reset makes the source ready to read size bytes of body from the start. cutOff says why the body is longer than that; "" means it is not.
func (s *source) reset(body io.ReaderAt, size int64, gz bool, l cutLimits, cutOff string) {
	s.body, s.size, s.gz, s.cutOff, s.inside, s.err = body, size, gz, cutOff, false, nil
	s.section = *io.NewSectionReader(body, 0, size)
	if gz {
		if s.zr == nil {
			s.zr = new(inflate.Reader)
		}
		s.zr.Reset(&s.section)
	}
	s.left, s.over, s.overWhy = l.maxRaw, gpuflight.ReasonBodyTooLarge, l.overRaw()
	if gz {
		s.left, s.over, s.overWhy = l.budget(size)
	}
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
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
			err = &tornError{reason: s.over, detail: s.overWhy}
		}
		s.err = err
		return 0, err
	}
	n, err := s.decode(p[:min(int64(len(p)), s.left)])
	s.left -= int64(n)
	s.err = err
	return n, err
}

func (s *source) decode(p []byte) (int, error) {
	if !s.gz {
		n, err := s.section.Read(p)
		if err == io.EOF && s.cutOff != "" {
			err = &tornError{reason: gpuflight.ReasonBodyTooLarge, detail: s.cutOff}
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

// member starts the next gzip member. Bytes behind a whole member which begin no other are refused as they are.
func (s *source) member() error {
	err := s.zr.NextMember()
	switch {
	case err == nil:
		s.inside = true
		return nil
	case err == io.EOF && s.cutOff != "":
		return &tornError{reason: gpuflight.ReasonBodyTooLarge, detail: s.cutOff, intact: true}
	case err == io.EOF && s.size > 0:
		return io.EOF
	case err != io.EOF && !errors.Is(err, inflate.ErrHeader):
		return fmt.Errorf("read spooled body: %w", err)
	}
	at := s.zr.Offset()
	if s.cutOff != "" {
		return &tornError{reason: gpuflight.ReasonBodyTooLarge, detail: s.cutOff, intact: true}
	}
	raw := make([]byte, min(s.size-at, stream.RejectBytes))
	if _, err := s.body.ReadAt(raw, at); err != nil && err != io.EOF {
		return fmt.Errorf("read spooled body: %w", err)
	}
	detail := "the body is not gzip although Content-Encoding says so"
	if at > 0 {
		detail = fmt.Sprintf("%d bytes behind the end of the gzip data", s.size-at)
	}
	return &tornError{reason: gpuflight.ReasonTornGzip, detail: detail, intact: true, raw: raw, rawSize: s.size - at}
}

func (s *source) torn(err error) error {
	switch {
	case s.cutOff != "" && errors.Is(err, io.ErrUnexpectedEOF):
		return &tornError{reason: gpuflight.ReasonBodyTooLarge, detail: s.cutOff}
	case errors.Is(err, inflate.ErrChecksum):
		return &tornError{reason: gpuflight.ReasonTornGzip, detail: "the gzip checksum is wrong: some of the decompressed bytes are not what was compressed"}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &tornError{reason: gpuflight.ReasonTornGzip, detail: "the gzip data ends in the middle"}
	}
	if !errors.Is(err, inflate.ErrCorrupt) {
		return fmt.Errorf("read spooled body: %w", err)
	}
	return &tornError{reason: gpuflight.ReasonTornGzip, detail: "the gzip data is damaged"}
}

package rpc

import (
	"bytes"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Damaged is a message that cannot be unpacked.
type Damaged struct{ Cause error }

// Error renders the cause.
func (e *Damaged) Error() string { return "the message cannot be unpacked: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *Damaged) Unwrap() error { return e.Cause }

var unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// inflate unpacks a message. gRPC would do that too, but answers what is too large in a way that makes Parca's agent send it again, and
// does not ask for the memory first.
func (s *Stream) inflate(packed []byte) ([]byte, error) {
	z := unzippers.Get().(*gzip.Reader)
	defer unzippers.Put(z)
	if err := z.Reset(bytes.NewReader(packed)); err != nil {
		return nil, &Damaged{err}
	}
	most := int(s.bounds.Most)
	var out []byte
	for room := min(most+1, max(4*len(packed), 16<<10)); ; room = min(most+1, 2*cap(out)) {
		if err := s.bounds.Take(int64(room - cap(out))); err != nil {
			return nil, err
		}
		s.held += int64(room - cap(out))
		grown := make([]byte, len(out), room)
		copy(grown, out)
		n, err := io.ReadFull(z, grown[len(out):room])
		out = grown[:len(out)+n]
		switch {
		case len(out) > most:
			return nil, &TooLarge{Most: s.bounds.Most}
		case err == io.EOF || err == io.ErrUnexpectedEOF && n > 0 && ended(z):
			return out, nil
		case err != nil:
			return nil, &Damaged{err}
		}
	}
}

// ended reports whether the data ended well: ReadFull says the same of data that ends in the middle.
func ended(z *gzip.Reader) bool {
	var one [1]byte
	n, err := z.Read(one[:])
	return n == 0 && err == io.EOF
}

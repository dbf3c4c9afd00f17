package sink

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// errLate ends a body whose insert has had its time. A process that was stopped for minutes must not go on sending where it was.
var errLate = errors.New("the insert's time is over")

// splice is one Arrow stream put together from the messages of many: schema, the batches of all, end of stream. Each batch is unpacked
// when its turn comes, and brings its own dictionaries, which replace those before.
type splice struct {
	pieces  []piece
	data    []byte // what is left of the piece under way
	scratch []byte
	bytes   int64     // of the whole stream
	until   time.Time // wall clock
}

// scratches keeps the buffers that batches are unpacked into: each is as large as the largest batch.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

func newSplice(schema []byte, p *part, until time.Time) *splice {
	s := &splice{pieces: make([]piece, 0, len(p.pieces)+2), until: until.Round(0), scratch: *scratches.Get().(*[]byte)}
	s.pieces = append(s.pieces, piece{plain: schema})
	s.pieces = append(s.pieces, p.pieces...)
	s.pieces = append(s.pieces, piece{plain: table.EOS()})
	for i := range s.pieces {
		s.bytes += int64(len(s.pieces[i].plain)) + int64(s.pieces[i].rows.DataLen)
	}
	return s
}

// Read implements io.Reader.
func (s *splice) Read(p []byte) (n int, err error) {
	if time.Now().After(s.until) {
		return 0, errLate
	}
	for n < len(p) {
		if len(s.data) == 0 {
			if len(s.pieces) == 0 {
				break
			}
			var buf []byte
			if s.data, buf, err = s.pieces[0].read(s.scratch); err != nil {
				return n, err
			}
			s.scratch, s.pieces = buf, s.pieces[1:]
		}
		c := copy(p[n:], s.data)
		n, s.data = n+c, s.data[c:]
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// close gives the scratch space back; the splice must not be read any more.
func (s *splice) close() { scratches.Put(&s.scratch) }

package sink

import (
	"errors"
	"io"
	"sync"
	"time"

	"github.com/warpline/warpline/sink/table"
)

// errLate ends a body when its insert's time is over. A process that was stopped for minutes must not go on sending.
var errLate = errors.New("the insert's time is over")

// splice is one Arrow stream put together from the streams of many messages: the schema, the batches of all, the end of stream. Each batch
// is unpacked when its turn comes, and has its own dictionaries, which replace those before.
type splice struct {
	batches []batch
	data    []byte // what is left of the present batch
	scratch []byte
	bytes   int64     // of the whole stream
	until   time.Time // wall clock
}

// scratches keeps the buffers that batches are unpacked into: each is as large as the largest batch.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

func newSplice(schema []byte, p *block, until time.Time) *splice {
	s := &splice{batches: make([]batch, 0, len(p.batches)+2), until: until.Round(0), scratch: *scratches.Get().(*[]byte)}
	s.batches = append(s.batches, batch{plain: schema})
	s.batches = append(s.batches, p.batches...)
	s.batches = append(s.batches, batch{plain: table.EOS()})
	for i := range s.batches {
		s.bytes += int64(len(s.batches[i].plain)) + int64(s.batches[i].rows.DataLen)
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
			if len(s.batches) == 0 {
				break
			}
			var buf []byte
			s.data, buf, err = s.batches[0].read(s.scratch)
			if err != nil {
				return n, err
			}
			s.scratch, s.batches = buf, s.batches[1:]
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

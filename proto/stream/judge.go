package stream

import (
	"errors"
	"fmt"
)

// ErrForeign is returned, wrapped, for a ROWS message that no worker can have published there: it is not a chunk at all, or a chunk of
// another partition, or a copy of one. It may be set aside: nothing is lost with it, and nothing waits for it.
var ErrForeign = errors.New("no worker published this here")

// ErrNewer is returned, wrapped, for a chunk of a later format. It is not foreign: it holds rows, and a later build reads them.
var ErrNewer = errors.New("a chunk of a newer format than this build reads: upgrade every worker and sink to the version that wrote it")

// ErrPassed is returned, wrapped, for a chunk whose number is not above the newest known: a copy of an earlier chunk, or an older copy of
// the stream was put back. Nothing of it is to be inserted; only the stream shows which of the two it is.
var ErrPassed = errors.New("a chunk of this number or a higher one was there before")

// Tail is what is known of the chunks of a partition so far, by which the next message on its subject is judged.
type Tail struct {
	Partition int
	Number    uint64 // of the newest chunk known, 0: none is known
}

// Judge reads the message that follows on the partition's subject. The chunk numbers of a partition only rise, also when ROWS was lost and
// begins anew. state and body are as from ParseChunk. Errors are ErrForeign, ErrPassed, with the chunk, and ErrNewer, wrapped.
func (t Tail) Judge(msg []byte) (c Chunk, state, body []byte, err error) {
	if len(msg) >= 4 && [3]byte(msg[:3]) == [3]byte(chunkMagic[:3]) && msg[3] > chunkMagic[3] {
		return c, nil, nil, fmt.Errorf("format %d: %w", msg[3], ErrNewer)
	}
	c, state, body, err = ParseChunk(msg)
	switch {
	case err != nil:
		return c, nil, nil, fmt.Errorf("%w: %w", ErrForeign, err)
	case c.Partition != t.Partition:
		return c, nil, nil, fmt.Errorf("%w: it is a chunk of partition %d", ErrForeign, c.Partition)
	case c.Number <= t.Number:
		return c, nil, nil, fmt.Errorf("chunk %d after chunk %d: %w", c.Number, t.Number, ErrPassed)
	}
	return c, state, body, nil
}

// Missing returns how many chunks are missing between the newest known and c, which Judge has let pass: 0 when none is, when none is known,
// or when c begins a new count (ROWS was lost, which its worker recorded).
func (t Tail) Missing(c *Chunk) uint64 {
	if t.Number == 0 || c.Number == c.Base {
		return 0
	}
	return c.Number - t.Number - 1
}

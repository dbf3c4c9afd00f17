package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// What is kept of messages that are set aside, for each partition: the first ones whole, more of them cut short, and of the rest only their
// number.
const (
	asideWhole = 16
	asideCut   = 1024
	asideBytes = 64 << 10
)

// asidePrefix begins the names of their objects.
const asidePrefix = "aside-"

// SetAside takes a message out of a stream in which it does not belong, so that the readers go on: its bytes go to the store of chunk
// bodies, a finding names it, and it is deleted. It may be called twice, and by several roles at once. If the bytes or the finding cannot
// be stored because a bucket is full or gone, the message is deleted all the same: readers must not wait for it. partition is -1 if there
// is none.
func (s *Streams) SetAside(ctx context.Context, from jetstream.Stream, partition int, seq uint64,
	subject string, data []byte, why error) error {
	name := from.CachedInfo().Config.Name
	at := Place{First: seq, Last: seq, Detail: fmt.Sprintf("%d bytes on %q: %v", len(data), subject, why),
		Object: fmt.Sprintf(asidePrefix+"%s-%d", name, seq)}
	have, err := Find(ctx, s.Marks, FindingAside, name, partition, 1, at)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	if have.Count > asideWhole {
		data = data[:min(len(data), asideBytes)]
	}
	if have.Count <= asideCut {
		if _, err := s.Chunks.PutBytes(ctx, at.Object, data); err != nil && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := from.DeleteMsg(ctx, seq); err != nil {
		_, there := from.GetMsg(ctx, seq)
		if !errors.Is(there, jetstream.ErrMsgNotFound) { // otherwise another role was faster
			return fmt.Errorf("delete message %d of %s, which was set aside: %w", seq, name, err)
		}
	}
	return nil
}

// Copied returns stream.ErrForeign, wrapped, when the chunk at a sequence of ROWS is a copy of one that was published before it. A chunk is
// stored only when the newest message of its subject is the one that its writer knew of, so nothing was ever between the two.
func (s *Streams) Copied(ctx context.Context, c *stream.Chunk, seq uint64) error {
	if c.After == 0 || c.After > seq {
		return nil // of a worker that did not say, or of a stream that was there before
	}
	first, err := s.Rows.GetMsg(ctx, c.After, jetstream.WithGetMsgSubject(stream.RowsSubject(c.Partition)))
	if err != nil {
		return fmt.Errorf("look for what chunk %d follows: %w", c.Number, err)
	}
	if first.Sequence != seq {
		return fmt.Errorf("%w: it is chunk %d sent again, which was at %d", stream.ErrForeign, c.Number, first.Sequence)
	}
	return nil
}

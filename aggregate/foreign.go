package aggregate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// newest returns the newest chunk of the partition in ROWS. Messages after it that no worker published are set aside; otherwise the last of
// them would be taken for the checkpoint, and no worker could own the partition any more. The error is jetstream.ErrMsgNotFound when the
// subject is empty.
func (o *owner) newest(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	for {
		last, err := o.streams.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(o.partition))
		if err != nil {
			return nil, err
		}
		c, _, _, err := stream.Tail{Partition: o.partition}.Judge(last.Data)
		if err == nil {
			err = o.streams.Copied(ctx, &c, last.Sequence)
			if err == nil {
				return last, nil
			}
		}
		if !errors.Is(err, stream.ErrForeign) {
			return nil, fmt.Errorf("ROWS message %d: %w", last.Sequence, err)
		}
		if err := o.setAside(ctx, last, err); err != nil {
			return nil, err
		}
	}
}

// behind returns ErrForeign, wrapped, for a chunk that comes after the one that this owner published or took over last and yet is older:
// another owner would have published its chunk after that one or a later one.
func (o *owner) behind(c *stream.Chunk) error {
	if c.After > o.lastRows || c.After == 0 && c.Epoch >= o.epoch { // After is a sequence and one
		return nil
	}
	return fmt.Errorf("%w: it is chunk %d sent again, and chunk %d is there", stream.ErrForeign, c.Number, o.number-1)
}

// setAside removes a message that no worker published from the partition's subject.
func (o *owner) setAside(ctx context.Context, msg *jetstream.RawStreamMsg, why error) error {
	o.w.metrics.aside.Inc()
	o.log.Error("a message in ROWS that no worker published is set aside; `warpline audit` names it", "seq", msg.Sequence, "bytes",
		len(msg.Data), "why", why)
	return o.streams.SetAside(ctx, o.streams.Rows, o.partition, msg.Sequence, msg.Subject, msg.Data, why)
}

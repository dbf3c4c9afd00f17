package aggregate

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/proto/stream"
)

// newest returns the newest chunk of the partition in ROWS. What lies behind it and no worker published, whoever did and however, is set
// aside; else it would be taken for the checkpoint, and nobody could own the partition any more. The error is jetstream.ErrMsgNotFound when
// the subject is empty.
func (o *owner) newest(ctx context.Context) (*jetstream.RawStreamMsg, error) {
	for {
		last, err := o.streams.Rows.GetLastMsgForSubject(ctx, stream.RowsSubject(o.partition))
		if err != nil {
			return nil, err
		}
		c, _, _, err := stream.Tail{Partition: o.partition}.Judge(last.Data)
		if err == nil {
			if err = o.streams.Copied(ctx, &c, last.Sequence); err == nil {
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

// behind returns ErrForeign, wrapped, when a chunk that lies behind the one that this owner published or took over last is older than that:
// another owner's would have been published with that one before it, or a later one.
func (o *owner) behind(c *stream.Chunk) error {
	if c.After > o.lastRows || c.After == 0 && c.Epoch >= o.epoch { // After is a sequence and one
		return nil
	}
	return fmt.Errorf("%w: it is chunk %d sent again, and chunk %d is there", stream.ErrForeign, c.Number, o.number-1)
}

// setAside takes a message that no worker published off the partition's subject.
func (o *owner) setAside(ctx context.Context, msg *jetstream.RawStreamMsg, why error) error {
	o.w.metrics.aside.Inc()
	o.log.Error("a message in ROWS that no worker published is set aside; `warpline audit` names it", "seq", msg.Sequence, "bytes",
		len(msg.Data), "why", why)
	return o.streams.SetAside(ctx, o.streams.Rows, o.partition, msg.Sequence, msg.Subject, msg.Data, why)
}

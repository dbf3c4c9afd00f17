package sink

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/warpline/warpline/broker"
	"github.com/warpline/warpline/proto/stream"
)

// markUploads records for the gateways up to which sequence of INGEST d took everything. Accepted uploads are recorded in blocks with those
// of other sessions, and a block is never written again. With the mark, uploads of this session in a block are not recognised any more.
func (k *Sink) markUploads(ctx context.Context, d *stream.Deletion, position uint64) error {
	key := d.Tenant + "." + d.Token() + ".d"
	old, err := k.s.Windows.Get(ctx, key)
	switch {
	case err == nil:
		upTo, n := binary.Uvarint(old.Value())
		if n > 0 && upTo >= position { // another partition of the same purge
			return nil
		}
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return fmt.Errorf("mark a deletion: %w", err)
	}
	_, err = k.s.Windows.Put(ctx, key, binary.AppendUvarint(nil, position))
	if err != nil && !broker.IsFull(err) { // gateways make room; it must not hold the lane
		return fmt.Errorf("mark a deletion: %w", err)
	}
	return nil
}

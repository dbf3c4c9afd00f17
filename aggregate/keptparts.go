package aggregate

import (
	"context"
	"time"

	"github.com/warpline/warpline/proto/stream"
)

// markKept says of the objects that only rejects refer to any more that they are the first to go when their store is full. Where that fails
// they stay until they expire, as all do.
func (o *owner) markKept(ctx context.Context) {
	for _, name := range o.keptParts {
		try, cancel := context.WithTimeout(ctx, 5*time.Second)
		if info, err := o.streams.Parts.GetInfo(try, name); err == nil && info.Description == "" {
			meta := info.ObjectMeta
			meta.Description = stream.KeptForReject
			o.streams.Parts.UpdateMeta(try, name, meta)
		}
		cancel()
	}
	o.keptParts = o.keptParts[:0]
}

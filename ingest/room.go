package ingest

import (
	"errors"

	"github.com/warpline/warpline/proto/stream"
)

// room is how full INGEST is. A tenant whose parts wait there for ClickHouse must not take what others need: it may have roomTimes as
// much as it leaves free. So one tenant alone can fill 8/9 of INGEST, two 8/17 each, and however many fill it, there is room for the next.
// The lock of the backlog guards it.
type room struct {
	used, max int64 // max 0: not known yet, or without a bound
}

const (
	roomTimes = 8
	// leastRoom is of how large an INGEST there are shares: one of a few parts cannot be shared out.
	leastRoom = 32 * stream.PartBytes
	// muchOfRoom is which part of INGEST a tenant must take for other gateways to be told, and the next ones after a restart.
	muchOfRoom = 64
	// besideData is about what a message takes in a stream beside its data: its subject, its id, and the store's own record.
	besideData = 192
)

// taking is how much of INGEST a message with so many bytes takes.
func taking(data int) int64 { return int64(data) + besideData }

// errIngestShare says that a tenant's parts fill its share of INGEST.
var errIngestShare = errors.New("this tenant's parts on their way into SQL fill its share of INGEST")

// saw takes note of how full INGEST is.
func (b *backlog) saw(used, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room = room{used, most}
}

// much reports whether so many bytes are what other gateways shall know of.
func (r room) much(bytes int64) bool { return r.max >= leastRoom && bytes > r.max/muchOfRoom }

// share is how much of INGEST what a tenant has on its way takes, from all gateways together, and the most that it may take; 0: any. Parts
// that are folded may be gone from INGEST before they are in SQL, so it cannot have more than is there.
func (b *backlog) share(tenant string) (own, most int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if o := b.by[tenant]; o != nil {
		own = max(o.took, 0)
	}
	if b.elsewhere != nil {
		own += b.elsewhere.Took(tenant)
	}
	if b.room.max < leastRoom {
		return own, 0
	}
	own = min(own, b.room.used)
	return own, max((b.room.max-b.room.used+own)/(roomTimes+1)*roomTimes, 1)
}

// within returns errIngestShare while the tenant has more of INGEST than its share.
func (b *backlog) within(tenant string) error {
	if own, most := b.share(tenant); most > 0 && own > most {
		return errIngestShare
	}
	return nil
}

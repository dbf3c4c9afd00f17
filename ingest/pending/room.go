package pending

import "github.com/warpline/warpline/proto/stream"

// Room is how full INGEST is. A tenant whose parts wait there for ClickHouse must not take what others need: it may have roomTimes as much
// as it leaves free. So one tenant alone can fill 4/5 of INGEST, two 4/9 each, and however many fill it, there is room for the next.
type Room struct {
	Used, Max int64 // Max 0: not known yet, or without a bound
}

const (
	roomTimes = 4
	// leastRoom is of how large an INGEST there are shares: one of a few parts cannot be shared out.
	leastRoom = 32 * stream.PartBytes
	// muchOfRoom is which part of INGEST a tenant must take for other gateways to be told, and the next ones after a restart.
	muchOfRoom = 64
	// besideData is about what a message takes in a stream beside its data: its subject, its id, and the store's own record.
	besideData = 192
)

// Taking is how much of INGEST a message with so many bytes takes.
func Taking(data int) int64 { return int64(data) + besideData }

// Much reports whether so many bytes are what other gateways shall know of.
func (r Room) Much(bytes int64) bool { return r.Max >= leastRoom && bytes > r.Max/muchOfRoom }

// Share is how much of INGEST a tenant has that has own bytes of it on their way into SQL, and the most that it may have; 0: any. Parts
// that are folded may be gone from INGEST before they are in SQL, so it cannot have more than is there.
func (r Room) Share(own int64) (has, most int64) {
	if r.Max < leastRoom {
		return own, 0
	}
	has = min(own, r.Used)
	return has, max((r.Max-r.Used+has)/(roomTimes+1)*roomTimes, 1)
}

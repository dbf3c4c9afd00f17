package telemetry

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate"
	"github.com/warpline/warpline/aggregate/state"
	"github.com/warpline/warpline/proto/telemetry"
)

// A memory event counts once, whichever exports it comes in and however late. It is known by its place in the session: a key of 58 bits is
// remembered for each event, and in the lower bits how much the copy says that is shown.

const (
	// maxEventKeys is how many keys of a session are remembered at least, and at most twice as many, the newest: 8 to 16 MiB. An older
	// event that comes again in another export counts again.
	maxEventKeys = 1 << 19
	// maxPartitionEventKeys bounds the keys of all sessions, some 64 MiB; beyond it those of the sessions that were silent longest are
	// forgotten, first of tenants that have more than their share.
	maxPartitionEventKeys = 1 << 22
	// eventKeyDays is for how many times Config.Forget a session is remembered because of its keys.
	eventKeyDays = 8

	richnessBits = 6
	maxRichness  = 1<<richnessBits - 1
)

// eventKey makes the key of an event within its session, in scratch memory.
func eventKey(scratch []byte, e *telemetry.Event) (key uint64, _ []byte) {
	const counters = telemetry.NoAllocated | telemetry.NoReserved | telemetry.NoChange | telemetry.NoDeviceUsed
	b := scratch[:0]
	for _, v := range [...]int64{e.TimestampNS, e.Rank, e.LocalRank, e.WorldSize, e.DeviceID, e.Allocated, e.Reserved, e.Change, e.DeviceUsed,
		int64(e.Has & counters), int64(len(e.EventType))} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = append(append(b, e.EventType...), e.Context...)
	key = xxh3.Hash(b) &^ maxRichness
	if key == 0 {
		key = maxRichness + 1 // 0 is not a key
	}
	return key, b
}

// richness says how much a copy of an event says: its metadata's keys, of which there are keys, and the counters that not all have.
func richness(e *telemetry.Event, keys int) uint8 {
	for _, bit := range [...]telemetry.Presence{telemetry.HasActive, telemetry.HasInactive, telemetry.HasFree, telemetry.HasTotal} {
		if e.Has&bit != 0 {
			keys++
		}
	}
	return uint8(min(keys, maxRichness))
}

// eventKeys remembers the newest keys of a session, in two generations: when the younger is full the older goes.
type eventKeys struct {
	young, old keyTable
	fresh      []uint64 // not in a published state change yet
}

func (k *eventKeys) count() int { return k.young.n + k.old.n }

// find returns where the key stands with its richness, nil if it is not remembered.
func (k *eventKeys) find(key uint64) *uint64 {
	if p := k.young.find(key); p != nil {
		return p
	}
	return k.old.find(key)
}

// add remembers an entry whose key is not remembered yet.
func (k *eventKeys) add(entry uint64) {
	if k.young.n >= maxEventKeys {
		k.old, k.young = k.young, keyTable{}
	}
	k.young.add(entry)
	k.fresh = append(k.fresh, entry)
}

// append writes the keys for the state: all of them, or the fresh ones.
func (k *eventKeys) append(w *state.Writer, full bool) {
	if !full {
		appendEntries(w, len(k.fresh), k.fresh)
		return
	}
	appendEntries(w, k.count(), k.old.slots, k.young.slots)
}

func appendEntries(w *state.Writer, n int, lists ...[]uint64) {
	w.N(n)
	for _, list := range lists {
		for _, entry := range list {
			if entry != 0 {
				w.Body = binary.LittleEndian.AppendUint64(w.Body, entry)
			}
		}
	}
}

func (k *eventKeys) read(r *state.Reader) {
	for range r.N(8) {
		entry := r.Fixed64()
		if entry&^maxRichness == 0 {
			r.Fail()
			return
		}
		if p := k.find(entry); p != nil {
			*p = max(*p, entry)
		} else {
			k.add(entry)
		}
	}
	k.fresh = k.fresh[:0]
}

// keyTable is a hash table of entries: a key, and its richness in the lower bits. 0 is not an entry.
type keyTable struct {
	slots []uint64
	n     int
}

// slotSeed is this process's own: clients can compute keys, and could otherwise choose events whose keys collide.
var slotSeed = [2]uint64{rand.Uint64(), rand.Uint64() | 1}

// slotOf is where an entry's search begins.
func slotOf(entry uint64) uint64 {
	hi, lo := bits.Mul64(entry&^maxRichness^slotSeed[0], slotSeed[1])
	return hi ^ lo
}

func (t *keyTable) find(key uint64) *uint64 {
	if t.n == 0 {
		return nil
	}
	mask := uint64(len(t.slots) - 1)
	for i := slotOf(key) & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		switch {
		case *s == 0:
			return nil
		case (*s^key)&^maxRichness == 0:
			return s
		}
	}
}

func (t *keyTable) add(entry uint64) {
	if 4*(t.n+1) > 3*len(t.slots) {
		grown := keyTable{slots: make([]uint64, max(16, 2*len(t.slots)))}
		for _, s := range t.slots {
			if s != 0 {
				grown.put(s)
			}
		}
		*t = grown
	}
	t.put(entry)
}

func (t *keyTable) put(entry uint64) {
	mask := uint64(len(t.slots) - 1)
	i := slotOf(entry) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = entry
	t.n++
}

// seenEvent reports whether the session's event has been counted, and whether this copy says more than the one that is shown; then old is
// how much that one says. It remembers the event.
func (f *folding) seenEvent(s *session, key uint64, rich uint8) (seen, richer bool, old uint8) {
	if p := s.keys.find(key); p != nil {
		old = uint8(*p & maxRichness)
		if rich <= old {
			return true, false, old
		}
		*p = key | uint64(rich)
		s.keys.fresh = append(s.keys.fresh, *p)
		return true, true, old
	}
	if f.eventKeys++; f.eventKeys > maxPartitionEventKeys {
		f.trimEventKeys(s)
	}
	s.keys.add(key | uint64(rich))
	return false, false, 0
}

// trimEventKeys takes the keys from the sessions that were silent longest, of tenants that have more than their share, until a quarter
// of the room is free; keep has its own bound.
func (f *folding) trimEventKeys(keep *session) {
	var holders []*session
	f.eventKeys = 0
	tenants := map[string]int{}
	for s := range f.own {
		if n := s.keys.count(); n > 0 {
			f.eventKeys += n
			tenants[s.Key.Tenant] += n
			holders = append(holders, s)
		}
	}
	const room = maxPartitionEventKeys / 4 * 3
	if f.eventKeys <= room {
		return
	}
	slices.SortFunc(holders, func(a, b *session) int {
		return cmp.Or(cmp.Compare(a.LastReceivedAt, b.LastReceivedAt), cmp.Compare(a.Key.Tenant, b.Key.Tenant), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	share := aggregate.FairShare(tenants, room)
	for _, s := range holders {
		if f.eventKeys <= room {
			return
		}
		if s != keep && tenants[s.Key.Tenant] > share {
			f.eventKeys -= s.keys.count()
			tenants[s.Key.Tenant] -= s.keys.count()
			s.keys = eventKeys{}
		}
	}
}

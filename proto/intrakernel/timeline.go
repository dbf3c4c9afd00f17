package intrakernel

import (
	"cmp"
	"math"
	"slices"
)

// Event is one event of a timeline: a slice or an instant.
type Event struct {
	// TS is when it begins, in ns since the first record of the timeline; Dur is how long it took, 0 of an instant.
	TS, Dur uint64
	Region  uint16
	Block   uint16
	// Place is the one of the record that ended it.
	Place   uint16
	Instant bool
}

// Warp and SM are as those of a Record.
func (e *Event) Warp() uint16 { return e.Place & 63 }

// SM is the number of the multiprocessor.
func (e *Event) SM() uint16 { return e.Place >> 6 }

// visit is the event as it travels.
func (e *Event) visit() Visit {
	return Visit{TS: e.TS, Dur: e.Dur, Block: uint32(e.Block), Region: e.Region, Warp: e.Warp(), SM: e.SM(), Instant: e.Instant}
}

// Timeline is a capture in order, with begins and ends paired. It is not safe for concurrent use.
type Timeline struct {
	header *Header
	// Events are slices and instants in the order in which their last records stand in the order of records. In legacy mode there are none.
	Events []Event
	// Survivors is how many records came through rings and filter.
	Survivors int
	// UnmatchedBegin and UnmatchedEnd are records without a partner, which are in no event.
	UnmatchedBegin, UnmatchedEnd uint64
	// Elements is how many elements the list of events had in the trace that it was read from.
	Elements uint64
	// Rounded tells that the trace it was read from has times that are less exact than a ns.
	Rounded bool

	halves  bool              // the trace it was read from has begins and ends
	records []Record          // in legacy mode
	tracks  []uint64          // track keys of all survivors, ascending
	firstSM map[uint16]uint16 // by block: the SM of its first record
}

// Timeline orders and pairs the records of c, which it uses up.
func (c *Capture) Timeline(h *Header) (*Timeline, error) {
	t := &Timeline{header: h, Survivors: len(c.Records)}
	if len(c.Records) == 0 {
		return t, nil
	}
	records, spare := sortRecords(c.Records, make([]Record, len(c.Records)))
	c.Records = nil
	first, last := records[0].TS, records[len(records)-1].TS
	if err := h.checkSpan(last - first); err != nil {
		return nil, err
	}
	for i := range records {
		records[i].TS -= first
	}
	if !h.Options.GroupBySM {
		t.firstSM = map[uint16]uint16{}
		for i := range records {
			if _, ok := t.firstSM[records[i].Block]; !ok {
				t.firstSM[records[i].Block] = records[i].SM()
			}
		}
	}
	if h.Options.CompleteEvents {
		_ = spare // it goes before the events come
		t.pair(records)
	} else {
		t.legacy(records, spare)
	}
	return t, nil
}

// checkSpan says whether times up to span can be multiplied with the scale.
func (h *Header) checkSpan(span uint64) error {
	if math.IsInf(float64(span)*h.Options.Scale, 0) {
		return wrong(InHeader, "options.scale: %v makes the time of the last record, %d ns, infinite: give a smaller one", h.Options.Scale, span)
	}
	return nil
}

// trackKey is pid and tid of a place in one number that sorts as they do.
func (o *Options) trackKey(block, place uint16) uint64 {
	if o.GroupBySM {
		return uint64(place>>6)<<32 | uint64(block)<<6 | uint64(place&63)
	}
	return uint64(block)<<32 | uint64(place&63)*32
}

// pair makes the events.
func (t *Timeline) pair(records []Record) {
	n := 0
	for i := range records {
		if records[i].Type != Begin {
			n++
		}
	}
	p := newPairing(&t.header.Options)
	t.Events = p.pair(make([]Event, 0, n), records)
	t.UnmatchedBegin, t.UnmatchedEnd = p.unmatchedBegin, p.unmatchedEnd
	p.states.each(func(key uint64) {
		t.tracks = append(t.tracks, t.header.Options.trackKey(uint16(key>>16), uint16(key)))
	})
	t.tracks = unique(t.tracks)
}

// legacy keeps the records, track by track where SMs are processes.
func (t *Timeline) legacy(records, spare []Record) {
	o := &t.header.Options
	t.records = records
	key := func(r *Record) uint64 { return o.trackKey(r.Block, r.Place) }
	t.tracks = make([]uint64, 0, 64)
	for i := range records {
		k := key(&records[i])
		if n := len(t.tracks); n > 0 && t.tracks[n-1] == k {
			continue
		}
		if t.tracks = append(t.tracks, k); len(t.tracks) == cap(t.tracks) {
			t.tracks = unique(t.tracks) // so that it grows with tracks, not with records
			t.tracks = slices.Grow(t.tracks, len(t.tracks)+64)
		}
	}
	t.tracks = unique(t.tracks)
	switch {
	case o.GroupBySM && hasUnknownTypes(records):
		introsort(records, func(a, b *Record) int {
			return cmp.Or(cmp.Compare(key(a), key(b)), cmp.Compare(a.TS, b.TS), cmp.Compare(a.Type.rank(), b.Type.rank()),
				cmp.Compare(a.Region, b.Region))
		})
	case o.GroupBySM:
		t.records = byTrack(records, spare, t.tracks, key)
	}
}

func unique(keys []uint64) []uint64 {
	slices.Sort(keys)
	return slices.Compact(keys)
}

// byTrack brings items into the order of their tracks, those of a track in the order in which they stand. tracks holds every key,
// ascending.
func byTrack[T any](items, spare []T, tracks []uint64, key func(*T) uint64) []T {
	var index stateTable
	for i, k := range tracks {
		*index.at(k) = uint32(i)
	}
	places := make([]int, len(tracks))
	for i := range items {
		places[*index.at(key(&items[i]))]++
	}
	at := 0
	for i, n := range places {
		places[i] = at
		at += n
	}
	spare = spare[:len(items)]
	for i := range items {
		place := &places[*index.at(key(&items[i]))]
		spare[*place] = items[i]
		*place++
	}
	return spare
}

// stateTable is a hash table from keys below 2^63 to numbers, which are 0 at first. It is several times as fast as a map where there are
// many keys.
type stateTable struct {
	keys   []uint64 // a key plus one; 0 is a free place
	values []uint32
	used   int
	shift  uint
}

// at is the number of a key, until the next call of at.
func (t *stateTable) at(key uint64) *uint32 {
	if t.used*4 >= len(t.keys)*3 {
		t.grow()
	}
	i := t.find(key)
	if t.keys[i] == 0 {
		t.keys[i] = key + 1
		t.used++
	}
	return &t.values[i]
}

// find is the place of a key, or the one where it would be.
func (t *stateTable) find(key uint64) int {
	for i := int(key * 0x9e3779b97f4a7c15 >> t.shift); ; i = (i + 1) & (len(t.keys) - 1) {
		if t.keys[i] == key+1 || t.keys[i] == 0 {
			return i
		}
	}
}

func (t *stateTable) grow() {
	old := *t
	size := max(1<<8, 2*len(t.keys))
	*t = stateTable{keys: make([]uint64, size), values: make([]uint32, size), used: old.used, shift: 64}
	for n := size; n > 1; n /= 2 {
		t.shift--
	}
	for i, k := range old.keys {
		if k != 0 {
			at := t.find(k - 1)
			t.keys[at], t.values[at] = k, old.values[i]
		}
	}
}

// clear makes all numbers 0. A table that became large is made anew by the next at.
func (t *stateTable) clear() {
	if len(t.keys) > 1<<12 {
		*t = stateTable{}
		return
	}
	clear(t.keys)
	clear(t.values)
	t.used = 0
}

// each visits all keys, in no order.
func (t *stateTable) each(visit func(key uint64)) {
	for _, k := range t.keys {
		if k != 0 {
			visit(k - 1)
		}
	}
}

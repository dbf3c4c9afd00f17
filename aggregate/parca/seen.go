package parca

import (
	"slices"

	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/state"
)

// seen remembers the newest things that a session has written to tables of facts, and on which day. Such rows expire, and a session goes on
// for longer, so a thing is written again when it is used on a later day. The zero value is empty.
//
// Beyond maxSeen the things that were not used for longest are forgotten, a quarter at a time; they are written anew when they come
// again. Which are forgotten follows from the parts alone.
type seen struct {
	all   []seenThing
	index []uint16 // of all, from 1; 0 is free
	tick  uint32   // of the last part that used it
	fresh int      // how many of all are not in a published state change yet
}

// seenThing is 32 bytes.
type seenThing struct {
	key   xxh3.Uint128
	id    uint32
	used  uint32 // tick
	day   int32  // on which it was written last, 0: never
	fresh bool
}

// maxSeen is how many things of a kind are remembered of a session: 18 KiB with their index.
const maxSeen = 512

// get returns what is remembered of a key, nil for nothing. It is valid until the next add.
func (s *seen) get(key xxh3.Uint128) *seenThing {
	if len(s.all) == 0 {
		return nil
	}
	if s.index == nil {
		s.reindex()
	}
	mask := len(s.index) - 1
	for i := int(key.Lo) & mask; s.index[i] != 0; i = (i + 1) & mask {
		if t := &s.all[s.index[i]-1]; t.key == key {
			return t
		}
	}
	return nil
}

// add remembers a key that is not remembered.
func (s *seen) add(key xxh3.Uint128, id uint32) *seenThing {
	if len(s.all) >= maxSeen {
		s.forget()
	}
	s.all = append(s.all, seenThing{key: key, id: id})
	if s.index == nil || 2*len(s.all) > len(s.index) {
		s.reindex()
	} else {
		s.enter(len(s.all) - 1)
	}
	return &s.all[len(s.all)-1]
}

// on notes the use of a thing on a day, and reports whether it has to be written.
func (s *seen) on(t *seenThing, day int32) bool {
	t.used = s.tick
	if t.day >= day {
		return false
	}
	t.day = day
	if !t.fresh {
		t.fresh = true
		s.fresh++
	}
	return true
}

func (s *seen) enter(n int) {
	mask := len(s.index) - 1
	i := int(s.all[n].key.Lo) & mask
	for s.index[i] != 0 {
		i = (i + 1) & mask
	}
	s.index[i] = uint16(n + 1)
}

func (s *seen) reindex() {
	size := 16
	for size < 2*len(s.all) {
		size *= 2
	}
	if len(s.index) == size {
		clear(s.index)
	} else {
		s.index = make([]uint16, size)
	}
	for n := range s.all {
		s.enter(n)
	}
}

// forget forgets a quarter. Of things that were used last by one part the earlier ones go.
func (s *seen) forget() {
	ages := make([]uint32, len(s.all))
	for i := range s.all {
		ages[i] = s.tick - s.all[i].used
	}
	slices.Sort(ages)
	limit, left := ages[len(ages)*3/4], len(s.all)/4
	for _, age := range ages {
		if age > limit {
			left-- // those that go whatever their place is
		}
	}
	kept := s.all[:0]
	for _, t := range s.all {
		if age := s.tick - t.used; age > limit {
			s.lose(&t)
			continue
		} else if age == limit && left > 0 {
			left--
			s.lose(&t)
			continue
		}
		kept = append(kept, t)
	}
	s.all = kept
	s.reindex()
}

func (s *seen) lose(t *seenThing) {
	if t.fresh {
		s.fresh--
	}
}

// rest frees what can be made again.
func (s *seen) rest() {
	s.index = nil
	if n := len(s.all); cap(s.all) > n+n/4+4 { // it is called again and again
		s.all = slices.Clone(s.all)
	}
}

// append writes all, or what has changed.
func (s *seen) append(w *state.Writer, full bool) {
	n := s.fresh
	if full {
		n = len(s.all)
	}
	w.U64(uint64(s.tick))
	w.N(n)
	for i := range s.all {
		if t := &s.all[i]; full || t.fresh {
			w.Hash(t.key)
			w.U64(uint64(t.id))
			w.U64(uint64(s.tick - t.used))
			w.I64(int64(t.day))
		}
	}
}

// read adds what append wrote.
func (s *seen) read(r *state.Reader) {
	s.tick = r.U32()
	for range r.N(19) {
		key, id, age, day := r.Hash(), r.U32(), r.U32(), int32(r.I64())
		t := s.get(key)
		if t == nil {
			t = s.add(key, id)
		}
		t.id, t.used, t.day = id, s.tick-age, day
	}
}

// size estimates what append writes.
func (s *seen) size(full bool) int {
	if full {
		return 24 * len(s.all)
	}
	return 24 * s.fresh
}

// published says that what has changed is part of the log.
func (s *seen) published() {
	if s.fresh == 0 {
		return
	}
	for i := range s.all {
		s.all[i].fresh = false
	}
	s.fresh = 0
}

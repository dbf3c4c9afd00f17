package gpuflight

import (
	"cmp"
	"slices"

	"github.com/warpline/warpline/aggregate/rows"
)

// scopeKey pairs a begin with its end. The instance id alone collides: user scopes and injected scopes count separately.
type scopeKey struct {
	instance uint64
	name     uint32
}

// scopeHalf is one end of a scope that waits for the other.
type scopeHalf struct {
	key                   scopeKey
	at                    int64
	origin                int64  // original_start_ns as it came, 0: it did not come
	childNS               uint64 // of a begin: time of children that were counted while it was open
	depth, repeat, warmup uint32
	next                  int32 // of the same key, in scopeHalves.all, -1: none
	continued             bool  // of a begin: it began in an earlier segment; of an end: it goes on in the next
	live                  bool  // false: the slot is free
	begin                 bool
}

// Pairing. A begin and an end of one key belong together when compatible says so. Today's client writes into each end when its scope began,
// so even scopes whose keys collide find their own half, whatever comes first. Ends that do not say (older clients, deep windows, the
// process scope) take the latest begin that is not after them, since scopes nest; a begin that comes late takes the earliest such end. When
// there is one scope for each key, as nearly always, that does not depend on the order of arrival either. It does when scopes collide, do
// not say when they began, and their windows come in the wrong order: then two of them may change places. A half without a match waits
// until the session's end.

// exactly reports whether the end names this begin as its own.
func exactly(begin, end *scopeHalf) bool {
	return end.origin != 0 && (end.origin == begin.at || end.origin == begin.origin)
}

// compatible reports whether the two may be one scope.
func compatible(begin, end *scopeHalf) bool {
	switch {
	case begin.at > end.at:
		return false // clocks of one process do not run backwards
	case end.origin <= 0 || end.origin >= end.at || exactly(begin, end):
		return true
	}
	return begin.continued && end.origin <= begin.at // it goes on after a cut: its start was in an earlier segment
}

// scopeHalves are the halves that wait, by key. Those of one key are linked, since a slice for each key would be one allocation for each
// scope.
type scopeHalves struct {
	begins, ends map[scopeKey]int32 // first of the key in all
	all          []scopeHalf
	free         []int32
	count        int
}

const (
	// maxOpenScopes bounds the open scopes; a begin beyond it is a reject scope_overflow.
	maxOpenScopes = 8192
	// maxSameKey bounds how many of them share a key, since those are searched one by one; a begin beyond it is the same reject.
	maxSameKey = 256
)

// match returns the slot of the waiting half that h belongs to, -1 if there is none.
func (w *scopeHalves) match(h *scopeHalf) int32 {
	best := int32(-1)
	if h.begin {
		for i := first(w.ends, h.key); i >= 0; i = w.all[i].next {
			if e := &w.all[i]; compatible(h, e) {
				if exactly(h, e) {
					return i
				}
				if best < 0 || e.at < w.all[best].at {
					best = i
				}
			}
		}
		return best
	}
	for i := first(w.begins, h.key); i >= 0; i = w.all[i].next {
		if b := &w.all[i]; compatible(b, h) {
			if exactly(b, h) {
				return i
			}
			if best < 0 || b.at > w.all[best].at {
				best = i
			}
		}
	}
	return best
}

func first(m map[scopeKey]int32, key scopeKey) int32 {
	if i, ok := m[key]; ok {
		return i
	}
	return -1
}

func (w *scopeHalves) side(begin bool) map[scopeKey]int32 {
	m := &w.ends
	if begin {
		m = &w.begins
	}
	if *m == nil {
		*m = map[scopeKey]int32{}
	}
	return *m
}

// room reports whether one more half of this kind may wait, of most in all.
func (w *scopeHalves) room(h *scopeHalf, most int) bool {
	if w.count >= most {
		return false
	}
	n := 0
	m := w.side(h.begin)
	for i := first(m, h.key); i >= 0; i = w.all[i].next {
		n++
	}
	return n < maxSameKey
}

// add lets h wait and returns its slot.
func (w *scopeHalves) add(h scopeHalf) int32 {
	m := w.side(h.begin)
	h.next, h.live = first(m, h.key), true
	var i int32
	if n := len(w.free); n > 0 {
		i, w.free = w.free[n-1], w.free[:n-1]
		w.all[i] = h
	} else {
		i = int32(len(w.all))
		w.all = append(w.all, h)
	}
	m[h.key] = i
	w.count++
	return i
}

// take removes and returns the half in slot i.
func (w *scopeHalves) take(i int32) scopeHalf {
	h := w.all[i]
	m := w.side(h.begin)
	if j := m[h.key]; j != i {
		for w.all[j].next != i {
			j = w.all[j].next
		}
		w.all[j].next = h.next
	} else if h.next >= 0 {
		m[h.key] = h.next
	} else {
		delete(m, h.key)
	}
	w.all[i].live = false
	w.free = append(w.free, i)
	if w.count--; w.count == 0 {
		w.all, w.free = w.all[:0], w.free[:0]
	}
	return h
}

// sorted returns what waits, begins first.
func (w *scopeHalves) sorted() []scopeHalf {
	out := make([]scopeHalf, 0, w.count)
	for i := range w.all {
		if w.all[i].live {
			out = append(out, w.all[i])
		}
	}
	slices.SortFunc(out, func(a, b scopeHalf) int {
		if a.begin != b.begin {
			return int(rows.Flag(b.begin)) - int(rows.Flag(a.begin))
		}
		return cmp.Or(cmp.Compare(a.key.instance, b.key.instance), cmp.Compare(a.key.name, b.key.name), cmp.Compare(a.at, b.at))
	})
	return out
}

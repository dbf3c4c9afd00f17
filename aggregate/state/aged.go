package state

import "slices"

// Aged remembers the hashes it was given for a time, by the clock of what they belong to. It decides "seen already" for parts of sessions
// that never end, whose resends come soon. It keeps 64 bits of each: with the 240 parts of a usual session the odds of a false "seen" are
// 2^-56 a part. The zero value remembers nothing for longer than a minute; set Keep first. It is not safe for concurrent use, not even Has.
type Aged struct {
	Keep  int64               // minutes
	set   map[uint64]struct{} // of order, nil while they are few
	order []uint64            // oldest first, from head
	head  int
	marks []agedMark // of order from head on
	fresh int        // how many of the newest are not in a published state change yet
}

// agedMark is how many hashes came in one minute, or a little later with an earlier stamp.
type agedMark struct {
	minute int64
	n      int
}

// maxAged bounds the hashes of a session: 54 a second for 20 minutes. Beyond it the oldest are forgotten before their time, and only
// JetStream's window knows what comes twice.
const maxAged = 1 << 16

// fewAged are looked through one by one, which takes less time than a part's other business and less room than a map.
const fewAged = 512

// Add reports whether h is new, and remembers it as of a time in nanoseconds.
func (a *Aged) Add(h uint64, at int64) bool {
	if a.Has(h) {
		return false
	}
	a.add(h, at/60e9)
	a.fresh++
	return true
}

func (a *Aged) add(h uint64, minute int64) {
	if n := len(a.marks); n > 0 && a.marks[n-1].minute >= minute {
		a.marks[n-1].n++ // of another gateway: it stays for a little longer
	} else {
		a.marks = append(a.marks, agedMark{minute, 1})
	}
	if a.set != nil {
		a.set[h] = struct{}{}
	}
	a.order = append(a.order, h)
	for a.tooOld() || len(a.order)-a.head > maxAged {
		a.drop()
	}
}

// tooOld reports whether the oldest hash came more than Keep minutes before the newest. The newest itself is never too old, whatever a
// damaged state says: the difference is taken without a sign, since minutes of a damaged state may lie further apart than an int64 holds.
func (a *Aged) tooOld() bool {
	oldest, newest := a.marks[0].minute, a.marks[len(a.marks)-1].minute
	return uint64(newest)-uint64(oldest) > uint64(max(a.Keep, 0))
}

// drop forgets the oldest hash.
func (a *Aged) drop() {
	delete(a.set, a.order[a.head])
	a.head++
	a.marks[0].n--
	if a.marks[0].n == 0 {
		a.marks = append(a.marks[:0], a.marks[1:]...)
	}
	if a.head > 2*fewHashes && a.head > len(a.order)/4 {
		a.order = append(a.order[:0], a.order[a.head:]...)
		a.head = 0
	}
}

// Has reports whether h is remembered.
func (a *Aged) Has(h uint64) bool {
	all := a.order[a.head:]
	if len(all) <= fewAged {
		a.set = nil // it would stay as large as it ever was
		return slices.Contains(all, h)
	}
	if a.set == nil {
		a.set = make(map[uint64]struct{}, len(all))
		for _, known := range all {
			a.set[known] = struct{}{}
		}
	}
	_, ok := a.set[h]
	return ok
}

// Rest frees what can be made again.
func (a *Aged) Rest() {
	a.set = nil
	if n := len(a.order) - a.head; a.head > 0 || cap(a.order) > n+n/4+4 { // it is called again and again
		a.order, a.head = slices.Clone(a.order[a.head:]), 0
		a.marks = slices.Clone(a.marks)
	}
}

// Append writes all hashes, or those that are not published yet.
func (a *Aged) Append(w *Writer, full bool) {
	w.I64(a.Keep)
	left := min(a.fresh, len(a.order)-a.head)
	if full {
		left = len(a.order) - a.head
	}
	first := len(a.marks)
	for n := 0; n < left; n += a.marks[first].n {
		first--
	}
	w.N(len(a.marks) - first)
	for i, at := first, len(a.order)-left; i < len(a.marks); i++ {
		n := 0
		for _, later := range a.marks[i+1:] {
			n += later.n
		}
		to := len(a.order) - n
		w.I64(a.marks[i].minute)
		w.N(to - at)
		for _, h := range a.order[at:to] {
			w.U64Fixed(h)
		}
		at = to
	}
}

// Read adds what Append wrote.
func (a *Aged) Read(r *Reader) {
	a.Keep = r.I64()
	for range r.N(2) {
		minute := r.I64()
		for range r.N(8) {
			if h := r.Fixed64(); !a.Has(h) {
				a.add(h, minute)
			}
		}
	}
	a.fresh = 0
}

// Size is about how many bytes Append writes.
func (a *Aged) Size(full bool) int {
	if full {
		return 8*(len(a.order)-a.head) + 8*len(a.marks)
	}
	return 8*a.fresh + 16
}

// Published says that all is in a published state change.
func (a *Aged) Published() { a.fresh = 0 }

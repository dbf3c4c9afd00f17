package aggregate

import "github.com/zeebo/xxh3"

// recent remembers the newest limit hashes it was given. It decides "seen already" for parts and lines; 128 bits make a false
// "seen" (which would lose a line) a matter of 2^-90 for a session of a million lines.
type recent struct {
	limit int
	set   map[xxh3.Uint128]struct{}
	order []xxh3.Uint128 // oldest first, from head
	head  int
	fresh int // how many of the newest are not in a published state change yet
}

// add reports whether h is new, and remembers it.
func (r *recent) add(h xxh3.Uint128) bool {
	if _, ok := r.set[h]; ok {
		return false
	}
	if r.set == nil {
		r.set = make(map[xxh3.Uint128]struct{})
	}
	r.set[h] = struct{}{}
	r.order = append(r.order, h)
	r.fresh++
	if len(r.order)-r.head > r.limit {
		delete(r.set, r.order[r.head])
		r.head++
		if r.head > r.limit {
			r.order = append(r.order[:0], r.order[r.head:]...)
			r.head = 0
		}
	}
	return true
}

// has reports whether h is remembered.
func (r *recent) has(h xxh3.Uint128) bool {
	_, ok := r.set[h]
	return ok
}

// all returns every remembered hash, oldest first; the slice is valid until the next add.
func (r *recent) all() []xxh3.Uint128 { return r.order[r.head:] }

// changed returns the hashes added since the last published change, as far as they are still remembered.
func (r *recent) changed() []xxh3.Uint128 {
	return r.order[max(r.head, len(r.order)-r.fresh):]
}

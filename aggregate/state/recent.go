package state

import (
	"encoding/binary"
	"slices"

	"github.com/zeebo/xxh3"
)

// Recent remembers the newest limit hashes it was given. It decides "seen already" for parts and lines; 128 bits make the odds of a false
// "seen" (which would lose a line) 2^-90 for a session of a million lines. It is not safe for concurrent use, not even Has.
type Recent struct {
	Limit int
	short bool                      // 64 bits of each are kept, see Shorten
	set   map[xxh3.Uint128]struct{} // of order, nil while it has not been needed since Shorten or they are few
	order []xxh3.Uint128            // oldest first, from head
	head  int
	fresh int // how many of the newest are not in a published state change yet
}

// fewHashes are looked through one by one.
const fewHashes = 16

// Add reports whether h is new, and remembers it.
func (r *Recent) Add(h xxh3.Uint128) bool {
	if r.Has(h) {
		return false
	}
	if r.short {
		h.Hi = 0
	}
	if r.set != nil {
		r.set[h] = struct{}{}
	}
	r.order = append(r.order, h)
	r.fresh++
	if len(r.order)-r.head > r.Limit {
		delete(r.set, r.order[r.head])
		r.head++
		if r.head > r.Limit {
			r.order = append(r.order[:0], r.order[r.head:]...)
			r.head = 0
		}
	}
	return true
}

// Has reports whether h is remembered.
func (r *Recent) Has(h xxh3.Uint128) bool {
	if r.short {
		h.Hi = 0
	}
	if r.set == nil {
		if len(r.all()) <= fewHashes {
			return slices.Contains(r.all(), h)
		}
		r.set = make(map[xxh3.Uint128]struct{}, len(r.all()))
		for _, known := range r.all() {
			r.set[known] = struct{}{}
		}
	}
	_, ok := r.set[h]
	return ok
}

// Shorten frees what can be made again, and keeps half of each hash from now on. It is for sessions that fell silent, which are many: what
// they still send is mostly what they have sent before, and 64 bits make the odds of a false "seen" among 65 536 lines 10^-10.
func (r *Recent) Shorten() {
	r.set = nil
	if r.short {
		return
	}
	r.short = true
	r.order, r.head = slices.Clone(r.all()), 0
	for i := range r.order {
		r.order[i].Hi = 0
	}
	r.fresh = min(r.fresh, len(r.order))
}

// Append writes all hashes, or those that are not published yet.
func (r *Recent) Append(w *Writer, full bool) {
	hs := r.changed()
	if full {
		hs = r.all()
	}
	w.Bool(r.short)
	w.N(len(hs))
	for _, h := range hs {
		if r.short {
			w.Body = binary.LittleEndian.AppendUint64(w.Body, h.Lo)
		} else {
			w.Hash(h)
		}
	}
}

// Read adds what Append wrote.
func (r *Recent) Read(from *Reader) {
	size := 16
	if from.Has(hasShort) && from.Bool() {
		r.Shorten()
		size = 8
	}
	for range from.N(size) {
		if size == 8 {
			r.Add(xxh3.Uint128{Lo: from.Fixed64()})
		} else {
			r.Add(from.Hash())
		}
	}
	r.fresh = 0
}

// all returns every remembered hash, oldest first; the slice is valid until the next add.
func (r *Recent) all() []xxh3.Uint128 { return r.order[r.head:] }

// changed returns the hashes added since the last published change, as far as they are still remembered.
func (r *Recent) changed() []xxh3.Uint128 {
	return r.order[max(r.head, len(r.order)-r.fresh):]
}

// Size is about how many bytes Append writes.
func (r *Recent) Size(full bool) int {
	n := r.fresh
	if full {
		n = len(r.all())
	}
	if r.short {
		return 8 * n
	}
	return 16 * n
}

// Published says that all is in a published state change.
func (r *Recent) Published() { r.fresh = 0 }

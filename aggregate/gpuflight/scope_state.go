package gpuflight

import (
	"github.com/warpline/warpline/aggregate/state"
)

// stateSize estimates the state change in bytes, before compression.
func (o *openScopes) stateSize() int {
	n := 24 * int(o.kept.tail()-max(o.kept.written, o.kept.head))
	if o.dirty {
		n += 40 * o.halves.count
	}
	return n
}

// size estimates what the ended scopes take in a snapshot.
func (k *keptScopes) size() int { return 24 * int(k.tail()-k.head) }

// published forgets what was new.
func (o *openScopes) published() {
	o.dirty = false
	o.kept.written = o.kept.tail()
}

// append writes the waiting halves, all of them when they changed, and of the ended scopes the new ones and the places of the rest.
func (o *openScopes) append(w *state.Writer, full bool) {
	w.Bool(full || o.dirty)
	if full || o.dirty {
		w.N(o.halves.count)
		for i := range o.halves.all {
			if h := &o.halves.all[i]; h.live {
				h.append(w)
			}
		}
	}
	k := &o.kept
	from := max(k.written, k.head)
	if full {
		from = k.head
	}
	w.U64(k.head)
	w.U64(k.counted)
	w.U64(from)
	w.N(int(k.tail() - from))
	last := int64(0)
	for ; from < k.tail(); from++ {
		e := k.at(from)
		w.I64(e.begin - last)
		last = e.begin
		w.U64(uint64(e.end - e.begin))
		w.U64(e.key.instance)
		w.U64(uint64(e.key.name))
		w.U64(uint64(e.depth))
	}
}

// read applies what append wrote.
func (o *openScopes) read(r *state.Reader) {
	if r.Bool() {
		o.reset()
		for range r.N(9) {
			if h := readScopeHalf(r); r.Err == nil {
				o.wait(h)
			}
		}
		o.dirty = false
	}
	k := &o.kept
	head, counted, from := r.U64(), r.U64(), r.U64()
	n := r.N(5)
	if r.Dry { // in a dry run what it builds on is not there
		k.base, k.head, head, counted = from, from, from, from
	}
	switch {
	case r.Err != nil:
		return
	case n > maxKept || head < k.head || from < k.tail() || from > k.tail() && head < from || counted < head || counted > from+uint64(n):
		r.Fail()
		return
	}
	for k.head < min(head, k.tail()) {
		o.drop()
	}
	if from > k.tail() { // those between came and went
		k.base, k.head, k.queue = from, from, k.queue[:0]
	}
	last := int64(0)
	for range n {
		e := keptScope{begin: last + r.I64()}
		last = e.begin
		e.end, e.key, e.depth = e.begin+int64(r.U64()), scopeKey{r.U64(), r.U32()}, r.U32()
		if e.depth >= maxPathDepth || e.end < e.begin {
			r.Fail()
		}
		if r.Err != nil {
			return
		}
		o.keep(e)
	}
	for k.head < min(head, k.tail()) {
		o.drop()
	}
	k.counted, k.written = max(counted, k.head), k.tail()
}

// reset forgets the waiting halves.
func (o *openScopes) reset() {
	o.halves = scopeHalves{}
	for i := range o.levels {
		o.levels[i].open = nil
	}
}

func (h *scopeHalf) append(w *state.Writer) {
	w.Bool(h.begin)
	w.Bool(h.continued)
	w.U64(h.key.instance)
	w.U64(uint64(h.key.name))
	w.I64(h.at)
	w.I64(h.origin - h.at)
	w.U64(uint64(h.depth))
	w.U64(uint64(h.repeat))
	w.U64(uint64(h.warmup))
	w.U64(h.childNS)
}

func readScopeHalf(r *state.Reader) scopeHalf {
	h := scopeHalf{begin: r.Bool(), continued: r.Bool(), key: scopeKey{r.U64(), r.U32()}, at: r.I64()}
	h.origin = h.at + r.I64()
	h.depth, h.repeat, h.warmup, h.childNS = r.U32(), r.U32(), r.U32(), r.U64()
	return h
}

// readVersion2 reads the open scopes of a state of version 2. It had paths instead of parents, and not the begin that an end names.
func (o *openScopes) readVersion2(r *state.Reader) {
	o.reset()
	for _, begin := range []bool{true, false} {
		for range r.N(3) {
			key := scopeKey{r.U64(), r.U32()}
			for range r.N(5) {
				h := scopeHalf{key: key, begin: begin, at: r.I64(), depth: r.U32(), repeat: r.U32(), warmup: r.U32()}
				r.Str() // path
				if r.Err != nil {
					return
				}
				o.wait(h)
			}
		}
	}
	for range r.N(2) { // the latest begin at each depth
		r.U64()
		r.U32()
	}
	o.dirty = false
}

// resumeScopes goes on after a takeover: the waiting times of what waits start from now.
func (f *folding) resumeScopes(s *session, now int64) {
	o := &s.scopes
	for place := o.kept.head; now != 0 && place < o.kept.tail(); place++ {
		o.kept.at(place).heldAt = now
	}
	if o.kept.head < o.kept.tail() {
		o.listed = true
		f.scoped[s] = struct{}{}
	}
}

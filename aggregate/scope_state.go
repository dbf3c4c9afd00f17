package aggregate

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

// append writes the waiting halves, whole when they changed, and of the ended scopes those that are new and the places of the rest.
func (o *openScopes) append(w *writer, full bool) {
	w.bool(full || o.dirty)
	if full || o.dirty {
		w.n(o.halves.count)
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
	w.u64(k.head)
	w.u64(k.counted)
	w.u64(from)
	w.n(int(k.tail() - from))
	last := int64(0)
	for ; from < k.tail(); from++ {
		e := k.at(from)
		w.i64(e.begin - last)
		last = e.begin
		w.u64(uint64(e.end - e.begin))
		w.u64(e.key.instance)
		w.u64(uint64(e.key.name))
		w.u64(uint64(e.depth))
	}
}

// read applies what append wrote.
func (o *openScopes) read(r *reader) {
	if r.bool() {
		o.reset()
		for range r.n(9) {
			if h := readScopeHalf(r); r.err == nil {
				o.wait(h)
			}
		}
		o.dirty = false
	}
	k := &o.kept
	head, counted, from := r.u64(), r.u64(), r.u64()
	n := r.n(5)
	if r.dry { // what it builds on is not there
		k.base, k.head, head, counted = from, from, from, from
	}
	switch {
	case r.err != nil:
		return
	case n > maxKept || head < k.head || from < k.tail() || from > k.tail() && head < from || counted < head || counted > from+uint64(n):
		r.fail()
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
		e := keptScope{begin: last + r.i64()}
		last = e.begin
		e.end, e.key, e.depth = e.begin+int64(r.u64()), scopeKey{r.u64(), r.u32()}, r.u32()
		if e.depth >= maxPathDepth || e.end < e.begin {
			r.fail()
		}
		if r.err != nil {
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

func (h *scopeHalf) append(w *writer) {
	w.bool(h.begin)
	w.bool(h.continued)
	w.u64(h.key.instance)
	w.u64(uint64(h.key.name))
	w.i64(h.at)
	w.i64(h.origin - h.at)
	w.u64(uint64(h.depth))
	w.u64(uint64(h.repeat))
	w.u64(uint64(h.warmup))
	w.u64(h.childNS)
}

func readScopeHalf(r *reader) scopeHalf {
	h := scopeHalf{begin: r.bool(), continued: r.bool(), key: scopeKey{r.u64(), r.u32()}, at: r.i64()}
	h.origin = h.at + r.i64()
	h.depth, h.repeat, h.warmup, h.childNS = r.u32(), r.u32(), r.u32(), r.u64()
	return h
}

// readVersion2 reads the open scopes of a state of version 2, which had paths instead of parents, and did not know what ends say of
// their begins.
func (o *openScopes) readVersion2(r *reader) {
	o.reset()
	for _, begin := range []bool{true, false} {
		for range r.n(3) {
			key := scopeKey{r.u64(), r.u32()}
			for range r.n(5) {
				h := scopeHalf{key: key, begin: begin, at: r.i64(), depth: r.u32(), repeat: r.u32(), warmup: r.u32()}
				r.str() // path
				if r.err != nil {
					return
				}
				o.wait(h)
			}
		}
	}
	for range r.n(2) { // the latest begin at each depth
		r.u64()
		r.u32()
	}
	o.dirty = false
}

// resumeScopes goes on after a takeover: what waits waits on from now.
func (f *flight) resumeScopes(s *flightSession, now int64) {
	o := &s.scopes
	for place := o.kept.head; place < o.kept.tail(); place++ {
		o.kept.at(place).heldAt = now
	}
	if o.kept.head < o.kept.tail() {
		o.listed = true
		f.scoped[s] = struct{}{}
	}
}

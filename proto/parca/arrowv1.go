package parca

// maxAskedIDs bounds how many stacks one record of schema v1 may name.
const maxAskedIDs = 1 << 20

// DecodeArrowV1 reads a record of samples of schema v1, and its locations: one or more IPC streams, one behind the other. A sample whose
// stack is in none of them has none. What is wrong gives an *[Error].
func (b *Batch) DecodeArrowV1(samples, locations []byte) error {
	b.reset(len(samples) + len(locations))
	return b.fail(b.decodeArrowV1(samples, locations))
}

func (b *Batch) decodeArrowV1(samples, locations []byte) error {
	for len(locations) > 0 {
		s, err := openStream(&b.m, locations)
		if err != nil {
			return err
		}
		for {
			cols, n, ok, err := s.record()
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			if err := b.addStacks(cols, n); err != nil {
				return err
			}
		}
		if len(s.rest) >= len(locations) {
			return corrupt("the locations are torn")
		}
		locations = s.rest
	}
	s, err := openStream(&b.m, samples)
	if err != nil {
		return err
	}
	if !isV1(s) {
		return &Error{Code: CodeSchema, Detail: "a record of schema v2 has no locations of its own"}
	}
	return b.decodeSamples(s, true)
}

// column returns the column of a record by its name, nil if it is absent.
func column(cols []array, name string) *array {
	for i := range cols {
		if string(cols[i].f.name) == name {
			return &cols[i]
		}
	}
	return nil
}

// addStacks adds the stacks of a record of locations. Of two with one id the first counts.
func (b *Batch) addStacks(cols []array, n int) error {
	ids, list := column(cols, "stacktrace_id"), column(cols, "locations")
	if ids == nil || !list.isList() || list.kids[0].f.hasDict || list.kids[0].f.kind != typeStruct {
		return &Error{Code: CodeSchema, Detail: "locations must have columns stacktrace_id and locations"}
	}
	r, err := asRuns(ids, n)
	if err != nil {
		return err
	}
	c, err := b.openLocations(&list.kids[0])
	if err != nil {
		return err
	}
	for i := range n {
		for i >= r.end {
			r.next()
		}
		id, ok, err := stackIDAt(r.values, r.run)
		if err != nil {
			return err
		}
		from, count, inside := list.list(i)
		if !inside {
			return corrupt("a stack lies outside of its column")
		}
		if _, twice := b.idN[id]; !ok || twice {
			continue
		}
		count = min(count, maxFrames)
		if b.locs, err = grown(&b.m, b.locs, count, 72); err != nil {
			return err
		}
		if b.held2, err = grown(&b.m, b.held2, count, 4); err != nil {
			return err
		}
		if b.stacks, err = grown(&b.m, b.stacks, 1, 40+64); err != nil {
			return err
		}
		st := stack{from: uint32(len(b.held2)), id: id, hasID: true}
		for k := from; k < from+count; k++ {
			l, err := b.readLocation(&c, k)
			if err != nil {
				return err
			}
			b.held2 = append(b.held2, uint32(len(b.locs)))
			b.locs = append(b.locs, l)
		}
		st.to = uint32(len(b.held2))
		b.idN[id] = uint32(len(b.stacks))
		b.stacks = append(b.stacks, st)
	}
	return nil
}

// stackIDAt is the id at i of a column of ids; ok is false where there is none.
func stackIDAt(a *array, i int) (id [16]byte, ok bool, err error) {
	if a.null(i) {
		return id, false, nil
	}
	if a.f.hasDict {
		if i, ok = a.index(i); !ok {
			return id, false, corrupt("a dictionary's index lies outside of it")
		}
		a = &a.dict.values
		if a.null(i) {
			return id, false, nil
		}
	}
	if a.f.hasDict || !a.isText() {
		return id, false, &Error{Code: CodeSchema, Detail: "ids of stacks have another type"}
	}
	s, inside := a.text(i)
	if !inside || len(s) != 16 {
		return id, false, corrupt("an id of a stack has not 16 bytes")
	}
	return [16]byte(s), true, nil
}

func (b *Batch) openStackIDs(c *columns, s *stackColumn) (err error) {
	s.ids, err = asRuns(c.id, c.n)
	return err
}

// atID is the stack of row i by its id.
func (s *stackColumn) atID(b *Batch, i int) (uint32, error) {
	if s.row >= 0 && i < s.ids.end {
		return s.now, nil
	}
	for i >= s.ids.end {
		s.ids.next()
	}
	s.row = i
	id, ok, err := stackIDAt(s.ids.values, s.ids.run)
	if err != nil || !ok {
		s.now = 0
		return 0, err
	}
	at, known := b.idN[id]
	if !known { // it was sent before, or never
		if b.stacks, err = grown(&b.m, b.stacks, 1, 40+64); err != nil {
			return 0, err
		}
		at = uint32(len(b.stacks))
		b.stacks = append(b.stacks, stack{id: id, hasID: true, missing: true})
		b.idN[id] = at
	}
	s.now = at
	return at, nil
}

package parca

import "encoding/hex"

// stackColumn gives the stack of each row.
type stackColumn struct {
	// v2: a list of indexes of locations.
	list    *array
	base    uint32 // of Batch.locs
	lastKey uint64
	lastN   uint32
	// v1: ids.
	ids  runs
	byID []uint32 // of the ids' dictionary
	now  uint32
	row  int
}

func (b *Batch) openStacks(c *columns) (s stackColumn, err error) {
	s.row, s.lastKey = -1, ^uint64(0)
	if c.v1 {
		return s, b.openStackIDs(c, &s)
	}
	l := c.stack
	if !l.isList() || !l.kids[0].f.hasDict {
		return s, &Error{Code: CodeSchema, Detail: "stacktrace is no list of a dictionary of locations"}
	}
	s.list = l
	if s.base, err = b.locations(l.kids[0].dict); err != nil {
		return s, err
	}
	if c.id != nil && !c.id.f.hasDict && c.id.f.kind == typeFixed && c.id.f.width == 16 && c.id.nulls == nil {
		b.ids = append(b.ids, idsOf{len(b.rows), c.id.a[:16*c.n]})
	}
	clear(b.stackN) // keys are places in this record's lists
	return s, nil
}

func (s *stackColumn) at(b *Batch, i int) (uint32, error) {
	if s.list == nil {
		return s.atID(b, i)
	}
	from, n, ok := s.list.list(i)
	if !ok {
		return 0, corrupt("a stack lies outside of its column")
	}
	if n == 0 {
		return 0, nil
	}
	n = min(n, maxFrames)
	key := uint64(from)<<11 | uint64(n)
	if key == s.lastKey {
		return s.lastN, nil
	}
	at, ok := b.stackN[key]
	if !ok {
		var err error
		if at, err = b.addStack(&s.list.kids[0], from, n, s.base); err != nil {
			return 0, err
		}
		if err := b.m.take(32); err != nil {
			return 0, err
		}
		b.stackN[key] = at
	}
	s.lastKey, s.lastN = key, at
	return at, nil
}

// addStack adds the stack of n indexes of locations.
func (b *Batch) addStack(a *array, from, n int, base uint32) (uint32, error) {
	var err error
	if b.held2, err = grown(&b.m, b.held2, n, 4); err != nil {
		return 0, err
	}
	if b.stacks, err = grown(&b.m, b.stacks, 1, 40); err != nil {
		return 0, err
	}
	st := stack{from: uint32(len(b.held2))}
	for i := from; i < from+n; i++ {
		if a.null(i) {
			continue
		}
		at, ok := a.index(i)
		if !ok {
			return 0, corrupt("a stack names location %d of %d", at, a.dict.values.n)
		}
		b.held2 = append(b.held2, base+uint32(at))
	}
	st.to = uint32(len(b.held2))
	b.stacks = append(b.stacks, st)
	return uint32(len(b.stacks) - 1), nil
}

// locations adds the locations of a dictionary, once, and returns the number of the first.
func (b *Batch) locations(d *dictionary) (uint32, error) {
	if d.known {
		return d.locs, nil
	}
	v := &d.values
	if v.n > 0 && (v.f.hasDict || v.f.kind != typeStruct) {
		return 0, &Error{Code: CodeSchema, Detail: "locations are no structs"}
	}
	base := uint32(len(b.locs))
	if err := b.addLocations(v, 0, v.n); err != nil {
		return 0, err
	}
	d.locs, d.known = base, true
	return base, nil
}

// locationColumns is the columns of locations.
type locationColumns struct {
	address                *array
	kind, mapping, build   textColumn
	lines                  *array
	line, column           *array
	name, system, filename textColumn
	function               *array // v2: a dictionary of functions
}

// textColumn gives the texts of a column at any row; nil columns give "".
type textColumn struct {
	r runs
	t textRuns
	b *Batch
}

func (b *Batch) textColumn(a *array, rows int) (c textColumn, err error) {
	if a == nil {
		return c, nil
	}
	c.b = b
	if c.r, err = asRuns(a, rows); err != nil {
		return c, err
	}
	c.t, err = b.textRuns(&c.r)
	return c, err
}

// at reads row i. Rows should be asked for in rising order: another order costs a search.
func (c *textColumn) at(i int) (id uint32, null bool, err error) {
	if c.b == nil {
		return 0, true, nil
	}
	if c.r.ends != nil {
		if i >= c.r.end && c.r.run+1 < c.r.n {
			c.r.next()
		}
		from := 0
		if c.r.run > 0 {
			from = int(c.r.ends.int(c.r.run - 1))
		}
		if i < from || i >= c.r.end {
			c.r.seek(i)
		}
		i = c.r.run
	}
	id, null, err = c.t.at(c.b, i)
	if null {
		id = 0
	}
	return id, null, err
}

// seek finds the run of a row.
func (r *runs) seek(row int) {
	lo, hi := 0, r.n-1
	for lo < hi {
		if mid := (lo + hi) / 2; int64(row) < r.ends.int(mid) {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	r.run, r.end = lo, int(r.ends.int(lo))
}

func (b *Batch) openLocations(v *array) (c locationColumns, err error) {
	if c.address = v.child("address"); !c.address.isInt() {
		return c, &Error{Code: CodeSchema, Detail: "locations have no address"}
	}
	if c.kind, err = b.textColumn(v.child("frame_type"), v.n); err != nil {
		return c, err
	}
	if c.mapping, err = b.textColumn(v.child("mapping_file"), v.n); err != nil {
		return c, err
	}
	if c.build, err = b.textColumn(v.child("mapping_build_id"), v.n); err != nil {
		return c, err
	}
	if c.lines = v.child("lines"); c.lines == nil {
		return c, nil
	}
	if !c.lines.isList() || c.lines.kids[0].f.hasDict || c.lines.kids[0].f.kind != typeStruct {
		return c, &Error{Code: CodeSchema, Detail: "lines of a location are no list of structs"}
	}
	k := &c.lines.kids[0]
	c.line, c.column = numbers(k.child("line")), numbers(k.child("column"))
	if c.function = k.child("function"); c.function != nil {
		if !c.function.f.hasDict {
			return c, &Error{Code: CodeSchema, Detail: "functions are no dictionary"}
		}
		f := &c.function.dict.values
		if c.system, err = b.textColumn(f.child("system_name"), f.n); err != nil {
			return c, err
		}
		c.filename, err = b.textColumn(f.child("filename"), f.n)
		return c, err
	}
	if c.name, err = b.textColumn(k.child("function_name"), k.n); err != nil {
		return c, err
	}
	if c.system, err = b.textColumn(k.child("function_system_name"), k.n); err != nil {
		return c, err
	}
	c.filename, err = b.textColumn(k.child("function_filename"), k.n)
	return c, err
}

func numbers(a *array) *array {
	if !a.isInt() {
		return nil
	}
	return a
}

// addLocations adds locations [from, from+n) of a column of structs.
func (b *Batch) addLocations(v *array, from, n int) error {
	if n == 0 {
		return nil
	}
	c, err := b.openLocations(v)
	if err != nil {
		return err
	}
	if b.locs, err = grown(&b.m, b.locs, n, 72); err != nil {
		return err
	}
	for i := from; i < from+n; i++ {
		l, err := b.readLocation(&c, i)
		if err != nil {
			return err
		}
		b.locs = append(b.locs, l)
	}
	return nil
}

func (b *Batch) readLocation(c *locationColumns, i int) (l location, err error) {
	l.address = uint64(c.address.int(i))
	if l.kind, _, err = c.kind.at(i); err != nil {
		return l, err
	}
	if l.mapping, _, err = c.mapping.at(i); err != nil {
		return l, err
	}
	if l.build, _, err = c.build.at(i); err != nil {
		return l, err
	}
	l.from = uint32(len(b.lines))
	l.to = l.from
	if c.lines == nil || c.lines.null(i) {
		return l, nil
	}
	from, n, ok := c.lines.list(i)
	if !ok {
		return l, corrupt("the lines of a location lie outside of their column")
	}
	n = min(n, maxFrames)
	if b.lines, err = grown(&b.m, b.lines, n, 24); err != nil {
		return l, err
	}
	for k := from; k < from+n; k++ {
		ln := line{line: uint64(c.line.int(k)), column: uint64(c.column.int(k))}
		at := k
		if c.function != nil {
			if at, ok = c.function.index(k); !ok {
				return l, corrupt("a line names function %d of %d", at, c.function.dict.values.n)
			}
			if c.function.null(k) {
				b.lines = append(b.lines, ln)
				continue
			}
		}
		var null bool
		if ln.function, null, err = c.name.at(at); err != nil {
			return l, err
		}
		if null || ln.function == 0 {
			if ln.function, _, err = c.system.at(at); err != nil {
				return l, err
			}
		}
		if ln.file, _, err = c.filename.at(at); err != nil {
			return l, err
		}
		b.lines = append(b.lines, ln)
	}
	l.to = uint32(len(b.lines))
	l.resolved = n > 0
	return l, nil
}

// stackID is the id of a row's stack as hex, "" where there is none.
func (b *Batch) stackID(i int) string {
	if s := &b.stacks[b.rows[i].stack]; s.hasID {
		return hex.EncodeToString(s.id[:])
	}
	for k := len(b.ids) - 1; k >= 0; k-- {
		if at := i - b.ids[k].from; at >= 0 {
			if 16*at+16 > len(b.ids[k].raw) {
				return ""
			}
			return hex.EncodeToString(b.ids[k].raw[16*at : 16*at+16])
		}
	}
	return ""
}

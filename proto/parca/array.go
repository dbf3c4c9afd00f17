package parca

import "encoding/binary"

// buffer takes the next buffer, which has at least want bytes.
func (s *ipcStream) buffer(want int) ([]byte, error) {
	if s.bufsN == 0 {
		return nil, corrupt("a record has too few buffers")
	}
	off, length := s.f.i64(s.bufs), s.f.i64(s.bufs+8)
	s.bufs += 16
	s.bufsN--
	if off < 0 || length < 0 || off > int64(len(s.body)) || length > int64(len(s.body))-off {
		return nil, corrupt("a buffer lies outside of its record")
	}
	if s.skip {
		return nil, nil
	}
	b := s.body[off : off+length]
	if s.packed && len(b) > 0 {
		if len(b) < 8 {
			return nil, corrupt("a compressed buffer is torn")
		}
		size := int64(binary.LittleEndian.Uint64(b))
		b = b[8:]
		if size != -1 {
			if size < 0 || size > budgetMost || size > 256*int64(len(b))+64 {
				return nil, corrupt("%d bytes say that they are %d compressed ones", len(b), size)
			}
			dst, err := s.m.bytes(int(size))
			if err != nil {
				return nil, err
			}
			if !unpackLZ4(dst, b) {
				return nil, corrupt("a buffer is no LZ4 frame of its length")
			}
			b = dst
		}
	}
	if len(b) < want {
		return nil, corrupt("a buffer has %d bytes, its column needs %d", len(b), want)
	}
	return b, nil
}

// array reads the next column.
func (s *ipcStream) array(f *field, depth int) (a array, err error) {
	if s.nodesN == 0 {
		return a, corrupt("a record has too few columns")
	}
	length, nulls := s.f.i64(s.nodes), s.f.i64(s.nodes+8)
	s.nodes += 16
	s.nodesN--
	if length < 0 || length > 1<<28 || nulls < 0 || nulls > length {
		return a, corrupt("a column of %d rows with %d nulls", length, nulls)
	}
	a.f, a.n = f, int(length)
	n := a.n
	if f.hasDict {
		if err = s.validity(&a, nulls); err != nil {
			return a, err
		}
		if a.dict = s.dicts[f.dict]; a.dict == nil {
			a.dict = &dictionary{values: array{f: &field{kind: typeNull}}}
		}
		a.a, err = s.buffer(n * f.indexWidth)
		return a, err
	}
	switch f.kind {
	case typeNull, typeRunEnd:
	case typeUnion:
	default:
		if err = s.validity(&a, nulls); err != nil {
			return a, err
		}
	}
	switch f.kind {
	case typeInt, typeTimestamp, typeDuration, typeFloat:
		a.a, err = s.buffer(n * f.width)
	case typeFixed:
		if f.width > 0 && n > budgetMost/f.width {
			return a, corrupt("a column is too large")
		}
		a.a, err = s.buffer(n * f.width)
	case typeBool:
		a.a, err = s.buffer((n + 7) / 8)
	case typeDate, typeTime, typeInterval, typeDecimal:
		a.a, err = s.buffer(0)
	case typeBinary, typeUtf8, typeLargeBin, typeLargeUtf8:
		if a.a, err = s.buffer(offsets(n, f.kind >= typeLargeBin)); err == nil {
			a.b, err = s.buffer(0)
		}
	case typeBinView, typeUtf8View:
		if a.a, err = s.buffer(16 * n); err != nil {
			return a, err
		}
		if s.varN == 0 {
			return a, corrupt("a view column does not say how many buffers it has")
		}
		count := s.f.i64(s.variadic)
		s.variadic += 8
		s.varN--
		if count < 0 || count > int64(s.bufsN) {
			return a, corrupt("a view column has %d buffers", count)
		}
		if err := s.m.take(int(count) * 24); err != nil {
			return a, err
		}
		a.vars = make([][]byte, count)
		for i := range a.vars {
			if a.vars[i], err = s.buffer(0); err != nil {
				return a, err
			}
		}
	case typeList, typeMap, typeLargeList:
		a.a, err = s.buffer(offsets(n, f.kind == typeLargeList))
	case typeListView, typeLargeView:
		w := 4
		if f.kind == typeLargeView {
			w = 8
		}
		if a.a, err = s.buffer(n * w); err == nil {
			a.b, err = s.buffer(n * w)
		}
	case typeUnion:
		if a.a, err = s.buffer(n); err == nil && f.dense {
			a.b, err = s.buffer(4 * n)
		}
	case typeNull, typeStruct, typeRunEnd, typeFixedList:
	default:
		return a, &Error{Code: CodeSchema, Detail: "an Arrow type is not known"}
	}
	if err != nil {
		return a, err
	}
	if len(f.kids) > 0 {
		if err := s.m.take(len(f.kids) * 224); err != nil {
			return a, err
		}
		a.kids = make([]array, len(f.kids))
	}
	for i := range a.kids {
		if a.kids[i], err = s.array(&f.kids[i], depth+1); err != nil {
			return a, err
		}
		if f.kind == typeStruct && a.kids[i].n < n {
			return a, corrupt("a column in a struct is shorter than it")
		}
	}
	return a, nil
}

func offsets(n int, large bool) int {
	switch {
	case n == 0:
		return 0
	case large:
		return 8 * (n + 1)
	}
	return 4 * (n + 1)
}

func (s *ipcStream) validity(a *array, nulls int64) error {
	want := (a.n + 7) / 8
	if nulls == 0 {
		want = 0
	}
	b, err := s.buffer(want)
	if err == nil && nulls > 0 {
		a.nulls = b
	}
	return err
}

// child returns the child of that name, nil if there is none.
func (a *array) child(name string) *array {
	for i := range a.kids {
		if string(a.f.kids[i].name) == name {
			return &a.kids[i]
		}
	}
	return nil
}

func (a *array) null(i int) bool { return a.nulls != nil && a.nulls[i>>3]>>(i&7)&1 == 0 }

// index is the dictionary's index at i; ok is false if it lies outside of the dictionary.
func (a *array) index(i int) (at int, ok bool) {
	var v uint64
	switch a.f.indexWidth {
	case 4:
		v = uint64(binary.LittleEndian.Uint32(a.a[4*i:]))
	case 1:
		v = uint64(a.a[i])
	case 2:
		v = uint64(binary.LittleEndian.Uint16(a.a[2*i:]))
	default:
		v = binary.LittleEndian.Uint64(a.a[8*i:])
	}
	return int(v), v < uint64(a.dict.values.n)
}

// int is the integer at i, 0 where the column is absent, null or of another type.
func (a *array) int(i int) int64 {
	if a == nil || a.null(i) {
		return 0
	}
	switch a.f.width {
	case 8:
		return int64(binary.LittleEndian.Uint64(a.a[8*i:]))
	case 4:
		return int64(int32(binary.LittleEndian.Uint32(a.a[4*i:])))
	case 2:
		return int64(int16(binary.LittleEndian.Uint16(a.a[2*i:])))
	case 1:
		return int64(int8(a.a[i]))
	}
	return 0
}

func (a *array) isInt() bool {
	if a == nil || a.f.hasDict {
		return false
	}
	switch a.f.kind {
	case typeInt:
		return a.f.width == 8 || a.f.width == 4 || a.f.width == 2 || a.f.width == 1
	case typeTimestamp:
		return a.f.unit == 3
	case typeDuration:
		return true
	}
	return false
}

func (a *array) isText() bool {
	switch a.f.kind {
	case typeBinary, typeUtf8, typeLargeBin, typeLargeUtf8, typeBinView, typeUtf8View, typeFixed, typeNull:
		return true
	}
	return false
}

// text is the bytes at i; ok is false if its offsets lie outside.
func (a *array) text(i int) (b []byte, ok bool) {
	if a.f.kind == typeNull || a.null(i) {
		return nil, true
	}
	var from, to uint64
	switch a.f.kind {
	case typeFixed:
		return a.a[i*a.f.width : (i+1)*a.f.width], true
	case typeBinary, typeUtf8:
		from, to = uint64(binary.LittleEndian.Uint32(a.a[4*i:])), uint64(binary.LittleEndian.Uint32(a.a[4*i+4:]))
	case typeLargeBin, typeLargeUtf8:
		from, to = binary.LittleEndian.Uint64(a.a[8*i:]), binary.LittleEndian.Uint64(a.a[8*i+8:])
	default:
		view := a.a[16*i : 16*i+16]
		n := binary.LittleEndian.Uint32(view)
		if n <= 12 {
			return view[4 : 4+n], true
		}
		buf := binary.LittleEndian.Uint32(view[8:])
		from = uint64(binary.LittleEndian.Uint32(view[12:]))
		if uint64(buf) >= uint64(len(a.vars)) || from+uint64(n) > uint64(len(a.vars[buf])) {
			return nil, false
		}
		return a.vars[buf][from : from+uint64(n)], true
	}
	if from > to || to > uint64(len(a.b)) {
		return nil, false
	}
	return a.b[from:to], true
}

// list is what the list at i holds of its child: from and how many.
func (a *array) list(i int) (from, n int, ok bool) {
	if a.null(i) {
		return 0, 0, true
	}
	var f, t uint64
	switch a.f.kind {
	case typeList, typeMap:
		f, t = uint64(binary.LittleEndian.Uint32(a.a[4*i:])), uint64(binary.LittleEndian.Uint32(a.a[4*i+4:]))
	case typeLargeList:
		f, t = binary.LittleEndian.Uint64(a.a[8*i:]), binary.LittleEndian.Uint64(a.a[8*i+8:])
	case typeListView:
		f, t = uint64(binary.LittleEndian.Uint32(a.a[4*i:])), uint64(binary.LittleEndian.Uint32(a.b[4*i:]))
		t += f
	default:
		f, t = binary.LittleEndian.Uint64(a.a[8*i:]), binary.LittleEndian.Uint64(a.b[8*i:])
		if t > 1<<40 || f > 1<<40 {
			return 0, 0, false
		}
		t += f
	}
	if f > t || t > uint64(a.kids[0].n) {
		return 0, 0, false
	}
	return int(f), int(t - f), true
}

func (a *array) isList() bool {
	if a == nil || a.f.hasDict || len(a.kids) != 1 {
		return false
	}
	switch a.f.kind {
	case typeList, typeMap, typeLargeList, typeListView, typeLargeView:
		return true
	}
	return false
}

// runs is a column as runs of equal values, whether it is run-end encoded or not.
type runs struct {
	values *array
	ends   *array // nil: every row is a run
	n      int    // runs
	rows   int
	run    int // the current one
	end    int // row behind it
}

// asRuns checks run ends: they rise and reach the last row.
func asRuns(a *array, rows int) (r runs, err error) {
	r.rows = rows
	if a.f.hasDict || a.f.kind != typeRunEnd {
		r.values, r.n, r.end = a, rows, min(1, rows)
		return r, nil
	}
	if len(a.kids) != 2 || !a.kids[0].isInt() || a.kids[0].f.kind != typeInt || a.kids[0].nulls != nil {
		return r, corrupt("run ends of %.64q are no integers", a.f.name)
	}
	r.ends, r.values, r.n = &a.kids[0], &a.kids[1], a.kids[0].n
	if r.values.n < r.n {
		return r, corrupt("%.64q has fewer values than runs", a.f.name)
	}
	last := int64(0)
	for i := range r.n {
		end := r.ends.int(i)
		if end <= last {
			return r, corrupt("run ends of %.64q do not rise", a.f.name)
		}
		last = end
	}
	if last != int64(rows) {
		return r, corrupt("run ends of %.64q end at %d, the record has %d rows", a.f.name, last, rows)
	}
	if r.n > 0 {
		r.end = int(r.ends.int(0))
	}
	return r, nil
}

// next moves to the next run.
func (r *runs) next() {
	r.run++
	switch {
	case r.run >= r.n:
		r.run, r.end = max(r.n-1, 0), r.rows+1
	case r.ends == nil:
		r.end = r.run + 1
	default:
		r.end = int(r.ends.int(r.run))
	}
}

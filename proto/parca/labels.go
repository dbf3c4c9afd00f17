package parca

import "slices"

// set is the labels of a row, and what they say.
type set struct {
	from, to uint32 // Batch.held
	proc     uint32 // Batch.procs
	// Of GPU rows.
	reason, sass, view uint32 // texts
	stream, graph      uint64
	corr               uint32
	device             int32
	bad                bool // a label that should be a number is none
}

// labelWork finds the sets of consecutive rows with work for each change only, however many columns there are.
type labelWork struct {
	now   []uint32 // per column: its pair, absent
	where []uint32 // per column: its place among those present
	here  []uint32 // columns that are present
	sum   sum
	last  uint32 // set
	fresh bool   // last is the set of sum
	order []pairName
}

type pairName struct {
	name string
	pair uint32
}

const absent = ^uint32(0)

func (w *labelWork) begin(m *uploadMemory, columns int) error {
	if cap(w.now) < columns {
		if err := m.take(12 * columns); err != nil {
			return err
		}
		w.now = make([]uint32, columns)
		w.where = make([]uint32, columns)
	}
	w.now, w.where, w.here = w.now[:columns], w.where[:columns], w.here[:0]
	for i := range w.now {
		w.now[i] = absent
	}
	w.sum, w.fresh = sum{}, false
	return nil
}

// change says that from here on a column has another pair, or is absent.
func (w *labelWork) change(column int, to uint32) {
	was := w.now[column]
	if was == to {
		return
	}
	w.fresh = false
	w.now[column] = to
	if was != absent {
		a, b := mix(was)
		w.sum.a -= a
		w.sum.b -= b
	}
	if to != absent {
		a, b := mix(to)
		w.sum.a += a
		w.sum.b += b
	}
	switch {
	case was == absent:
		w.where[column] = uint32(len(w.here))
		w.here = append(w.here, uint32(column))
	case to == absent:
		at, end := w.where[column], w.here[len(w.here)-1]
		w.here[at], w.where[end] = end, at
		w.here = w.here[:len(w.here)-1]
	}
}

// mix spreads a number over 128 bits: sums of such are equal for equal sets.
func mix(n uint32) (a, b uint64) {
	x := uint64(n) + 1
	a = x * 0x9e3779b97f4a7c15
	a = (a ^ a>>30) * 0xbf58476d1ce4e5b9
	a = (a ^ a>>27) * 0x94d049bb133111eb
	b = (x + 0x632be59bd9b4e019) * 0xff51afd7ed558ccd
	b = (b ^ b>>33) * 0xc4ceb9fe1a85ec53
	return a ^ a>>31, b ^ b>>33
}

// set returns the number of the set that the columns make now.
func (b *Batch) set() (uint32, error) {
	w := &b.work
	if w.fresh {
		return w.last, nil
	}
	n, ok := b.setN[w.sum]
	if !ok {
		w.order = w.order[:0]
		for _, c := range w.here {
			p := w.now[c]
			w.order = append(w.order, pairName{b.texts.all[b.pairs[p].name], p})
		}
		var err error
		if n, err = b.addSet(w.sum); err != nil {
			return 0, err
		}
	}
	w.last, w.fresh = n, true
	return n, nil
}

// addSet adds the set of the pairs in work.order.
func (b *Batch) addSet(key sum) (uint32, error) {
	w := &b.work
	if len(w.order) > 16 {
		if err := b.m.take(40 * len(w.order)); err != nil {
			return 0, err
		}
	}
	slices.SortFunc(w.order, func(x, y pairName) int {
		switch {
		case x.name < y.name:
			return -1
		case x.name > y.name:
			return 1
		}
		return int(x.pair) - int(y.pair)
	})
	var err error
	if b.held, err = grown(&b.m, b.held, len(w.order), 4); err != nil {
		return 0, err
	}
	if b.sets, err = grown(&b.m, b.sets, 1, 80); err != nil {
		return 0, err
	}
	s := set{from: uint32(len(b.held)), device: -1}
	for _, p := range w.order {
		b.held = append(b.held, p.pair)
	}
	s.to = uint32(len(b.held))
	n := uint32(len(b.sets))
	b.sets = append(b.sets, s)
	b.setN[key] = n
	return n, b.understand(&b.sets[n])
}

// labelEvents is the changes of all label columns, as lists by row.
type labelEvents struct {
	first []uint32 // per row: its first change plus one
	all   []labelEvent
}

type labelEvent struct {
	next   uint32
	column uint32
	pair   uint32
}

// add notes the changes of a column.
func (e *labelEvents) add(b *Batch, column int, name uint32, r *runs) error {
	ids, err := b.textRuns(r)
	if err != nil {
		return err
	}
	from := 0
	was := absent
	for i := range r.n {
		p := absent
		t, null, err := ids.at(b, i)
		if err != nil {
			return err
		}
		if !null {
			if p, err = b.pair(pair{name, t}); err != nil {
				return err
			}
		}
		if p != was {
			if e.all, err = grown(&b.m, e.all, 1, 12); err != nil {
				return err
			}
			e.all = append(e.all, labelEvent{e.first[from], uint32(column), p})
			e.first[from] = uint32(len(e.all))
			was = p
		}
		if r.ends != nil {
			from = int(r.ends.int(i))
		} else {
			from = i + 1
		}
	}
	return nil
}

// textRuns is the texts of a column's runs.
type textRuns struct {
	a    *array
	dict []uint32
}

// textRuns prepares to read the texts of a column.
func (b *Batch) textRuns(r *runs) (t textRuns, err error) {
	t.a = r.values
	if t.a.f.hasDict {
		t.dict, err = b.dictionary(t.a.dict)
		return t, err
	}
	if !t.a.isText() {
		return t, &Error{Code: CodeSchema, Detail: "a column of text has another type"}
	}
	return t, nil
}

func (t *textRuns) at(b *Batch, i int) (id uint32, null bool, err error) {
	if t.a.null(i) || t.a.f.kind == typeNull && !t.a.f.hasDict {
		return 0, true, nil
	}
	if t.a.f.hasDict {
		at, ok := t.a.index(i)
		if !ok {
			return 0, false, corrupt("a dictionary's index lies outside of it: %d of %d", at, t.a.dict.values.n)
		}
		id := t.dict[at]
		return id, id == absent, nil
	}
	s, ok := t.a.text(i)
	if !ok {
		return 0, false, corrupt("a text lies outside of its buffer")
	}
	id, err = b.text(s)
	return id, false, err
}

// dictionary returns the numbers of a dictionary's texts, absent where it has nulls.
func (b *Batch) dictionary(d *dictionary) ([]uint32, error) {
	if d.texts != nil || d.values.n == 0 {
		return d.texts, nil
	}
	if d.values.f.hasDict || !d.values.isText() {
		return nil, &Error{Code: CodeSchema, Detail: "a dictionary of text has values of another type"}
	}
	if err := b.m.take(4 * d.values.n); err != nil {
		return nil, err
	}
	texts := make([]uint32, d.values.n)
	for i := range texts {
		if d.values.f.kind == typeNull || d.values.null(i) {
			texts[i] = absent
			continue
		}
		s, ok := d.values.text(i)
		if !ok {
			return nil, corrupt("a text of a dictionary lies outside of its buffer")
		}
		var err error
		if texts[i], err = b.text(s); err != nil {
			return nil, err
		}
	}
	d.texts = texts
	return texts, nil
}

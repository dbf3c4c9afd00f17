package parca

import (
	"encoding/binary"
	"strings"
)

// DecodeArrow reads one Arrow IPC stream of schema v2. A record of schema v1 gives a *[NeedLocations], everything else that is wrong an
// *[Error].
func (b *Batch) DecodeArrow(ipc []byte) error {
	b.reset(len(ipc))
	return b.fail(b.decodeArrow(ipc))
}

func (b *Batch) decodeArrow(ipc []byte) error {
	s, err := openStream(&b.m, ipc)
	if err != nil {
		return err
	}
	if isV1(s) {
		return &NeedLocations{}
	}
	return b.decodeSamples(s, false)
}

// isV1 tells by the schema's metadata, or, where that says nothing, by how the labels are stored.
func isV1(s *ipcStream) bool {
	switch string(s.version) {
	case "v1":
		return true
	case "v2":
		return false
	}
	for i := range s.fields {
		if string(s.fields[i].name) == "stacktrace" {
			return false
		}
	}
	return true
}

// columns is the columns of a record by what they are.
type columns struct {
	labels             []labelColumn
	stack, id          *array
	value, at          *array
	texts              [6]*array // in the order of head
	period, duration   *array
	n                  int
	v1                 bool
	stackLocs, locBase uint32
}

type labelColumn struct {
	name uint32
	a    *array
}

func (b *Batch) columnsOf(cols []array, n int, v1 bool) (c columns, err error) {
	c.n, c.v1 = n, v1
	label := func(name string, a *array) error {
		id, err := b.texts.id(name)
		if err == nil {
			c.labels, err = grown(&b.m, c.labels, 1, 16)
		}
		c.labels = append(c.labels, labelColumn{id, a})
		return err
	}
	for i := range cols {
		a := &cols[i]
		switch name := string(a.f.name); name {
		case "labels":
			if v1 || a.f.hasDict || a.f.kind != typeStruct {
				continue
			}
			for k := range a.kids {
				if err := label(string(a.f.kids[k].name), &a.kids[k]); err != nil {
					return c, err
				}
			}
		case "stacktrace":
			c.stack = a
		case "stacktrace_id":
			c.id = a
		case "value":
			c.value = a
		case "timestamp":
			c.at = a
		case "producer":
			c.texts[0] = a
		case "sample_type":
			c.texts[1] = a
		case "sample_unit":
			c.texts[2] = a
		case "period_type":
			c.texts[3] = a
		case "period_unit":
			c.texts[4] = a
		case "temporality":
			c.texts[5] = a
		case "period":
			c.period = a
		case "duration":
			c.duration = a
		default:
			if after, ok := strings.CutPrefix(name, "labels."); ok && v1 {
				if err := label(after, a); err != nil {
					return c, err
				}
			}
		}
	}
	switch {
	case c.value == nil, c.at == nil, c.texts[1] == nil, v1 && c.id == nil, !v1 && c.stack == nil:
		return c, &Error{Code: CodeSchema, Detail: "columns value, timestamp, sample_type and stacktrace (in v1 stacktrace_id) must be there"}
	}
	return c, nil
}

func (b *Batch) decodeSamples(s *ipcStream, v1 bool) error {
	for {
		cols, n, ok, err := s.record()
		if err != nil {
			return err
		}
		if !ok {
			return b.finish()
		}
		c, err := b.columnsOf(cols, n, v1)
		if err != nil {
			return err
		}
		if err := b.decodeRecord(&c); err != nil {
			return err
		}
	}
}

// intColumn reads integers in order of rows.
type intColumn struct {
	r     runs
	plain []byte // 8 bytes a row, none null
	now   int64
	null  bool
	begun bool
}

func openInts(a *array, n int) (c intColumn, err error) {
	if c.r, err = asRuns(a, n); err != nil {
		return c, err
	}
	if !c.r.values.isInt() {
		return c, &Error{Code: CodeSchema, Detail: "a column of numbers has another type"}
	}
	if c.r.ends == nil && c.r.values.f.width == 8 && c.r.values.nulls == nil {
		c.plain = c.r.values.a
	}
	return c, nil
}

func (c *intColumn) at(i int) (v int64, null bool) {
	if c.plain != nil {
		return int64(binary.LittleEndian.Uint64(c.plain[8*i:])), false
	}
	if i >= c.r.end || !c.begun {
		for i >= c.r.end {
			c.r.next()
		}
		c.begun = true
		c.now, c.null = c.r.values.int(c.r.run), c.r.values.null(c.r.run)
	}
	return c.now, c.null
}

// headColumns reads what is mostly the same in all rows.
type headColumns struct {
	used  [8]bool
	runs  [8]runs
	texts [6]textRuns
	end   int // row at which it may change
	now   uint32
}

func (b *Batch) openHeads(c *columns) (h headColumns, err error) {
	for i, a := range [8]*array{c.texts[0], c.texts[1], c.texts[2], c.texts[3], c.texts[4], c.texts[5], c.period, c.duration} {
		if a == nil {
			continue
		}
		h.used[i] = true
		if h.runs[i], err = asRuns(a, c.n); err != nil {
			return h, err
		}
		if i < 6 {
			if h.texts[i], err = b.textRuns(&h.runs[i]); err != nil {
				return h, err
			}
		} else if !h.runs[i].values.isInt() {
			return h, &Error{Code: CodeSchema, Detail: "period or duration is no number"}
		}
	}
	return h, nil
}

func (h *headColumns) move(b *Batch, row int) (err error) {
	var now [8]uint64
	h.end = maxRows
	for i := range h.runs {
		if !h.used[i] {
			continue
		}
		r := &h.runs[i]
		for row >= r.end {
			r.next()
		}
		h.end = min(h.end, r.end)
		if i >= 6 {
			now[i] = uint64(r.values.int(r.run))
			continue
		}
		t, _, err := h.texts[i].at(b, r.run)
		if err != nil {
			return err
		}
		if t != absent {
			now[i] = uint64(t)
		}
	}
	h.now, err = b.head(head{uint32(now[0]), uint32(now[1]), uint32(now[2]), uint32(now[3]), uint32(now[4]), uint32(now[5]),
		int64(now[6]), now[7]})
	return err
}

func (b *Batch) decodeRecord(c *columns) error {
	n := c.n
	if n == 0 {
		return nil
	}
	if err := b.room(n); err != nil {
		return err
	}
	heads, err := b.openHeads(c)
	if err != nil {
		return err
	}
	values, err := openInts(c.value, n)
	if err != nil {
		return err
	}
	times, err := openInts(c.at, n)
	if err != nil {
		return err
	}
	if err := b.m.take(4 * n); err != nil {
		return err
	}
	events := labelEvents{first: make([]uint32, n)}
	if err := b.work.begin(&b.m, len(c.labels)); err != nil {
		return err
	}
	for i, l := range c.labels {
		r, err := asRuns(l.a, n)
		if err != nil {
			return err
		}
		if err := events.add(b, i, l.name, &r); err != nil {
			return err
		}
	}
	stacks, err := b.openStacks(c)
	if err != nil {
		return err
	}
	for i := range n {
		if i >= heads.end {
			if err := heads.move(b, i); err != nil {
				return err
			}
		}
		for e := events.first[i]; e != 0; e = events.all[e-1].next {
			b.work.change(int(events.all[e-1].column), events.all[e-1].pair)
		}
		r := row{head: heads.now}
		if r.set, err = b.set(); err != nil {
			return err
		}
		if r.stack, err = stacks.at(b, i); err != nil {
			return err
		}
		var null bool
		if r.value, null = values.at(i); null {
			r.bad = noValue
		}
		if r.at, null = times.at(i); null {
			r.bad = noTime
		}
		b.rows = append(b.rows, r)
	}
	return nil
}

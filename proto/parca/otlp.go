package parca

import (
	"math"
	"strconv"
	"strings"
)

// DecodeOTLP reads an ExportProfilesServiceRequest of OTLP profiles v1development as proto 1.10 and 1.11 number it.
// Older numberings give an *[Error], as does all else that is wrong.
func (b *Batch) DecodeOTLP(msg []byte) error {
	b.reset(len(msg))
	return b.fail(b.decodeOTLP(msg))
}

// otlp is the tables of a message's dictionary as numbers of the batch.
type otlp struct {
	b         *Batch
	texts     []uint32
	attrs     []attribute
	functions []pair     // name, file
	mappings  []pair     // file, build id
	locs      uint32     // base of Batch.locs
	locsN     int        // locations
	stacks    uint32     // base of Batch.stacks
	stacksN   int        // stacks
	links     int        // links
	numbers   []uint64   // scratch
	values    []uint64   // scratch
	times     []uint64   // scratch
	resource  []pairName // labels of the resource
	fixed     sum        // of these
	lastAttrs []byte
	lastSet   uint32
	hasLast   bool
}

// attribute is an entry of the table of attributes.
type attribute struct {
	key, value uint32
	label      uint32 // a pair, absent
}

func errOldOTLP(what string) *Error {
	return &Error{Code: CodeOldOTLP, Detail: "OTLP profiles must be v1development as of proto 1.10 or 1.11: " + what}
}

var errTornOTLP = corrupt("the OTLP message is torn")

func (b *Batch) decodeOTLP(msg []byte) error {
	o := &otlp{b: b}
	var tables [][]byte
	w := wire{b: msg}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num == 2 && f.kind == wireBytes {
			if len(tables) == 16 {
				return errTornOTLP
			}
			tables = append(tables, f.data)
		}
	}
	if w.bad {
		return errTornOTLP
	}
	if err := o.readTables(tables); err != nil {
		return err
	}
	w = wire{b: msg}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num == 1 && f.kind == wireBytes {
			if err := o.resourceProfiles(f.data); err != nil {
				return err
			}
		}
	}
	return b.finish()
}

// each calls fn for every entry of one table of the dictionary.
func each(tables [][]byte, num int, fn func(f wireField) error) error {
	for _, t := range tables {
		w := wire{b: t}
		for f, ok := w.next(); ok; f, ok = w.next() {
			if f.num == num && f.kind == wireBytes {
				if err := fn(f); err != nil {
					return err
				}
			}
		}
		if w.bad {
			return errTornOTLP
		}
	}
	return nil
}

func (o *otlp) readTables(tables [][]byte) error {
	m := &o.b.m
	err := each(tables, 5, func(f wireField) (err error) {
		if o.texts, err = grown(m, o.texts, 1, 4); err != nil {
			return err
		}
		id, err := o.b.text(f.data)
		o.texts = append(o.texts, id)
		return err
	})
	if err != nil {
		return err
	}
	if err := each(tables, 6, o.readAttribute); err != nil {
		return err
	}
	if err := each(tables, 3, o.readFunction); err != nil {
		return err
	}
	if err := each(tables, 1, o.readMapping); err != nil {
		return err
	}
	if err := each(tables, 4, func(wireField) error { o.links++; return nil }); err != nil {
		return err
	}
	o.locs = uint32(len(o.b.locs))
	if err := each(tables, 2, o.readLocation); err != nil {
		return err
	}
	o.locsN = len(o.b.locs) - int(o.locs)
	o.stacks = uint32(len(o.b.stacks))
	if err := each(tables, 7, o.readStack); err != nil {
		return err
	}
	o.stacksN = len(o.b.stacks) - int(o.stacks)
	return nil
}

// text is the text at an index of the string table.
func (o *otlp) text(i uint64) (uint32, error) {
	if i >= uint64(len(o.texts)) {
		if i == 0 {
			return 0, nil
		}
		return 0, errOldOTLP("string " + strconv.FormatUint(i, 10) + " lies outside of the table")
	}
	return o.texts[i], nil
}

func (o *otlp) readAttribute(f wireField) (err error) {
	if o.attrs, err = grown(&o.b.m, o.attrs, 1, 12); err != nil {
		return err
	}
	a := attribute{label: absent}
	w := wire{b: f.data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.num == 1 && f.kind == wireVarint:
			a.key, err = o.text(f.v)
		case f.num == 2 && f.kind == wireBytes:
			a.value, err = o.anyValue(f.data)
		}
		if err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	if a.key != 0 {
		name, err := o.b.texts.id(labelOf(o.b.texts.all[a.key]))
		if err != nil {
			return err
		}
		if a.label, err = o.b.pair(pair{name, a.value}); err != nil {
			return err
		}
	}
	o.attrs = append(o.attrs, a)
	return nil
}

// labelOf is the label's name of an attribute.
func labelOf(key string) string {
	switch key {
	case "thread.name":
		return "thread_name"
	case "thread.id":
		return "thread_id"
	case "cpu.logical_number":
		return "cpu"
	case "process.pid":
		return "pid"
	case "host.name":
		return "node"
	}
	return strings.TrimPrefix(key, "process.context.label.")
}

// anyValue is a value as text.
func (o *otlp) anyValue(b []byte) (id uint32, err error) {
	w := wire{b: b}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.num == 1 && f.kind == wireBytes:
			id, err = o.b.text(f.data)
		case f.num == 2 && f.kind == wireVarint:
			id, err = o.b.texts.id(strconv.FormatBool(f.v != 0))
		case f.num == 3 && f.kind == wireVarint:
			id, err = o.b.texts.id(strconv.FormatInt(int64(f.v), 10))
		case f.num == 4 && f.kind == wire64:
			id, err = o.b.texts.id(strconv.FormatFloat(math.Float64frombits(f.v), 'g', -1, 64))
		case f.num == 8 && f.kind == wireVarint:
			id, err = o.text(f.v)
		}
		if err != nil {
			return 0, err
		}
	}
	if w.bad {
		return 0, errTornOTLP
	}
	return id, nil
}

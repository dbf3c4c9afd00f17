package parca

import (
	"bytes"
	"math"
	"path"
	"slices"
	"strconv"
)

func (o *otlp) resourceProfiles(data []byte) error {
	o.resource, o.fixed, o.hasLast = o.resource[:0], sum{}, false
	w := wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num == 1 && f.kind == wireBytes {
			if err := o.readResource(f.data); err != nil {
				return err
			}
		}
	}
	if w.bad {
		return errTornOTLP
	}
	w = wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num != 2 || f.kind != wireBytes {
			continue
		}
		s := wire{b: f.data}
		for f, ok := s.next(); ok; f, ok = s.next() {
			if f.num == 2 && f.kind == wireBytes {
				if err := o.profile(f.data); err != nil {
					return err
				}
			}
		}
		if s.bad {
			return errTornOTLP
		}
	}
	return nil
}

// readResource reads the labels of a process.
func (o *otlp) readResource(data []byte) error {
	b := o.b
	comm, file := uint32(0), uint32(0) // of the executable
	w := wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num != 1 || f.kind != wireBytes {
			continue
		}
		var key, value uint32
		var err error
		kv := wire{b: f.data}
		for f, ok := kv.next(); ok; f, ok = kv.next() {
			switch {
			case f.num == 1 && f.kind == wireBytes:
				key, err = b.text(f.data)
			case f.num == 2 && f.kind == wireBytes:
				value, err = o.anyValue(f.data)
			case f.num == 3 && f.kind == wireVarint:
				key, err = o.text(f.v)
			}
			if err != nil {
				return err
			}
		}
		if kv.bad {
			return errTornOTLP
		}
		name := b.texts.all[key]
		switch name {
		case "process.executable.name":
			comm = value
		case "process.executable.path":
			file = value
		}
		if err := o.label(labelOf(name), value); err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	if o.named("comm") {
		return nil
	}
	if comm == 0 && file != 0 {
		id, err := b.texts.id(cut(path.Base(b.texts.all[file]), 15)) // as long as Linux's are
		if err != nil {
			return err
		}
		comm = id
	}
	if comm == 0 {
		return nil
	}
	return o.label("comm", comm)
}

// label adds a label of the resource. Of two with one name, as node and host.name, the first counts.
func (o *otlp) label(name string, value uint32) error {
	if value == 0 || name == "" || o.named(name) {
		return nil
	}
	if len(o.resource) == 1<<10 {
		return &Error{Code: CodeTooLarge, Detail: "a resource has more than 1 024 attributes"}
	}
	id, err := o.b.texts.id(name)
	if err != nil {
		return err
	}
	n, err := o.b.pair(pair{id, value})
	if err != nil {
		return err
	}
	o.resource = append(o.resource, pairName{o.b.texts.all[id], n})
	x, y := mix(n)
	o.fixed.a, o.fixed.b = o.fixed.a+x, o.fixed.b+y
	return nil
}

func (o *otlp) named(name string) bool {
	return slices.ContainsFunc(o.resource, func(p pairName) bool { return p.name == name })
}

// profile reads the samples of one type.
func (o *otlp) profile(data []byte) error {
	var h head
	var at uint64
	var err error
	w := wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.num == 1 && f.kind == wireBytes:
			h.sampleType, h.sampleUnit, err = o.valueType(f.data)
		case f.num == 3 && f.kind == wire64:
			at = f.v
		case f.num == 4 && f.kind == wireVarint:
			h.duration = f.v
		case f.num == 5 && f.kind == wireBytes:
			h.periodType, h.periodUnit, err = o.valueType(f.data)
		case f.num == 6 && f.kind == wireVarint:
			h.period = int64(f.v)
		}
		if err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	n, err := o.b.head(h)
	if err != nil {
		return err
	}
	w = wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num == 2 && f.kind == wireBytes {
			if err := o.sample(f.data, n, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *otlp) valueType(data []byte) (kind, unit uint32, err error) {
	w := wire{b: data}
	for f, ok := w.next(); ok && err == nil; f, ok = w.next() {
		switch {
		case f.num == 1 && f.kind == wireVarint:
			kind, err = o.text(f.v)
		case f.num == 2 && f.kind == wireVarint:
			unit, err = o.text(f.v)
		}
	}
	if w.bad {
		err = errTornOTLP
	}
	return kind, unit, err
}

// sample reads a sample: a row for each of its values.
func (o *otlp) sample(data []byte, head uint32, at uint64) error {
	b := o.b
	r := row{head: head}
	o.values, o.times = o.values[:0], o.times[:0]
	var attrs []byte
	single := false
	w := wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch f.num {
		case 1:
			if f.kind != wireVarint || f.v >= uint64(o.stacksN) {
				return errOldOTLP("a sample names a stack outside of the table")
			}
			r.stack = o.stacks + uint32(f.v)
		case 2:
			single = single || attrs != nil || f.kind != wireBytes
			if attrs == nil {
				o.numbers = o.numbers[:0]
			}
			if o.numbers, ok = f.numbers(o.numbers); !ok {
				return errTornOTLP
			}
			if attrs = f.data; attrs == nil {
				attrs = []byte{}
			}
		case 3:
			if f.kind != wireVarint {
				return errOldOTLP("this sample has attributes where 1.10 has its link: its fields are those of 1.9 or older")
			}
			if f.v != 0 && f.v >= uint64(o.links) {
				return errOldOTLP("a sample names a link outside of the table")
			}
		case 4:
			if o.values, ok = f.numbers(o.values); !ok {
				return errOldOTLP("a sample's values are no numbers")
			}
		case 5:
			if o.times, ok = f.fixed64s(o.times); !ok {
				return errOldOTLP("a sample's times are no fixed numbers")
			}
		}
	}
	if w.bad {
		return errTornOTLP
	}
	switch {
	case len(o.values) == 0:
		return errOldOTLP("a sample has no value; in 1.9 and older they are where 1.10 has attributes")
	case len(o.times) == 0 && len(o.values) == 1:
		o.times = append(o.times, at)
	case len(o.times) != len(o.values):
		return errOldOTLP("a sample has not as many values as times")
	}
	if !o.hasLast || single || !bytes.Equal(attrs, o.lastAttrs) {
		if attrs == nil {
			o.numbers = o.numbers[:0]
		}
		n, err := o.set()
		if err != nil {
			return err
		}
		o.lastSet, o.lastAttrs, o.hasLast = n, attrs, !single
	}
	r.set = o.lastSet
	if len(b.rows)+len(o.values) > maxRows {
		return &Error{Code: CodeTooLarge, Detail: "more than 4 Mi rows"}
	}
	var err error
	if b.rows, err = grown(&b.m, b.rows, len(o.values), bytesPerRow); err != nil {
		return err
	}
	for i, v := range o.values {
		r.value, r.at = int64(v), int64(min(o.times[i], math.MaxInt64))
		b.rows = append(b.rows, r)
	}
	return nil
}

// set is the set of the resource's labels and those of the attributes in numbers.
func (o *otlp) set() (uint32, error) {
	b := o.b
	key := o.fixed
	for _, n := range o.numbers {
		if n >= uint64(len(o.attrs)) {
			return 0, errOldOTLP("attribute " + strconv.FormatUint(n, 10) + " of a sample lies outside of the table")
		}
		if p := o.attrs[n].label; p != absent {
			x, y := mix(p)
			key.a, key.b = key.a+x, key.b+y
		}
	}
	if n, ok := b.setN[key]; ok {
		return n, nil
	}
	b.work.order = append(b.work.order[:0], o.resource...)
	for _, n := range o.numbers {
		if p := o.attrs[n].label; p != absent {
			b.work.order = append(b.work.order, pairName{b.texts.all[b.pairs[p].name], p})
		}
	}
	return b.addSet(key)
}

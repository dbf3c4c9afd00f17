package parca

import "strconv"

func (o *otlp) readFunction(f wireField) (err error) {
	if o.functions, err = grown(&o.b.m, o.functions, 1, 8); err != nil {
		return err
	}
	var name, system, file uint32
	w := wire{b: f.data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.kind != wireVarint {
			continue
		}
		switch f.num {
		case 1:
			name, err = o.text(f.v)
		case 2:
			system, err = o.text(f.v)
		case 3:
			file, err = o.text(f.v)
		}
		if err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	if system == 0 {
		system = name
	}
	o.functions = append(o.functions, pair{system, file})
	return nil
}

func (o *otlp) readMapping(f wireField) (err error) {
	if o.mappings, err = grown(&o.b.m, o.mappings, 1, 8); err != nil {
		return err
	}
	var p pair
	rank := 0
	w := wire{b: f.data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.num == 4 && f.kind == wireVarint:
			p.name, err = o.text(f.v)
		case f.num == 5:
			err = o.attributes(f, func(a *attribute) {
				if r := buildRank(o.b.texts.all[a.key]); r > rank {
					p.value, rank = a.value, r
				}
			})
		}
		if err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	o.mappings = append(o.mappings, p)
	return nil
}

// buildRank says which of several build ids counts: the one that the agent puts into Arrow records.
func buildRank(key string) int {
	switch key {
	case "process.executable.build_id.gnu":
		return 3
	case "process.executable.build_id.go":
		return 1
	case "process.executable.build_id.htlhash":
		return 2
	}
	return 0
}

// attributes calls fn for each attribute that a field names.
func (o *otlp) attributes(f wireField, fn func(a *attribute)) error {
	var ok bool
	if o.numbers, ok = f.numbers(o.numbers[:0]); !ok {
		return errTornOTLP
	}
	for _, n := range o.numbers {
		if n >= uint64(len(o.attrs)) {
			return errOldOTLP("attribute " + strconv.FormatUint(n, 10) + " lies outside of the table")
		}
		fn(&o.attrs[n])
	}
	return nil
}

func (o *otlp) readLocation(f wireField) (err error) {
	b := o.b
	if b.locs, err = grown(&b.m, b.locs, 1, 72); err != nil {
		return err
	}
	l := location{from: uint32(len(b.lines))}
	w := wire{b: f.data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		switch {
		case f.num == 1 && f.kind == wireVarint:
			if f.v >= uint64(len(o.mappings)) && f.v != 0 {
				return errOldOTLP("a location names a mapping outside of the table")
			}
			if f.v < uint64(len(o.mappings)) {
				l.mapping, l.build = o.mappings[f.v].name, o.mappings[f.v].value
			}
		case f.num == 2 && f.kind == wireVarint:
			l.address = f.v
		case f.num == 3 && f.kind == wireBytes:
			err = o.readLine(f.data, len(b.lines)-int(l.from))
		case f.num == 4:
			err = o.attributes(f, func(a *attribute) {
				if b.texts.all[a.key] == "profile.frame.type" {
					l.kind = a.value
				}
			})
		}
		if err != nil {
			return err
		}
	}
	if w.bad {
		return errTornOTLP
	}
	l.to = uint32(len(b.lines))
	l.resolved = l.to > l.from
	b.locs = append(b.locs, l)
	return nil
}

func (o *otlp) readLine(data []byte, before int) (err error) {
	if before >= maxFrames {
		return nil
	}
	b := o.b
	if b.lines, err = grown(&b.m, b.lines, 1, 24); err != nil {
		return err
	}
	var l line
	w := wire{b: data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.kind != wireVarint {
			continue
		}
		switch f.num {
		case 1:
			if f.v >= uint64(len(o.functions)) {
				return errOldOTLP("a line names a function outside of the table")
			}
			l.function, l.file = o.functions[f.v].name, o.functions[f.v].value
		case 2:
			l.line = f.v
		case 3:
			l.column = f.v
		}
	}
	if w.bad {
		return errTornOTLP
	}
	b.lines = append(b.lines, l)
	return nil
}

func (o *otlp) readStack(f wireField) (err error) {
	b := o.b
	if b.stacks, err = grown(&b.m, b.stacks, 1, 40); err != nil {
		return err
	}
	st := stack{from: uint32(len(b.held2))}
	w := wire{b: f.data}
	for f, ok := w.next(); ok; f, ok = w.next() {
		if f.num != 1 {
			continue
		}
		if o.numbers, ok = f.numbers(o.numbers[:0]); !ok {
			return errTornOTLP
		}
		keep := min(len(o.numbers), maxFrames-(len(b.held2)-int(st.from)))
		if b.held2, err = grown(&b.m, b.held2, keep, 4); err != nil {
			return err
		}
		for _, n := range o.numbers[:keep] {
			if n >= uint64(o.locsN) {
				return errOldOTLP("a stack names a location outside of the table")
			}
			b.held2 = append(b.held2, o.locs+uint32(n))
		}
	}
	if w.bad {
		return errTornOTLP
	}
	st.to = uint32(len(b.held2))
	b.stacks = append(b.stacks, st)
	return nil
}

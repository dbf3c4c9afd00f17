package symbol

import "math"

// maxAddress bounds addresses in a section: a kernel is far below 4 GiB.
const maxAddress = math.MaxUint32

// row is a row of the line table.
type row struct{ addr, line, state uint32 }

// state is what many rows have in common.
type state struct {
	file        uint32 // index of Cubin.files
	name        uint32 // index of Cubin.names, 0: the function itself
	context     uint32 // number of the row that it was inlined into, from 1 in its own sequence; 0: not inlined
	first, rows uint32 // the function's own sequence, that context counts in
}

// noPlace is the section of rows whose address no relocation gives.
const noPlace = ^uint32(0)

// stretch is the rows of one function in one sequence.
type stretch struct {
	section, from, to uint32 // rows
	end               uint32 // the first address behind them
}

// program runs line programs. It is run twice: the first time it counts, so that the second allocates what is needed and no more.
type program struct {
	o      *object
	c      *Cubin
	places []place
	count  bool

	nRows, nStates, nStretches int
	stretches                  []stretch
	names                      map[uint64]uint32 // offset in .debug_str: index of Cubin.names
	base                       uint64            // added to offsets of names

	u    unit
	file uint64
	line uint32
	addr uint64
	ctx  uint64
	name uint64 // offset in .debug_str and one, 0 none
	st   uint32
	anew bool // the state has changed since the last row

	section    uint32 // of the rows that come
	firstRow   int    // of this function in this sequence
	firstState int    // likewise
	lastAddr   uint64 // the largest of them
}

// lines reads the line table.
func (c *Cubin) lines(o *object, sections map[uint16]uint32) error {
	places, err := o.places(c, sections)
	if err != nil {
		return err
	}
	c.HasLines = len(o.line) > 0 && len(places) > 0
	if !c.HasLines {
		return nil
	}
	p := &program{o: o, c: c, places: places, count: true}
	if err := p.run(); err != nil {
		return err
	}
	c.rows, c.states = make([]row, 0, p.nRows), make([]state, 0, p.nStates)
	c.names = append(c.names, "")
	p = &program{o: o, c: c, places: places, stretches: make([]stretch, 0, p.nStretches), names: map[uint64]uint32{}}
	if err := p.run(); err != nil {
		return err
	}
	c.index(p.stretches)
	return nil
}

// run reads all units.
func (p *program) run() error {
	for at := 0; at < len(p.o.line); {
		next, err := p.u.read(p.o, at)
		if err != nil {
			return err
		}
		if !p.count {
			p.u.firstFile = uint32(len(p.c.files))
			if p.c.files, err = p.u.appendFiles(p.c.files, p.o); err != nil {
				return err
			}
		}
		p.base = p.u.nameBase
		p.reset()
		if err := p.sequences(); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// reset begins a sequence.
func (p *program) reset() {
	p.file, p.line, p.addr, p.ctx, p.name = 1, 1, 0, 0, 0
	p.section = noPlace
	p.begin()
}

// begin notes that rows of another function follow.
func (p *program) begin() { p.firstRow, p.firstState, p.anew = p.nRows, p.nStates, true }

// sequences runs the program of a unit.
func (p *program) sequences() error {
	r := reader{b: p.o.line[:p.u.end], at: p.u.program}
	u := &p.u
	for r.at < len(r.b) {
		op := r.u8()
		var err error
		switch {
		case op >= u.opcodeBase:
			if u.lineRange == 0 {
				return corrupt("the line table has a line range of 0")
			}
			n := op - u.opcodeBase
			p.line += uint32(int32(u.lineBase) + int32(n%u.lineRange))
			if err = p.advance(uint64(n / u.lineRange)); err == nil {
				err = p.emit()
			}
		case op == 0:
			err = p.extended(&r)
		default:
			err = p.standard(&r, op)
		}
		if err != nil {
			return err
		}
		if r.bad {
			return corrupt("the line table ends within an instruction")
		}
	}
	p.close(p.lastAddr + 1)
	return nil
}

func (p *program) advance(n uint64) error {
	step := uint64(p.u.minLength)
	if n > maxAddress || p.addr+n*step > maxAddress {
		return corrupt("the line table goes beyond 4 GiB")
	}
	p.addr += n * step
	return nil
}

// standard runs an instruction that has a number of its own.
func (p *program) standard(r *reader, op uint8) error {
	switch op {
	case 1: // copy
		return p.emit()
	case 2: // advance_pc
		return p.advance(r.uleb())
	case 3: // advance_line
		p.line += uint32(r.sleb())
	case 4: // set_file
		p.file, p.anew = r.uleb(), true
	case 8: // const_add_pc
		if p.u.lineRange == 0 {
			return corrupt("the line table has a line range of 0")
		}
		return p.advance(uint64((255 - p.u.opcodeBase) / p.u.lineRange))
	case 9: // fixed_advance_pc
		n := uint64(r.u16())
		if p.addr+n > maxAddress {
			return corrupt("the line table goes beyond 4 GiB")
		}
		p.addr += n
	default: // columns, statements, basic blocks, and what is not known
		for range p.u.lengths[op] {
			r.uleb()
		}
	}
	return nil
}

// extended runs an instruction that has a length.
func (p *program) extended(r *reader) error {
	n := r.uleb()
	if r.bad || n == 0 || n > uint64(len(r.b)-r.at) {
		return corrupt("an instruction of the line table is beyond its unit")
	}
	in := reader{b: r.b[:r.at+int(n)], at: r.at}
	r.at = len(in.b)
	switch in.u8() {
	case 1: // end_sequence
		p.close(p.addr)
		p.reset()
	case 2: // set_address
		at := uint64(in.at)
		literal := in.address()
		place, ok := placeAt(p.places, at)
		section, addr := noPlace, literal
		if ok {
			section, addr = place.section, literal+place.addr
		}
		if section != p.section {
			p.close(p.lastAddr + 1)
			p.section = section
			p.begin()
		}
		if addr > maxAddress {
			return corrupt("the line table begins beyond 4 GiB")
		}
		p.addr = addr
	case 0x90: // NVIDIA: what follows was inlined into a row, under a name
		ctx, name := in.uleb(), in.uleb()
		p.ctx, p.anew = ctx, true
		p.name = 0
		if ctx != 0 {
			p.name = name + p.base + 1
		}
	case 0x91: // NVIDIA: the name of the function that follows
		p.name, p.anew = in.uleb()+p.base+1, true
	}
	if in.bad {
		return corrupt("an instruction of the line table is longer than it says")
	}
	return nil
}

// emit adds a row.
func (p *program) emit() error {
	if p.anew {
		p.anew = false
		if !p.count {
			if err := p.newState(); err != nil {
				return err
			}
		}
		p.nStates++
	}
	if !p.count {
		p.c.rows = append(p.c.rows, row{addr: uint32(p.addr), line: p.line, state: p.st})
	}
	p.nRows++
	p.lastAddr = max(p.lastAddr, p.addr)
	if p.firstRow == p.nRows-1 {
		p.lastAddr = p.addr
	}
	return nil
}

// newState makes the state of the rows that follow.
func (p *program) newState() error {
	s := state{first: uint32(p.firstRow), context: uint32(min(p.ctx, math.MaxUint32))}
	if p.file >= 1 && p.file <= uint64(p.u.files) {
		s.file = p.u.firstFile + uint32(p.file-1)
	} // else the first of all files, which is ""
	if p.name != 0 {
		at, ok := p.names[p.name]
		if !ok {
			text, err := p.o.name(p.o.str, p.name-1)
			if err != nil {
				return err
			}
			if text != "" {
				at = uint32(len(p.c.names))
				p.c.names = append(p.c.names, text)
			}
			p.names[p.name] = at
		}
		s.name = at
	}
	p.st = uint32(len(p.c.states))
	p.c.states = append(p.c.states, s)
	return nil
}

// close ends the rows of a function: from end on it has no line.
func (p *program) close(end uint64) {
	n := p.nRows - p.firstRow
	if n == 0 {
		return
	}
	p.nStretches++
	if p.count {
		return
	}
	for i := p.firstState; i < len(p.c.states); i++ {
		p.c.states[i].rows = uint32(n)
	}
	if p.section != noPlace {
		p.stretches = append(p.stretches, stretch{p.section, uint32(p.firstRow), uint32(p.nRows), uint32(min(end, maxAddress))})
	}
}

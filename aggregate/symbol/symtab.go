package symbol

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
)

// sym is an entry of the symbol table. Its section is a number that is only compared: in stripped files it is not the section's index.
type sym struct {
	section uint16
	info    uint8
	other   uint8
	value   uint64
	size    uint64
	name    uint32
}

func (o *object) symbol(i uint64) (s sym, ok bool) {
	if i >= uint64(len(o.symtab))/symbolBytes {
		return s, false
	}
	b := o.symtab[i*symbolBytes:]
	le := binary.LittleEndian
	return sym{name: le.Uint32(b), info: b[4], other: b[5], section: le.Uint16(b[6:]), value: le.Uint64(b[8:]), size: le.Uint64(b[16:])}, true
}

// functions reads the functions and the sections that they are in.
func (c *Cubin) functions(o *object) (sections map[uint16]uint32, err error) {
	sections = map[uint16]uint32{}
	n := 0
	for i := range uint64(len(o.symtab)) / symbolBytes {
		if s, _ := o.symbol(i); s.info&0xf == symbolFunc {
			n++
		}
	}
	c.Functions = make([]Function, 0, n)
	for i := range uint64(len(o.symtab)) / symbolBytes {
		s, _ := o.symbol(i)
		if s.info&0xf != symbolFunc || s.section == 0 {
			continue
		}
		name, err := o.name(o.strtab, uint64(s.name))
		if err != nil {
			return nil, err
		}
		if s.value > maxAddress || s.size > maxAddress-s.value {
			return nil, corrupt("function %.64s ends beyond 4 GiB", name)
		}
		if name == "" {
			continue
		}
		at, ok := sections[s.section]
		if !ok {
			at = uint32(len(c.sections))
			sections[s.section] = at
			c.sections = append(c.sections, section{})
		}
		c.Functions = append(c.Functions, Function{Name: name, SizeBytes: s.size, cubin: c, section: at, value: uint32(s.value),
			owner: s.other&entryPoint != 0 || s.value == 0})
	}
	slices.SortStableFunc(c.Functions, func(a, b Function) int { return strings.Compare(a.Name, b.Name) })
	c.Functions = slices.CompactFunc(c.Functions, func(a, b Function) bool { return a.Name == b.Name })
	c.members()
	return sections, nil
}

// section is a kernel's code: its functions by where they begin, and where which row of the line table begins to count.
type section struct {
	cubin     *Cubin
	functions []uint32 // by offset, of one offset the largest first
	end       uint64   // of the last function
	points    []point
}

type point struct{ addr, row uint32 }

// noRow begins a gap without lines.
const noRow = ^uint32(0)

// members notes the functions of each section.
func (c *Cubin) members() {
	for i := range c.Functions {
		f := &c.Functions[i]
		s := &c.sections[f.section]
		s.functions = append(s.functions, uint32(i))
		s.end = max(s.end, uint64(f.value)+f.SizeBytes)
	}
	for i := range c.sections {
		of := c.sections[i].functions
		slices.SortFunc(of, func(a, b uint32) int {
			f, g := &c.Functions[a], &c.Functions[b]
			return cmp.Or(cmp.Compare(f.value, g.value), cmp.Compare(g.SizeBytes, f.SizeBytes), cmp.Compare(a, b))
		})
		c.sections[i].cubin = c
		owners := 0
		for _, f := range of {
			if c.Functions[f].owner {
				owners++
			}
			c.Functions[f].owner = c.Functions[f].owner && owners == 1 // one kernel a section, so that ranges do not multiply
		}
	}
}

// maxBefore bounds how many functions are looked at that begin before an address; more than a few do not overlap in real cubins.
const maxBefore = 64

// covering returns the function that begins last among those that have the address, -1 when none has.
func (s *section) covering(addr uint32) int {
	i := sort.Search(len(s.functions), func(i int) bool { return s.cubin.Functions[s.functions[i]].value > addr })
	for n := 0; i > 0 && n < maxBefore; n++ {
		i--
		f := &s.cubin.Functions[s.functions[i]]
		if uint64(addr) < uint64(f.value)+f.SizeBytes {
			return int(s.functions[i])
		}
	}
	return -1
}

// next returns where the next function begins behind an address, and maxAddress when none does.
func (s *section) next(addr uint32) uint64 {
	i := sort.Search(len(s.functions), func(i int) bool { return s.cubin.Functions[s.functions[i]].value > addr })
	if i == len(s.functions) {
		return maxAddress
	}
	return uint64(s.cubin.Functions[s.functions[i]].value)
}

// at returns the last point at or before an address, -1 when there is none.
func (s *section) at(addr uint32) int {
	lo, hi := 0, len(s.points)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		if s.points[mid].addr <= addr {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo - 1
}

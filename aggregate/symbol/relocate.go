package symbol

import (
	"cmp"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
)

// place is what a relocation puts at a position of the line table: an address in a kernel's section.
type place struct {
	at      uint64 // in .debug_line
	section uint32 // index of Cubin.sections
	addr    uint64
}

// places reads the relocations of the line table, by position.
func (o *object) places(c *Cubin, sections map[uint16]uint32) ([]place, error) {
	out := make([]place, 0, len(o.rel)/16+len(o.rela)/24)
	read := func(table []byte, size int) error {
		for len(table) >= size {
			le := binary.LittleEndian
			p := place{at: le.Uint64(table)}
			s, ok := o.symbol(le.Uint64(table[8:]) >> 32)
			if ok {
				at, known, err := o.placed(c, s, sections)
				if err != nil {
					return err
				}
				if known {
					p.section, p.addr = at, s.value
					if size == 24 {
						p.addr += le.Uint64(table[16:])
					}
					out = append(out, p)
				}
			}
			table = table[size:]
		}
		return nil
	}
	if err := read(o.rel, 16); err != nil {
		return nil, err
	}
	if err := read(o.rela, 24); err != nil {
		return nil, err
	}
	slices.SortStableFunc(out, func(a, b place) int { return cmp.Compare(a.at, b.at) })
	return out, nil
}

// placed returns the section of a symbol. A section's own symbol may come with a name, .text.<kernel>, instead of a section that has
// functions.
func (o *object) placed(c *Cubin, s sym, sections map[uint16]uint32) (at uint32, known bool, err error) {
	if at, known = sections[s.section]; known {
		return at, true, nil
	}
	name, err := o.name(o.strtab, uint64(s.name))
	if err != nil {
		return 0, false, err
	}
	name = strings.TrimPrefix(name, ".text.")
	i := sort.Search(len(c.Functions), func(i int) bool { return c.Functions[i].Name >= name })
	if name == "" || i == len(c.Functions) || c.Functions[i].Name != name {
		return 0, false, nil
	}
	return c.Functions[i].section, true, nil
}

// placeAt returns what is put at a position.
func placeAt(places []place, at uint64) (place, bool) {
	i := sort.Search(len(places), func(i int) bool { return places[i].at >= at })
	if i < len(places) && places[i].at == at {
		return places[i], true
	}
	return place{}, false
}

package symbol

import (
	"cmp"
	"slices"
)

// Read reads a cubin. The error is a *CorruptError.
func Read(elf []byte) (*Cubin, error) {
	o, err := openObject(elf)
	if err != nil {
		return nil, err
	}
	c := &Cubin{Whole: o.whole(), SM: o.sm(), files: []string{""}}
	sections, err := c.functions(o)
	if err != nil {
		return nil, err
	}
	if err := c.lines(o, sections); err != nil {
		return nil, err
	}
	return c, nil
}

// index notes in each section from which address on which row counts.
func (c *Cubin) index(all []stretch) {
	slices.SortStableFunc(all, func(a, b stretch) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(c.rows[a.from].addr, c.rows[b.from].addr))
	})
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].section == all[0].section {
			n++
		}
		c.sections[all[0].section].points = c.points(all[:n])
		all = all[n:]
	}
}

// points returns the points of a section, whose stretches are sorted. A stretch ends where the next one begins.
func (c *Cubin) points(of []stretch) []point {
	n := len(of)
	for _, s := range of {
		n += int(s.to - s.from)
	}
	out := make([]point, 0, n)
	for i, s := range of {
		from, end := len(out), s.end
		gap := i+1 == len(of) || c.rows[of[i+1].from].addr > end
		if i+1 < len(of) {
			end = min(end, c.rows[of[i+1].from].addr)
		}
		for r := s.from; r < s.to; r++ {
			out = append(out, point{c.rows[r].addr, r})
		}
		own := out[from:]
		if !slices.IsSortedFunc(own, byAddr) {
			slices.SortStableFunc(own, byAddr)
		}
		kept := from
		for j, p := range own {
			if p.addr >= end {
				break
			}
			if j+1 < len(own) && own[j+1].addr == p.addr { // the last row of an address counts
				continue
			}
			if kept > from && c.same(out[kept-1].row, p.row) {
				continue
			}
			out[kept] = p
			kept++
		}
		out = out[:kept]
		if gap && kept > from {
			out = append(out, point{end, noRow})
		}
	}
	if !slices.IsSortedFunc(out, byAddr) { // rows that go back, in several sequences of one kernel
		slices.SortStableFunc(out, byAddr)
	}
	return out
}

func byAddr(a, b point) int { return cmp.Compare(a.addr, b.addr) }

// same reports whether two rows are one line in one place.
func (c *Cubin) same(a, b uint32) bool {
	if c.rows[a].line != c.rows[b].line {
		return false
	}
	s, t := c.states[c.rows[a].state], c.states[c.rows[b].state]
	return s.file == t.file && s.name == t.name && s.context == t.context && (s.context == 0 || s.first == t.first)
}

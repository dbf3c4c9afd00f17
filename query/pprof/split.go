package pprof

import (
	"io"
	"slices"
)

// place is where and why samples are: what rows with and without launch stacks have in common. For kernels only the function is set.
type place struct {
	Tenant, BuildID, Cubin, Function string
	Offset                           uint64
	SASS, Reason                     string
}

// line is the source line of a place; Chain is as pc_lines.inline_chain has it.
type line struct {
	File      string
	Number    uint32
	Chain     []string
	Demangled string
}

// row is a row of either query.
type row struct {
	place
	Line        line
	Stack       []string // innermost first
	HasStack    uint8    // 1: the row says how much a launch stack led to, else how much there is
	Count, NS   uint64
	First, Last int64 // seconds since the epoch
}

// sink takes stacks and writes them.
type sink interface {
	add(p *place, l *line, stack []string, count, ns uint64) error
	// finish writes what is left; first and last are seconds since the epoch.
	finish(w io.Writer, first, last int64) error
}

// splitter divides what there is at a place among launch stacks. What the stacks do not account for has none, and where they say more
// than there is they are cut, so that the sums are always those of the rows without stacks: rows of stacks may be merged at other times.
type splitter struct {
	to          sink
	at          place
	left        []row // of the place, what no stack has taken
	totals      Totals
	first, last int64
}

func (s *splitter) add(r *row) error {
	if r.place != s.at {
		if err := s.flush(); err != nil {
			return err
		}
		s.at = r.place
	}
	if r.HasStack == 0 {
		if s.first == 0 || r.First < s.first {
			s.first = r.First
		}
		s.last = max(s.last, r.Last)
		s.left = append(s.left, *r)
		return nil
	}
	for i := range s.left {
		of := &s.left[i]
		n, ns := min(r.Count, of.Count), min(r.NS, of.NS)
		if n == of.Count { // the last of them has the rest of the time, so that none is left without samples
			ns = of.NS
		}
		if n == 0 {
			continue
		}
		if err := s.put(of, r.Stack, n, ns); err != nil {
			return err
		}
		of.Count, of.NS = of.Count-n, of.NS-ns
		r.Count, r.NS = r.Count-n, r.NS-min(r.NS, ns)
	}
	return nil
}

// flush writes what no stack has taken of the present place.
func (s *splitter) flush() error {
	for i := range s.left {
		if of := &s.left[i]; of.Count > 0 {
			if err := s.put(of, nil, of.Count, of.NS); err != nil {
				return err
			}
		}
	}
	s.left = slices.Delete(s.left, 0, len(s.left))
	return nil
}

func (s *splitter) put(of *row, stack []string, count, ns uint64) error {
	s.totals.Stacks++
	s.totals.Count += count
	s.totals.NS += ns
	return s.to.add(&of.place, &of.Line, stack, count, ns)
}

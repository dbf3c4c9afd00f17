package trace

import (
	"github.com/zeebo/xxh3"

	"github.com/warpline/warpline/aggregate/state"
)

// parts are those of a trace that were folded, however many. They are published in order, and a gateway that dies leaves a gap of a few at
// most, so all up to a number are folded, and a few behind it. The core remembers the newest 4096 parts of a session and finds most
// repeats; this finds the rest.
type parts struct {
	identity xxh3.Uint128 // of the trace
	next     uint64       // all before it are folded
	beyond   []uint64     // folded ones behind it
	dirty    bool
}

// maxBeyond is how many parts behind a gap are remembered; more than a gateway has on their way at a time.
const maxBeyond = 1024

// add reports whether a part is new, and notes it. Parts of another trace begin anew.
func (p *parts) add(identity string, index uint64) bool {
	id := xxh3.HashString128(identity)
	if id != p.identity {
		*p = parts{identity: id}
	}
	if index < p.next {
		return false
	}
	for _, i := range p.beyond {
		if i == index {
			return false
		}
	}
	p.dirty = true
	if index != p.next {
		if len(p.beyond) == maxBeyond { // the oldest gap will not be filled any more
			p.next = p.lowest()
			p.absorb()
		}
		p.beyond = append(p.beyond, index)
		return true
	}
	p.next++
	p.absorb()
	return true
}

func (p *parts) lowest() uint64 {
	low := p.beyond[0]
	for _, i := range p.beyond {
		low = min(low, i)
	}
	return low
}

// absorb moves next over what is beyond it.
func (p *parts) absorb() {
	for again := true; again; {
		again = false
		for i, v := range p.beyond {
			if v == p.next {
				p.next++
				p.beyond[i] = p.beyond[len(p.beyond)-1]
				p.beyond = p.beyond[:len(p.beyond)-1]
				again = true
				break
			}
		}
	}
}

func (p *parts) append(w *state.Writer, full bool) {
	w.Bool(full || p.dirty)
	if !full && !p.dirty {
		return
	}
	w.Hash(p.identity)
	w.U64(p.next)
	w.N(len(p.beyond))
	for _, i := range p.beyond {
		w.U64(i)
	}
}

func (p *parts) size(full bool) int {
	if p.identity == (xxh3.Uint128{}) || !full && !p.dirty {
		return 0
	}
	return 32 + 4*len(p.beyond)
}

func (p *parts) read(r *state.Reader) {
	if !r.Bool() {
		return
	}
	*p = parts{identity: r.Hash(), next: r.U64()}
	for range r.N(1) {
		p.beyond = append(p.beyond, r.U64())
	}
	if len(p.beyond) > maxBeyond {
		r.Fail()
	}
}

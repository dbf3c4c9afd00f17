package flows

import (
	"cmp"
	"slices"
)

// Fault is what a viewer does with an end of an arrow other than draw it.
type Fault uint8

// The faults, as Perfetto counts them.
const (
	// NoSlice is an end where no slice has begun on its thread.
	NoSlice Fault = iota
	// NoStart is an end whose start never came, or comes later. Most are normal: Kineto writes one for each activity.
	NoStart
	// SecondStart is a start whose id has one already.
	SecondStart
	// BadID is an id that is neither a whole number of 64 bits nor a text of hex digits.
	BadID
	// Never is an end without "bp":"e" behind which no slice begins on its thread.
	Never
	faults
)

// Row is an arrow as a viewer draws it, between slices of Trace.Slices.
type Row struct{ From, To uint32 }

// Drawing is what Perfetto makes of the arrows of a trace.
type Drawing struct {
	Rows   []Row
	Faults [faults]uint64
	// Spilled counts slices that overlap the one before them on their thread in part: they are drawn beside it, and arrows miss them.
	Spilled uint64
	// Turned counts arrows that are drawn from the end to the start, because the end's slice begins earlier.
	Turned uint64

	drawn []int32 // by flow that ends or goes on: the row, plus one; 0 for none
}

// Perfetto draws the arrows as Perfetto does. It fills in the durations of slices that have a begin and an end.
func (t *Trace) Perfetto() *Drawing {
	slices.SortFunc(t.events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.ts, b.ts), cmp.Compare(a.rank(), b.rank()), a.longer(&b), cmp.Compare(a.order, b.order))
	})
	p := &drawer{Trace: t, Drawing: &Drawing{drawn: make([]int32, len(t.flows))}, stacks: make([][]uint32, len(t.tracks.all)),
		pending: map[uint32][]uint32{}, from: map[uint64]uint32{}, v1: make([]uint64, len(t.keys.all)), first: -1}
	for i := range t.events {
		p.draw(&t.events[i])
	}
	for _, waiting := range p.pending {
		p.Faults[Never] += uint64(len(waiting))
	}
	return p.Drawing
}

// rank is the order of events of one time (P2).
func (e *event) rank() int {
	switch {
	case e.kind == end:
		return 0
	case e.kind == complete && e.dur > 0:
		return 1
	}
	return 2
}

// longer puts the longest of complete slices first.
func (e *event) longer(of *event) int {
	if e.rank() == 1 && of.rank() == 1 {
		return cmp.Compare(of.dur, e.dur)
	}
	return 0
}

// drawer goes through the events in order.
type drawer struct {
	*Trace
	*Drawing
	stacks  [][]uint32          // by track: slices that are open
	pending map[uint32][]uint32 // by track: ends that wait for the next slice
	from    map[uint64]uint32   // by flow: the slice that it comes from
	v1      []uint64            // by key: the number of the flow, plus one
	next    uint64
	first   int32 // slice, -1 before it came
}

func (p *drawer) draw(e *event) {
	switch e.kind {
	case complete, begin, instant, asyncHead:
		p.open(e)
	case end, asyncEnd:
		p.close(e)
	default:
		p.flow(e)
	}
}

// tidy takes slices off a stack that have ended at ts (P4).
func (p *drawer) tidy(track uint32, ts int64) []uint32 {
	stack := p.stacks[track]
	for n := len(stack); n > 0; n-- {
		s := &p.Slices[stack[n-1]]
		if s.Dur < 0 || s.TS+s.Dur > ts || s.Dur == 0 && s.TS == ts {
			break
		}
		stack = stack[:n-1]
	}
	p.stacks[track] = stack
	return stack
}

func (p *drawer) open(e *event) {
	s := &p.Slices[e.ref]
	if p.first < 0 {
		p.first = int32(e.ref)
	}
	stack := p.tidy(s.track, e.ts)
	spilled := false
	if n := len(stack); n > 0 && s.kind == complete {
		parent := &p.Slices[stack[n-1]]
		spilled = parent.Dur >= 0 && s.TS+s.Dur > parent.TS+parent.Dur
	}
	if spilled {
		p.Spilled++
	} else {
		p.stacks[s.track] = append(stack, e.ref)
		if waiting := p.pending[s.track]; len(waiting) > 0 && s.kind != asyncHead {
			for _, ref := range waiting { // P7: the first slice of all where no start came
				from, ok := p.from[p.v1[p.flows[ref].key]-1]
				if !ok {
					from = uint32(p.first)
				}
				p.row(from, e.ref)
				p.drawn[ref] = int32(len(p.Rows))
			}
			delete(p.pending, s.track)
		}
	}
	if b, ok := p.binds[e.ref]; ok { // P12: on this slice itself
		switch {
		case b.in && b.out:
			p.step(b.id, e.ref)
		case b.out:
			p.start(b.id, e.ref)
		case b.in:
			p.end(b.id, e.ref)
		}
	}
	if s.kind == asyncHead && s.Dur == 0 { // n
		p.tidy(s.track, e.ts+1)
	}
}

// close ends the innermost slice that has a begin.
func (p *drawer) close(e *event) {
	track := p.Slices[e.ref].track
	stack := p.tidy(track, e.ts)
	if n := len(stack); n > 0 {
		if s := &p.Slices[stack[n-1]]; s.Dur < 0 {
			s.Dur = e.ts - s.TS
			p.stacks[track] = stack[:n-1]
		}
	}
}

// flow binds an end of an arrow to the slice that began last on its thread, whether or not it has ended (P5).
func (p *drawer) flow(e *event) {
	f := &p.flows[e.ref]
	if !f.valid {
		p.Faults[BadID]++
		return
	}
	if p.v1[f.key] == 0 { // P13
		p.next++
		p.v1[f.key] = p.next
	}
	id := p.v1[f.key] - 1
	if e.kind == flowEnd && !f.enclose {
		p.pending[f.track] = append(p.pending[f.track], e.ref)
		return
	}
	stack := p.stacks[f.track]
	if len(stack) == 0 {
		p.Faults[NoSlice]++
		return
	}
	top := stack[len(stack)-1]
	rows := len(p.Rows)
	switch e.kind {
	case flowStart:
		p.start(id, top)
	case flowStep:
		p.step(id, top)
	case flowEnd:
		p.end(id, top)
	}
	if len(p.Rows) > rows {
		p.drawn[e.ref] = int32(len(p.Rows))
	}
}

func (p *drawer) start(id uint64, slice uint32) {
	if _, ok := p.from[id]; ok {
		p.Faults[SecondStart]++
		return
	}
	p.from[id] = slice
}

func (p *drawer) step(id uint64, slice uint32) {
	from, ok := p.from[id]
	if !ok {
		p.Faults[NoStart]++
		return
	}
	p.row(from, slice)
	p.from[id] = slice
}

func (p *drawer) end(id uint64, slice uint32) {
	from, ok := p.from[id]
	if !ok {
		p.Faults[NoStart]++
		return
	}
	p.row(from, slice)
}

// row draws an arrow, from the slice that begins earlier (P11).
func (p *drawer) row(from, to uint32) {
	if p.Slices[from].TS > p.Slices[to].TS {
		from, to = to, from
		p.Turned++
	}
	p.Rows = append(p.Rows, Row{from, to})
}

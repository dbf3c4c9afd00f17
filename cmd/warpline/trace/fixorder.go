package trace

import "slices"

// sourcesFirst puts, of what begins at one time, where an arrow starts before where it ends: the reader of the trace takes the first for
// the start. Slices of one track keep their order, since the outer one has to come first. steps are in the order of time.
func (w *fixWriter) sourcesFirst(f *wholeFile, steps []step) {
	at := make([]int32, len(f.pieces)) // place of a piece's begin in its group, plus one
	for len(steps) > 0 {
		n := 1
		for n < len(steps) && steps[n].ts == steps[0].ts {
			n++
		}
		group := steps[:n]
		steps = steps[n:]
		for len(group) > 0 && group[0].end {
			group = group[1:]
		}
		if len(group) < 2 {
			continue
		}
		for i := range group {
			at[group[i].piece] = int32(i + 1)
		}
		if w.turned(group, at) {
			o := sourceOrder{w: w, f: f, group: slices.Clone(group), at: at, seen: make([]bool, len(group)), out: group[:0]}
			o.write()
		}
		for i := range group {
			at[group[i].piece] = 0
		}
	}
}

// turned reports whether an arrow of the group would be taken for its opposite.
func (w *fixWriter) turned(group []step, at []int32) bool {
	for i := range group {
		piece := group[i].piece
		for _, source := range w.sources[w.from[piece]:w.from[piece+1]] {
			if at[source] > int32(i+1) {
				return true
			}
		}
	}
	return false
}

// sourceOrder writes a group of begins of one time to out. A circle of arrows stays as it is.
type sourceOrder struct {
	w     *fixWriter
	f     *wholeFile
	group []step
	at    []int32
	seen  []bool
	outer []int32 // by step: the one before it on its track, -1 for none
	out   []step
}

func (o *sourceOrder) write() {
	type track struct {
		row  uint32
		lane uint16
	}
	last := map[track]int32{}
	for i := range o.group {
		p := &o.f.pieces[o.group[i].piece]
		before := int32(-1)
		if p.kind == pieceSlice {
			on := track{p.row, p.lane}
			if known, ok := last[on]; ok {
				before = known
			}
			last[on] = int32(i)
		}
		o.outer = append(o.outer, before)
	}
	for i := range o.group {
		o.add(int32(i))
	}
}

// add writes a step, behind those that have to come before it.
func (o *sourceOrder) add(i int32) {
	if o.seen[i] {
		return
	}
	o.seen[i] = true
	if before := o.outer[i]; before >= 0 {
		o.add(before)
	}
	piece := o.group[i].piece
	for _, source := range o.w.sources[o.w.from[piece]:o.w.from[piece+1]] {
		if n := o.at[source]; n > 0 && source != piece {
			o.add(n - 1)
		}
	}
	o.out = append(o.out, o.group[i])
}

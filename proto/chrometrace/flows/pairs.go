package flows

import (
	"cmp"
	"slices"
)

// Arrows are all arrows that a trace means, each once: from each call of a runtime or driver to what a GPU did under the same correlation,
// whether or not the trace has an arrow for it; what else Meant finds; and those that stand on slices themselves. ambiguous counts what
// a GPU did under a correlation that several calls have, or that GPUs of several numbers have, as in files that were merged: no arrow of
// these is told. unknown is as Meant has it.
func (t *Trace) Arrows() (all []Arrow, unknown, ambiguous uint64) {
	type call struct{ slice, others uint32 }
	calls := map[int64]call{}
	for i := range t.Slices {
		if s := &t.Slices[i]; s.side == host && s.Correlation > 0 && s.kind == complete {
			c, ok := calls[s.Correlation]
			if ok {
				c.others++
			} else {
				c.slice = uint32(i)
			}
			calls[s.Correlation] = c
		}
	}
	places := map[int64]uint32{} // by correlation: the process of what a GPU did under it, plus one
	several := map[int64]bool{}
	for i := range t.Slices {
		s := &t.Slices[i]
		if s.side != device || s.Correlation <= 0 || s.kind != complete {
			continue
		}
		if at, ok := places[s.Correlation]; ok && at != s.process {
			several[s.Correlation] = true
		}
		places[s.Correlation] = s.process
	}
	known := map[Row]bool{}
	add := func(from, to uint32) {
		if r := (Row{from, to}); from != to && !known[r] {
			known[r] = true
			all = append(all, Arrow{From: from, To: to})
		}
	}
	for i := range t.Slices {
		s := &t.Slices[i]
		if s.side != device || s.Correlation <= 0 || s.kind != complete {
			continue
		}
		switch of, ok := calls[s.Correlation]; {
		case !ok:
		case of.others == 0 && !several[s.Correlation]:
			add(of.slice, uint32(i))
		default:
			ambiguous++
		}
	}
	meant, unknown, _ := t.Meant()
	for _, a := range meant {
		from, to := &t.Slices[a.From], &t.Slices[a.To]
		if from.side == host && to.side == device && (calls[to.Correlation].others > 0 || several[to.Correlation]) {
			continue
		}
		add(a.From, a.To)
	}
	t.eachBound(add)
	return all, unknown, ambiguous
}

// eachBound visits the arrows that stand on slices (P12).
func (t *Trace) eachBound(add func(from, to uint32)) {
	order := make([]uint32, 0, len(t.binds))
	for i := range t.binds {
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(t.Slices[a].TS, t.Slices[b].TS), cmp.Compare(t.Slices[b].Dur, t.Slices[a].Dur), cmp.Compare(a, b))
	})
	from := map[uint64]uint32{}
	for _, i := range order {
		b := t.binds[i]
		at, ok := from[b.id]
		if b.in && ok {
			add(at, i)
		}
		if b.out && (!ok || b.in) {
			from[b.id] = i
		}
	}
}

// Device reports whether a slice is what a GPU did.
func (s *Slice) Device() bool { return s.side == device }

package flows

import (
	"cmp"
	"slices"
)

// Catapult draws the arrows as chrome://tracing does, by the end of each (see Arrow.Flow). Its rules are others: it looks for a slice that
// has the time within its bounds, both included, first from the top and then among children, where the earlier wins; the first end closes
// an id; an arrow is never turned. Times are compared in ns, and not in its doubles of ms, which may differ in a few cases. Perfetto comes
// before it: slices get their durations there.
func (t *Trace) Catapult() (drawn []Row, there []bool) {
	c := &catapult{t, t.threads()}
	order := make([]int32, len(t.flows))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(t.flows[a].ts, t.flows[b].ts) })
	open := map[uint32]int32{}
	drawn, there = make([]Row, len(t.flows)), make([]bool, len(t.flows))
	for _, i := range order {
		f := &t.flows[i]
		if f.kind == flowStart {
			open[f.key] = i
			continue
		}
		start, ok := open[f.key]
		if !ok {
			continue
		}
		from, to := c.find(&t.flows[start]), c.find(f)
		if f.kind == flowEnd {
			delete(open, f.key)
		} else {
			open[f.key] = i
		}
		if from >= 0 && to >= 0 {
			drawn[i], there[i] = Row{uint32(from), uint32(to)}, true
		}
	}
	return drawn, there
}

type catapult struct {
	*Trace
	by map[uint32]*thread // by thread as text
}

// thread is the slices of a thread in the order of their begins, the longest first, and for each the one that it is in.
type thread struct {
	slices []uint32
	parent []int32 // index in slices, -1 at the top
	latest []int64 // the latest end up to here
}

func (t *Trace) threads() map[uint32]*thread {
	all := map[uint32]*thread{}
	for i := range t.Slices {
		if s := &t.Slices[i]; s.kind == complete || s.kind == begin {
			of := all[s.text]
			if of == nil {
				of = &thread{}
				all[s.text] = of
			}
			of.slices = append(of.slices, uint32(i))
		}
	}
	for _, of := range all {
		slices.SortStableFunc(of.slices, func(a, b uint32) int {
			return cmp.Or(cmp.Compare(t.Slices[a].TS, t.Slices[b].TS), cmp.Compare(t.Slices[b].Dur, t.Slices[a].Dur))
		})
		var stack []int32
		latest := int64(-1 << 62)
		for i, at := range of.slices {
			s := &t.Slices[at]
			for len(stack) > 0 && !t.Slices[of.slices[stack[len(stack)-1]]].has(s) {
				stack = stack[:len(stack)-1]
			}
			parent := int32(-1)
			if len(stack) > 0 {
				parent = stack[len(stack)-1]
			}
			of.parent = append(of.parent, parent)
			stack = append(stack, int32(i))
			latest = max(latest, s.TS+s.Dur)
			of.latest = append(of.latest, latest)
		}
	}
	return all
}

// has reports whether of is within s.
func (s *Slice) has(of *Slice) bool { return of.TS >= s.TS && of.TS+of.Dur <= s.TS+s.Dur }

// find is the slice of an end, -1 for none.
func (c *catapult) find(f *flow) int32 {
	of := c.by[f.text]
	if of == nil || f.other {
		return -1
	}
	if f.kind == flowEnd && !f.enclose && !f.input {
		n, _ := slices.BinarySearchFunc(of.slices, f.ts, func(a uint32, ts int64) int { return cmp.Compare(c.Slices[a].TS, ts) })
		if n == len(of.slices) {
			return -1
		}
		return int32(of.slices[n])
	}
	// From the earliest that can reach the time on, the first at each level.
	found, n := int32(-1), 0
	n, _ = slices.BinarySearch(of.latest, f.ts)
	for ; n < len(of.slices); n++ {
		s := &c.Slices[of.slices[n]]
		if s.TS > f.ts {
			break
		}
		if s.TS+s.Dur >= f.ts && of.parent[n] == found {
			found = int32(n)
		}
	}
	if found < 0 {
		return -1
	}
	return int32(of.slices[found])
}

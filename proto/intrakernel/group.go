package intrakernel

// group is the durations of one region, of one in one block, or of one in one warp.
type group struct {
	key uint64
	stat
	// first is where its durations begin in the list of all.
	first int
}

// groups are those of a timeline by a key.
type groups struct {
	all   []group
	index stateTable // an index into all, plus one
}

// add adds the slices up by the key, in their order.
func (g *groups) add(t *Timeline, key func(e *Event) uint64) {
	scale := t.header.Options.Scale
	for i := range t.Events {
		e := &t.Events[i]
		if e.Instant {
			continue
		}
		at := g.index.at(key(e))
		if *at == 0 {
			g.all = append(g.all, group{key: key(e)})
			*at = uint32(len(g.all))
		}
		g.all[*at-1].add(float64(float64(e.Dur) * scale))
	}
}

// durations returns the durations of all slices, group by group, in ns before the scale.
func (g *groups) durations(t *Timeline, key func(e *Event) uint64) []uint64 {
	n := 0
	for i := range g.all {
		g.all[i].first = n
		n += int(g.all[i].n)
	}
	all, next := make([]uint64, n), make([]int, len(g.all))
	for i := range g.all {
		next[i] = g.all[i].first
	}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Instant {
			continue
		}
		at := &next[*g.index.at(key(e))-1]
		all[*at] = e.Dur
		*at++
	}
	return all
}

// of are the durations of one group.
func (g *group) of(durations []uint64) []uint64 { return durations[g.first : g.first+int(g.n)] }

package flows

import (
	"cmp"
	"slices"
)

// Arrow is an arrow as it was meant: between slices of Trace.Slices.
type Arrow struct {
	From, To uint32
	end      int32 // flow
}

// place is a thread and a time.
type place struct {
	text uint32
	ts   int64
}

// Meant are the arrows as they were meant. An end stands for the slice that was written just before it with its thread and time; else for
// the one of its correlation, of a runtime or driver where the arrow starts, of a GPU where it ends; else for the shortest that begins
// there, and else for the last begun that ends there. In a trace whose arrows stand where slices end, that comes first. Of ends whose id
// started several times the latest start before them counts. unknown counts arrows of which an end stands for nothing, and lone ends that
// no start belongs to, which is normal.
func (t *Trace) Meant() (all []Arrow, unknown, lone uint64) {
	starts, heads := map[uint32][]int32{}, t.findable()
	for i := range t.flows {
		if f := &t.flows[i]; f.kind == flowStart && f.valid {
			starts[f.key] = append(starts[f.key], int32(i))
		}
	}
	for _, of := range starts {
		slices.SortStableFunc(of, func(a, b int32) int { return cmp.Compare(t.flows[a].ts, t.flows[b].ts) })
	}
	for i := range t.flows {
		f := &t.flows[i]
		if f.kind == flowStart || !f.valid {
			continue
		}
		of := starts[f.key]
		if len(of) == 0 {
			lone++
			continue
		}
		n, _ := slices.BinarySearchFunc(of, f.ts+1, func(a int32, ts int64) int { return cmp.Compare(t.flows[a].ts, ts) })
		start := of[max(n-1, 0)]
		from, to := heads.of(start), heads.of(int32(i))
		if from < 0 || to < 0 {
			unknown++
			continue
		}
		all = append(all, Arrow{uint32(from), uint32(to), int32(i)})
	}
	return all, unknown, lone
}

// finder finds the slices that ends of arrows stand for.
type finder struct {
	*Trace
	launches map[int64][]uint32 // calls, by correlation
	works    map[int64][]uint32 // what GPUs did
	begins   map[place]uint32   // the shortest that begins there
	ends     map[place]uint32   // the last begun that ends there
	atEnds   [2]bool            // starts of arrows, and their ends, are put where slices end
}

// findable indexes the slices that some end needs.
func (t *Trace) findable() *finder {
	f := &finder{Trace: t, launches: map[int64][]uint32{}, works: map[int64][]uint32{}}
	f.index(func(of *flow) bool { return of.before < 0 })
	// Some writers put ends of arrows where slices end. Where such an end has no slice before it, more slices end there than begin.
	var begin, end [2]int
	for i := range t.flows {
		of := &t.flows[i]
		if of.before >= 0 {
			continue
		}
		at := place{of.text, of.ts}
		if _, ok := f.begins[at]; ok {
			begin[of.side()]++
		}
		if _, ok := f.ends[at]; ok {
			end[of.side()]++
		}
	}
	f.atEnds = [2]bool{end[0] > begin[0], end[1] > begin[1]}
	if f.atEnds != [2]bool{} {
		f.index(func(*flow) bool { return true })
	}
	return f
}

// side is 0 of a start and 1 of an end.
func (f *flow) side() int {
	if f.kind == flowStart {
		return 0
	}
	return 1
}

// index finds the slices at the places of the flows that are wanted.
func (f *finder) index(wanted func(*flow) bool) {
	t := f.Trace
	f.begins, f.ends = map[place]uint32{}, map[place]uint32{}
	clear(f.launches)
	clear(f.works)
	needed := map[place]bool{}
	for i := range t.flows {
		if of := &t.flows[i]; wanted(of) {
			needed[place{of.text, of.ts}] = true
		}
	}
	if len(needed) == 0 {
		return
	}
	for i := range t.Slices {
		s := &t.Slices[i]
		if s.kind == end {
			continue
		}
		switch {
		case s.Correlation == 0:
		case s.side == host:
			f.launches[s.Correlation] = append(f.launches[s.Correlation], uint32(i))
		case s.side == device:
			f.works[s.Correlation] = append(f.works[s.Correlation], uint32(i))
		}
		if at := (place{s.text, s.TS}); needed[at] {
			if known, ok := f.begins[at]; !ok || s.Dur < t.Slices[known].Dur {
				f.begins[at] = uint32(i)
			}
		}
		if at := (place{s.text, s.TS + s.Dur}); s.Dur > 0 && needed[at] {
			if known, ok := f.ends[at]; !ok || s.TS >= t.Slices[known].TS {
				f.ends[at] = uint32(i)
			}
		}
	}
}

// of is the slice that an end of an arrow stands for, -1 for none.
func (f *finder) of(i int32) int32 {
	end := &f.flows[i]
	atEnds := f.atEnds[end.side()]
	if end.before >= 0 && !atEnds {
		return end.before
	}
	among := f.works
	if end.kind == flowStart {
		among = f.launches
	}
	with := among[end.id]
	for _, s := range with {
		if f.Slices[s].text == end.text && f.Slices[s].TS == end.ts {
			return int32(s)
		}
	}
	if len(with) == 1 {
		return int32(with[0])
	}
	at := place{end.text, end.ts}
	if s, ok := f.ends[at]; ok && atEnds {
		return int32(s)
	}
	if end.before >= 0 {
		return end.before
	}
	if s, ok := f.begins[at]; ok {
		return int32(s)
	}
	if s, ok := f.ends[at]; ok {
		return int32(s)
	}
	return -1
}

// Verdict is what became of an arrow in a viewer.
type Verdict uint8

// The verdicts.
const (
	Right  Verdict = iota
	Lost           // it is not drawn
	Wrong          // an end is on another slice
	Turned         // on its slices, but from its end to its start
	Extra          // drawn where none was meant
	Verdicts
)

// Judge says what became of each arrow that was meant, in Perfetto.
func (t *Trace) Judge(d *Drawing, meant []Arrow) []Verdict {
	return Compare(meant, func(i int) (Row, bool) { return d.Of(meant[i]) })
}

// Of is the row of an arrow's end, false if there is none.
func (d *Drawing) Of(a Arrow) (Row, bool) {
	if row := d.drawn[a.end]; row != 0 {
		return d.Rows[row-1], true
	}
	return Row{}, false
}

// Flow is the number of the arrow's end, for Catapult's answer.
func (a Arrow) Flow() int { return int(a.end) }

// Compare says what became of each arrow that was meant, of which drawn gives the i-th as it is drawn, if it is.
func Compare(meant []Arrow, drawn func(i int) (Row, bool)) []Verdict {
	verdicts := make([]Verdict, len(meant))
	for i, a := range meant {
		r, ok := drawn(i)
		switch {
		case !ok:
			verdicts[i] = Lost
		case r.From == a.From && r.To == a.To:
		case r.From == a.To && r.To == a.From:
			verdicts[i] = Turned
		default:
			verdicts[i] = Wrong
		}
	}
	return verdicts
}

// Real reports whether it is a slice or an instant: ends of slices stand among them too.
func (s *Slice) Real() bool { return s.kind != end }

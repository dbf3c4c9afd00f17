package trace

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/perfetto"
)

// fixWriter writes files one after the other into one trace.
type fixWriter struct {
	out     *perfetto.Writer
	done    *Fixed
	uuid    uint64 // the last that was given
	arrow   uint64
	again   rereader
	mended  []byte            // scratch
	event   chrometrace.Event // of what was read again
	err     error             // the first of reading again
	counts  map[string]uint64 // counters of this file, by process and name
	ids     []uint64          // of arrows, by piece
	sources []int32           // of ids: the piece where the arrow starts
	from    []int32           // where a piece's ids begin in ids
}

func newFixWriter(out io.Writer, done *Fixed) *fixWriter {
	return &fixWriter{out: perfetto.New(out), done: done}
}

func (w *fixWriter) next() uint64 { w.uuid++; return w.uuid }

// step is one packet: what begins, or ends. At one time ends come first, the innermost before those around it, and then begins, the
// outermost first, host before devices.
type step struct {
	ts    int64
	piece int32
	rank  int32 // by begin
	end   bool
}

// file writes one file, whose processes are called by a label.
func (w *fixWriter) file(f *wholeFile, label string, number int) {
	w.done.add(f)
	order := f.layOut()
	w.tracks(f, label, number)
	w.arrows(f)
	w.counts, w.again = map[string]uint64{}, rereader{}
	steps := make([]step, 0, 2*len(order))
	for rank, i := range order {
		p := &f.pieces[i]
		steps = append(steps, step{p.ts, i, int32(rank), false})
		if p.kind == pieceSlice && p.dur > 0 {
			steps = append(steps, step{p.till(), i, int32(rank), true})
		}
	}
	device := func(s *step) int {
		if p := &f.pieces[s.piece]; p.kind != pieceCounter && f.rows[p.row].device {
			return 1
		}
		return 0
	}
	slices.SortFunc(steps, func(a, b step) int {
		if c := cmp.Compare(a.ts, b.ts); c != 0 {
			return c
		}
		switch {
		case a.end && b.end:
			return cmp.Compare(b.rank, a.rank)
		case a.end:
			return -1
		case b.end:
			return 1
		}
		return cmp.Or(cmp.Compare(device(&a), device(&b)), cmp.Compare(a.rank, b.rank))
	})
	w.sourcesFirst(f, steps)
	for i := range steps {
		w.step(f, &steps[i])
	}
	for phase, n := range f.left {
		w.done.LeftOut[phase] += n
	}
}

// tracks names processes, threads and lanes.
func (w *fixWriter) tracks(f *wholeFile, label string, number int) {
	for i := range f.processes {
		p := &f.processes[i]
		p.uuid = w.next()
		name := label + cmp.Or(p.name, "process") + " " + p.pid
		w.out.Track(p.uuid, 0, name, clamp(number*1_000_000+p.order), false)
	}
	for i := range f.rows {
		r := &f.rows[i]
		for lane := range max(1, len(r.lanes)) {
			uuid := w.next()
			r.uuids = append(r.uuids, uuid)
			w.out.Track(uuid, f.processes[r.process].uuid, r.name, clamp(r.order), false)
			if lane > 0 {
				w.done.Lanes++
			}
		}
	}
}

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

// arrows gives each arrow an id of its own, and each piece the ids of its arrows.
func (w *fixWriter) arrows(f *wholeFile) {
	all, unknown, ambiguous := f.flows.Arrows()
	w.done.Unknown += unknown
	w.done.Ambiguous += ambiguous
	w.from = append(w.from[:0], make([]int32, len(f.pieces)+1)...)
	ends := func(visit func(from, to int32)) {
		for _, a := range all {
			if from, to := f.of[a.From], f.of[a.To]; from >= 0 && to >= 0 {
				visit(from, to)
			}
		}
	}
	ends(func(from, to int32) {
		w.from[from+1]++
		w.from[to+1]++
	})
	for i := range f.pieces {
		w.from[i+1] += w.from[i]
	}
	w.ids = append(w.ids[:0], make([]uint64, w.from[len(f.pieces)])...)
	w.sources = append(w.sources[:0], make([]int32, len(w.ids))...)
	ends(func(from, to int32) {
		w.arrow++
		w.done.Arrows++
		for _, i := range [2]int32{from, to} { // an id is never 0
			at := w.from[i]
			for w.ids[at] != 0 {
				at++
			}
			w.ids[at], w.sources[at] = w.arrow, from
		}
	})
	f.flows, f.of = nil, nil // they take much memory
}

func (w *fixWriter) step(f *wholeFile, s *step) {
	p := &f.pieces[s.piece]
	ts := p.ts + f.base
	if p.kind == pieceCounter {
		w.counter(f, p, ts)
		return
	}
	r := &f.rows[p.row]
	track := r.uuids[0]
	if p.kind == pieceSlice {
		track = r.uuids[p.lane]
	}
	if s.end {
		w.end(f, p, track)
		return
	}
	e := w.load(f, p.at, p.size)
	name, category := []byte(chrometrace.Text(e.Name)), []byte(chrometrace.Text(e.Category))
	if p.kind == pieceInstant {
		w.out.Instant(track, name, category)
	} else {
		w.out.Slice(track, name, category)
	}
	w.args(e.Args)
	for _, id := range w.ids[w.from[s.piece]:w.from[s.piece+1]] {
		w.out.Flow(id)
	}
	w.out.Send(ts)
	w.done.Slices++
	if p.kind == pieceSlice && p.dur == 0 {
		w.end(f, p, track)
	}
}

// end ends a slice, with the arguments of its end.
func (w *fixWriter) end(f *wholeFile, p *piece, track uint64) {
	w.out.End(track)
	if p.endAt >= 0 {
		w.args(w.load(f, p.endAt, p.ends).Args)
	}
	w.out.Send(p.till() + f.base)
}

// load reads the text of an event again.
func (w *fixWriter) load(f *wholeFile, at int64, size int32) *chrometrace.Event {
	text, err := w.again.read(f.text, at, int(size))
	ok := err == nil || err == io.EOF
	if ok {
		w.mended, ok = chrometrace.Split(&w.event, text, w.mended)
	}
	if !ok && w.err == nil {
		w.err = fmt.Errorf("%s changed while it was read: byte %d is no event any more", f.path, at)
	}
	return &w.event
}

// args writes the arguments of an event.
func (w *fixWriter) args(args []byte) {
	chrometrace.EachMember(args, func(key, v []byte) {
		name := []byte(chrometrace.Text(key))
		switch {
		case len(v) == 0:
		case v[0] == '"':
			w.out.Text(name, []byte(chrometrace.Text(v)))
		case string(v) == "true" || string(v) == "false":
			w.out.Bool(name, v[0] == 't')
		case v[0] == '{' || v[0] == '[' || string(v) == "null":
			w.out.JSON(name, quoteNaN(v))
		default:
			w.number(name, v)
		}
	})
}

func (w *fixWriter) number(name, v []byte) {
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		w.out.Int(name, n)
	} else if n, err := strconv.ParseUint(string(v), 10, 64); err == nil {
		w.out.Uint(name, n)
	} else if x, err := strconv.ParseFloat(string(v), 64); err == nil {
		w.out.Double(name, x)
	} else {
		w.out.Text(name, v)
	}
}

// counter writes a counter's values, each argument on a track of its own.
func (w *fixWriter) counter(f *wholeFile, p *piece, ts int64) {
	e := w.load(f, p.at, p.size)
	title := plain(e.Name)
	if len(e.ID) > 0 {
		title += " " + plain(e.ID) // counters of several ids are several
	}
	chrometrace.EachMember(e.Args, func(key, v []byte) {
		name := title
		if series := chrometrace.Text(key); series != "value" && series != title {
			name += " " + series
		}
		at := strconv.Itoa(int(p.row)) + "\x00" + name
		text := string(bytes.Trim(v, `"`))
		n, err := strconv.ParseInt(text, 10, 64)
		x, errDouble := strconv.ParseFloat(text, 64)
		if err != nil && errDouble != nil {
			f.left["C with a value that is no number"]++
			return
		}
		track, ok := w.counts[at]
		if !ok {
			track = w.next()
			w.counts[at] = track
			w.out.Track(track, f.processes[p.row].uuid, name, 0, true)
		}
		if err == nil {
			w.out.CountInt(track, n)
		} else {
			w.out.Count(track, x)
		}
		w.out.Send(ts)
		w.done.Counters++
	})
}

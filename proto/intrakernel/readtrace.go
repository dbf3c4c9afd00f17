package intrakernel

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/warpline/warpline/proto/chrometrace"
)

// ReadTrace makes a timeline of a trace that write_trace wrote. What h knows of the launch it takes from there: options, filter, path and,
// if known, names and grouping. Otherwise the trace tells: a region's id is the lowest with its colour (where two names share one, each
// later one 36 more), GroupBySM follows pid and tid, and Names and Options.GroupBySM of h are set. Where h is known and has no names, a
// name that is a number is the id. The scale has to be the one that the trace was written with. Unmatched begins and ends are in no trace
// but a legacy one. WriteTrace is not for such a timeline.
//
// Traces that ikp_nsys_merge made are refused: their times were stretched over the kernel and are no measurement. Those of Triton's Proton
// are ErrProton.
func ReadTrace(r io.Reader, h *Header, known bool) (*Timeline, error) {
	if err := h.checkOptions(); err != nil {
		return nil, err
	}
	t := traceReader{h: h, named: known && len(h.Names) > 0, numbered: known && len(h.Names) == 0,
		bySM: !known || h.Options.GroupBySM, byBlock: !known || !h.Options.GroupBySM,
		keep: h.filter(), regions: map[string]uint16{}}
	var wrong error
	in := chrometrace.NewReader(r)
	in.Member = func(key string, value []byte) {
		if key == "metadata" {
			chrometrace.EachMember(value, func(key, _ []byte) { t.stretched = t.stretched || string(key) == `"ikp_nsys_merge"` })
		}
	}
	for {
		e, err := in.Next()
		if err == io.EOF && !in.Listed() {
			return nil, &Error{In: InTrace, Text: "an object without a list traceEvents: give the trace, not another file of the profiler"}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, &Error{In: InTrace, Text: err.Error() + ": only a whole trace has its summary; write it again", Err: err}
		}
		if len(t.events)+len(t.records) == 0 && IsProton(e) {
			return nil, &Error{In: InTrace, Err: ErrProton, Text: "Triton's Proton wrote this trace, in cycles: send it to a service, which " +
				"has the summaries in SQL"}
		}
		t.elements++
		t.stretched = t.stretched || isMerged(e)
		if wrong == nil { // of what follows only what says which kind of trace this is is of interest
			wrong = t.add(e)
		}
	}
	switch {
	case t.stretched:
		return nil, errStretched
	case wrong != nil:
		return nil, wrong
	}
	return t.timeline(known)
}

// isMerged reports whether an event names a process that ikp_nsys_merge adds. Its own metadata may have been lost on the way.
func isMerged(e *chrometrace.Event) bool {
	if string(e.Phase) != `"M"` || string(e.Name) != `"process_name"` {
		return false
	}
	pid, err := strconv.ParseUint(string(e.PID), 10, 64)
	if err != nil || pid < 10000 || pid > 10004 {
		return false
	}
	merged := false
	chrometrace.EachMember(e.Args, func(key, value []byte) {
		merged = merged || string(key) == `"name"` && bytes.HasPrefix(value, []byte(`"[NSys] `))
	})
	return merged
}

// ErrStretched is what Error.Err is for a trace whose times were stretched.
var ErrStretched = errors.New("stretched times")

var errStretched = &Error{In: InTrace, Err: ErrStretched, Text: "stretched_times: ikp_nsys_merge made this trace, and stretched its " +
	"times over the kernel: give the trace that write_trace wrote"}

// traceReader collects the events of a trace.
type traceReader struct {
	h *Header
	// named tells that the names of h are the trace's.
	named         bool
	numbered      bool // h has no names, so that a name that is a number is an id
	bySM, byBlock bool // pid and tid can be meant so
	keep          []uint64
	stretched     bool
	regions       map[string]uint16 // by colour and name, as they stand
	taken         []bool            // ids, where the trace gives them
	events        []Event
	records       []Record
	slices        int
	halves        int // begins and ends
	elements      uint64
}

func (t *traceReader) wrong(e *chrometrace.Event, format string, args ...any) error {
	return wrong(InTrace, "event at byte %d: %s", e.Offset, fmt.Sprintf(format, args...))
}

// add takes one event.
func (t *traceReader) add(e *chrometrace.Event) error {
	kind := Mark
	switch string(e.Phase) {
	case `"M"`:
		return nil
	case `"X"`:
		t.slices++
	case `"B"`:
		kind = Begin
		t.halves++
	case `"E"`:
		kind = End
		t.halves++
	case `"i"`:
	default:
		return t.wrong(e, "ph %s is none of write_trace's X, B, E, i and M: give a trace that it wrote", Shortened(string(e.Phase)))
	}
	block, place, err := t.where(e)
	if err != nil {
		return err
	}
	region, err := t.region(e)
	if err != nil {
		return err
	}
	ts, err := t.time(e, "ts", e.TS)
	if err != nil {
		return err
	}
	if most := t.h.most(); len(t.records)+len(t.events) >= most {
		return tooMany(InTrace, most)
	}
	if string(e.Phase) != `"X"` {
		t.records = append(t.records, Record{TS: ts, Region: region, Type: kind, Block: block, Place: place})
		return nil
	}
	dur, err := t.time(e, "dur", e.Dur)
	if err != nil {
		return err
	}
	t.events = append(t.events, Event{TS: ts, Dur: dur, Region: region, Block: block, Place: place})
	return nil
}

// where reads block, warp and SM of an event, which have to agree with pid and tid.
func (t *traceReader) where(e *chrometrace.Event) (block, place uint16, err error) {
	var sm, b, warp uint64
	seen := 0
	read := func(text []byte, most uint64, into *uint64) {
		if n, err := strconv.ParseUint(string(text), 10, 64); err == nil && n <= most {
			*into = n
			seen++
		}
	}
	chrometrace.EachMember(e.Args, func(key, value []byte) {
		switch string(key) {
		case `"sm"`:
			read(value, 1023, &sm)
		case `"block"`:
			read(value, math.MaxUint16, &b)
		case `"warp"`:
			read(value, 63, &warp)
		}
	})
	if seen != 3 {
		return 0, 0, t.wrong(e, "args %s, and write_trace gives sm (to 1023), block (to 65535) and warp (to 63): give a trace that it wrote",
			Shortened(string(e.Args)))
	}
	var pid, tid uint64
	read(e.PID, math.MaxUint32, &pid)
	read(e.TID, math.MaxUint32, &tid)
	t.bySM = t.bySM && pid == sm && tid == b<<6|warp
	t.byBlock = t.byBlock && pid == b && tid == warp*32
	if seen != 5 || !t.bySM && !t.byBlock {
		return 0, 0, t.wrong(e, "pid %s and tid %s do not follow from args %s: give a trace of write_trace, with its own input, or with "+
			"options.group_by_smid as it was", Shortened(string(e.PID)), Shortened(string(e.TID)), Shortened(string(e.Args)))
	}
	if t.keep != nil && t.keep[b/64]&(1<<(b%64)) == 0 {
		return 0, 0, t.wrong(e, "block %d is not in the block_filter of the input: give the input of this launch", b)
	}
	return uint16(b), uint16(warp | sm<<6), nil
}

// region is the id of an event's region.
func (t *traceReader) region(e *chrometrace.Event) (uint16, error) {
	var buffer [128]byte
	key := append(append(buffer[:0], e.Colour...), e.Name...)
	if id, ok := t.regions[string(key)]; ok {
		return id, nil
	}
	colour := -1
	if n := len(e.Colour); n > 2 {
		colour = colourIndex(e.Colour[1 : n-1])
	}
	if colour < 0 || len(e.Name) == 0 || e.Name[0] != '"' {
		return 0, t.wrong(e, "name %s and cname %s are no region's: give a trace that write_trace wrote", Shortened(string(e.Name)),
			Shortened(string(e.Colour)))
	}
	name := chrometrace.Text(e.Name)
	id, ok := 0, false
	number, isNumber := numberOf(name, colour)
	switch {
	case t.named:
		id, ok = t.knownRegion(name, colour)
	case t.numbered && isNumber:
		id, ok = number, true
		t.take(id)
	default:
		id, ok = t.newRegion(name, colour)
	}
	switch {
	case !ok && !t.named:
		return 0, t.wrong(e, "more regions have cname %s than there are ids of 16 bits for it: give a trace that write_trace wrote",
			Shortened(string(e.Colour)))
	case !ok:
		return 0, t.wrong(e, "no region of the input is called %s and has cname %s: give the input of this launch, or none", Shortened(name),
			Shortened(string(e.Colour)))
	}
	t.regions[string(key)] = uint16(id)
	return uint16(id), nil
}

// knownRegion finds a region of the input. Names are compared as they are written.
func (t *traceReader) knownRegion(name string, colour int) (int, bool) {
	name = string(appendEscaped(nil, name))
	for id := colour; id < len(t.h.Names); id += len(colours) {
		if string(appendEscaped(nil, t.h.Names[id])) == name {
			return id, true
		}
	}
	id, ok := numberOf(name, colour)
	return id, ok && id >= len(t.h.Names)
}

// numberOf is the id of a region that has no name of its own.
func numberOf(name string, colour int) (int, bool) {
	id, err := strconv.ParseUint(name, 10, 16)
	return int(id), err == nil && int(id)%len(colours) == colour && strconv.Itoa(int(id)) == name
}

// take makes sure that no other region gets the id. Those up to it that have no name yet are called by their number.
func (t *traceReader) take(id int) {
	for len(t.taken) <= id {
		t.h.Names = append(t.h.Names[:len(t.taken)], strconv.Itoa(len(t.taken)))
		t.taken = append(t.taken, false)
	}
	t.taken[id] = true
}

// newRegion gives a region the lowest id of its colour that no other has.
func (t *traceReader) newRegion(name string, colour int) (int, bool) {
	for id := colour; id < MaxNames; id += len(colours) {
		if id >= len(t.taken) || !t.taken[id] {
			t.take(id)
			t.h.Names[id] = name
			return id, true
		}
	}
	return 0, false
}

// time is a time of an event in ns, before the scale.
func (t *traceReader) time(e *chrometrace.Event, field string, text []byte) (uint64, error) {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, t.wrong(e, "%s %s is no time: give a trace that write_trace wrote", field, Shortened(string(text)))
	}
	scale := t.h.Options.Scale
	if scale == 0 { // whatever it was, it counts 0
		return 0, nil
	}
	ns := x / scale
	whole := math.Round(ns)
	unsure := 0.6e-6/math.Abs(scale) + float64(math.Abs(ns)*1e-15) // what six decimals leave open
	switch {
	case whole < 0:
		return 0, t.wrong(e, "%s %s is before the first record at scale %v: give the scale that the trace was written with", field, text, scale)
	case math.Abs(ns-whole) > unsure:
		return 0, t.wrong(e, "%s %s is no whole number of ns at scale %v: give the scale that the trace was written with", field, text, scale)
	case whole >= 1<<64:
		return math.MaxUint64, nil
	}
	return uint64(whole), nil
}

// timeline puts together what was collected.
func (t *traceReader) timeline(known bool) (*Timeline, error) {
	if t.slices > 0 && t.halves > 0 {
		return nil, wrong(InTrace, "%d slices (X) beside %d begins and ends (B, E): give a trace that write_trace wrote", t.slices, t.halves)
	}
	if !known {
		t.h.Options.GroupBySM = t.bySM
	}
	if t.halves > 0 {
		c := &Capture{Records: t.records}
		line, err := c.Timeline(t.h)
		if err == nil {
			line.Rounded, line.Elements, line.halves = t.rounded(), t.elements, true
		}
		return line, err
	}
	line := &Timeline{Rounded: t.rounded(), header: t.h, Survivors: 2*len(t.events) + len(t.records), Elements: t.elements}
	for _, r := range t.records { // marks: there are no halves
		t.events = append(t.events, Event{TS: r.TS, Region: r.Region, Block: r.Block, Place: r.Place, Instant: true})
	}
	line.Events = t.events
	// An end's place in the order of records; of two that end at once in one warp the later begin was the inner one.
	slices.SortFunc(line.Events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.TS+a.Dur, b.TS+b.Dur), cmp.Compare(a.SM(), b.SM()), cmp.Compare(a.Block, b.Block),
			cmp.Compare(a.Warp(), b.Warp()), cmp.Compare(a.Region, b.Region), cmp.Compare(b.TS, a.TS))
	})
	return line, nil
}

// rounded reports whether a ns is less than what six decimals show.
func (t *traceReader) rounded() bool { s := math.Abs(t.h.Options.Scale); return s > 0 && s < 1.2e-6 }

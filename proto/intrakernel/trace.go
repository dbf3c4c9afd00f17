package intrakernel

import (
	"cmp"
	"io"
	"slices"
)

// WriteTrace writes the trace: Chrome's JSON, whose ts and dur are scaled ns. It brings Events into the order of the trace, so WriteSummary
// and WriteBlocks come before it.
func (t *Timeline) WriteTrace(w io.Writer) error {
	p := newPrinter(w)
	p.text(`{"displayTimeUnit":"ns","traceEvents":[` + "\n")
	t.printTracks(p)
	if t.header.Options.CompleteEvents {
		t.orderEvents()
		t.printEvents(p)
	} else {
		t.printRecords(p)
	}
	p.text("\n]}\n")
	return p.flush()
}

// printTracks names processes and threads. There is one at least, so every event has a comma before it.
func (t *Timeline) printTracks(p *printer) {
	between := ""
	for i, key := range t.tracks {
		pid := key >> 32
		if i > 0 && t.tracks[i-1]>>32 == pid {
			continue
		}
		p.text(between)
		between = ",\n"
		p.uint(`{"ph":"M","name":"process_name","pid":`, pid)
		p.text(`,"tid":0,"args":{"name":"sm `)
		if t.header.Options.GroupBySM {
			p.uint("", pid)
		} else {
			p.uint("", uint64(t.firstSM[uint16(pid)]))
			p.uint(" block ", pid)
		}
		p.text(`"}}`)
		p.spill()
	}
	for _, key := range t.tracks {
		tid := key & (1<<32 - 1)
		p.uint(",\n"+`{"ph":"M","name":"thread_name","pid":`, key>>32)
		p.uint(`,"tid":`, tid)
		if t.header.Options.GroupBySM {
			p.uint(`,"args":{"name":"block `, tid>>6)
			p.uint(" warp ", tid&63)
		} else {
			p.uint(`,"args":{"name":"warp `, tid/32)
		}
		p.text(`"}}`)
		p.spill()
	}
}

// orderEvents sorts the events by track, begin, duration (the longest first, so that what is inside comes behind) and region.
func (t *Timeline) orderEvents() {
	o := &t.header.Options
	if t.tiesShow() {
		introsort(t.Events, func(a, b *Event) int {
			return cmp.Or(cmp.Compare(o.trackKey(a.Block, a.Place), o.trackKey(b.Block, b.Place)), cmp.Compare(a.TS, b.TS),
				cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Region, b.Region))
		})
		return
	}
	sorted, spare := sortBy(t.Events, make([]Event, len(t.Events)), func(e *Event) uint64 { return e.TS })
	key := func(e *Event) uint64 { return o.trackKey(e.Block, e.Place) }
	t.Events = byTrack(sorted, spare, t.tracks, key)
	sortTies(t.Events, func(a, b *Event) bool { return a.TS == b.TS && key(a) == key(b) }, func(a, b Event) int {
		return cmp.Or(cmp.Compare(b.Dur, a.Dur), cmp.Compare(a.Region, b.Region))
	})
}

// tiesShow reports whether events that orderEvents takes for equal can be printed differently: an instant and a slice of 0 ns, or, where
// blocks are processes, events of two SMs.
func (t *Timeline) tiesShow() bool {
	instants, empty := false, false
	for i := range t.Events {
		e := &t.Events[i]
		instants = instants || e.Instant
		empty = empty || !e.Instant && e.Dur == 0
		if !t.header.Options.GroupBySM && e.SM() != t.firstSM[e.Block] {
			return true
		}
	}
	return instants && empty
}

// lineParts are the parts of an event's line that a region decides.
type lineParts struct{ name, colour []byte }

// parts are those of a region, made when it is first seen.
func (t *Timeline) parts(cache []*lineParts, region uint16) *lineParts {
	if p := cache[region]; p != nil {
		return p
	}
	name := appendEscaped([]byte(`,`+"\n"+`{"name":"`), t.header.name(region))
	p := &lineParts{append(name, `","ph":"`...), []byte(`,"cname":"` + colourOf(region) + `","args":{"sm":`)}
	cache[region] = p
	return p
}

func (t *Timeline) printEvents(p *printer) {
	scale, cache := t.header.Options.Scale, make([]*lineParts, MaxNames)
	for i := range t.Events {
		e := &t.Events[i]
		parts := t.parts(cache, e.Region)
		p.b = append(p.b, parts.name...)
		if e.Instant {
			p.f6(`i","s":"t","ts":`, float64(e.TS)*scale)
		} else {
			p.f6(`X","ts":`, float64(e.TS)*scale)
			p.f6(`,"dur":`, float64(e.Dur)*scale)
		}
		t.printPlace(p, parts, e.Block, e.Place)
	}
}

func (t *Timeline) printRecords(p *printer) {
	scale, cache := t.header.Options.Scale, make([]*lineParts, MaxNames)
	for i := range t.records {
		r := &t.records[i]
		parts := t.parts(cache, r.Region)
		p.b = append(p.b, parts.name...)
		phase := `i"` // the peer gives a scope to marks alone
		switch r.Type {
		case Begin:
			phase = `B"`
		case End:
			phase = `E"`
		case Mark:
			phase = `i","s":"t"`
		}
		p.text(phase)
		p.f6(`,"ts":`, float64(r.TS)*scale)
		t.printPlace(p, parts, r.Block, r.Place)
	}
}

// printPlace ends the line of an event.
func (t *Timeline) printPlace(p *printer, parts *lineParts, block, place uint16) {
	key := t.header.Options.trackKey(block, place)
	p.uint(`,"pid":`, key>>32)
	p.uint(`,"tid":`, key&(1<<32-1))
	p.b = append(p.b, parts.colour...)
	p.uint("", uint64(place>>6))
	p.uint(`,"block":`, uint64(block))
	p.uint(`,"warp":`, uint64(place&63))
	p.text("}}")
	p.spill()
}

// largest sorts items by count, the largest first, then by id, and cuts them to top, unless that is 0.
func largest[T any](items []T, top uint32, count func(*T) uint64, id func(*T) uint64) []T {
	slices.SortFunc(items, func(a, b T) int { return cmp.Or(cmp.Compare(count(&b), count(&a)), cmp.Compare(id(&a), id(&b))) })
	if top != 0 && uint64(len(items)) > uint64(top) {
		items = items[:top]
	}
	return items
}

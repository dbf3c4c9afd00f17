package intrakernel

import (
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
)

// maxRing is how many records of one ring are held to pair them.
const maxRing = 1 << 19

// ErrMixed is what SurveyRings returns for buffers that cannot be paired ring by ring: a ring holds another warp's records, as those of
// block 65536 and later do, or too many.
var ErrMixed = errors.New("intrakernel: rings cannot be paired one by one")

// Rings is a capture that is read ring by ring, so that it takes the memory of one ring, whatever its size: each warp has its own, and a
// begin and its end are in the same. It is read twice: first to learn what every part says of the whole. It is not safe for concurrent
// use.
type Rings struct {
	// Recorded and Survived are as those of a Capture.
	Recorded, Survived uint64
	// Survivors, UnmatchedBegin and UnmatchedEnd are as those of a Timeline.
	Survivors, UnmatchedBegin, UnmatchedEnd uint64

	header      *Header
	region      func(region uint16) RegionName
	first, last uint64 // times of records
	ends        []int  // of the parts, in visits
}

// SurveyRings reads the buffers for the first time. Errors are as those of Collect, and ErrMixed. Parts will have at most limit bytes;
// kernel is the name that they give the regions' kernel.
func SurveyRings(events, counters io.Reader, h *Header, kernel string, limit int) (*Rings, error) {
	if err := h.Session.check(); err != nil {
		return nil, err
	}
	kernel = clipName(kernel)
	r := &Rings{header: h, first: math.MaxUint64, region: func(region uint16) RegionName {
		return RegionName{Region: region, Kernel: kernel, Name: clipName(h.name(region))}
	}}
	plan, err := newPlan(limit, r.region)
	if err != nil {
		return nil, err
	}
	c := newCollector(events, counters, h)
	p := newPairing(&h.Options)
	err = c.eachRing(p, func(records []Record) {
		r.Survivors += uint64(len(records))
		r.first, r.last = min(r.first, records[0].TS), max(r.last, records[len(records)-1].TS)
	}, func(e *Event) error {
		v := e.visit()
		plan.add(&v)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r.Recorded, r.Survived, r.ends = c.capture.Recorded, c.capture.Survived, plan.parts()
	r.UnmatchedBegin, r.UnmatchedEnd = p.unmatchedBegin, p.unmatchedEnd
	if r.Survivors == 0 {
		r.first = 0
	}
	return r, h.checkSpan(r.last - r.first)
}

// Cut reads the buffers again, which are the same, and cuts them into parts, as a Timeline is cut. Visits are warp by warp.
func (r *Rings) Cut(events, counters io.Reader, head PartHead, send sendPart) error {
	r.header.describe(&head)
	head.Recorded, head.Lost, head.Survived = r.Recorded, r.Recorded-r.Survived, r.Survivors
	head.UnmatchedBegin, head.UnmatchedEnd = r.UnmatchedBegin, r.UnmatchedEnd
	head.SliceRecords, head.Besides, head.Span = 2, r.UnmatchedBegin+r.UnmatchedEnd, r.last-r.first
	w := partWriter{head: head, ends: r.ends, region: r.region, send: send}
	err := newCollector(events, counters, r.header).eachRing(newPairing(&r.header.Options), func([]Record) {}, func(e *Event) error {
		v := e.visit()
		v.TS -= r.first
		return w.add(v)
	})
	if err != nil {
		return err
	}
	return w.rest()
}

// eachRing gives the sorted records of each ring that has some to see, and its events, in the order in which they ended, to add.
func (c *collector) eachRing(p *pairing, see func(records []Record), add func(e *Event) error) error {
	warps := uint64(c.session.Warps)
	if c.session.Blocks > 1<<16 || warps > 1<<6 {
		return ErrMixed
	}
	var events []Event
	for slot := range c.session.Slots() {
		c.capture.Records = c.capture.Records[:0]
		if err := c.slot(slot); err != nil {
			return err
		}
		records := c.capture.Records
		if len(records) == 0 {
			continue
		}
		if c.before += len(records); len(records) > maxRing {
			return ErrMixed
		}
		block, warp := uint16(slot/warps), uint16(slot%warps)
		for i := range records {
			if records[i].Block != block || records[i].Warp() != warp {
				return ErrMixed
			}
		}
		if !slices.IsSortedFunc(records, compareInRing) {
			slices.SortStableFunc(records, compareInRing)
		}
		see(records)
		p.states.clear()
		events = p.pair(events[:0], records)
		for i := range events {
			if err := add(&events[i]); err != nil {
				return err
			}
		}
	}
	return c.ended()
}

// compareInRing is the order of sortRecords among records of one warp.
func compareInRing(a, b Record) int {
	if a.TS != b.TS {
		return cmp.Compare(a.TS, b.TS)
	}
	return cmp.Or(cmp.Compare(a.SM(), b.SM()), cmp.Compare(a.Type.rank(), b.Type.rank()), cmp.Compare(a.Region, b.Region))
}

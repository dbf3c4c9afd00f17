package intrakernel

import "math"

// pairing finds the begin of each end. A state is the open begins of one region of one track; they are chained through the records
// themselves, which nobody needs any more.
type pairing struct {
	grouped                      uint16     // the part of a place that tells tracks apart
	states                       stateTable // the index of the latest open begin, plus one
	unmatchedBegin, unmatchedEnd uint64
}

func newPairing(o *Options) *pairing {
	if o.GroupBySM {
		return &pairing{grouped: math.MaxUint16}
	}
	return &pairing{grouped: 63}
}

// pair appends the events of records, which are sorted, to events.
func (p *pairing) pair(events []Event, records []Record) []Event {
	for i := range records {
		r := &records[i]
		top := p.states.at(uint64(r.Region)<<32 | uint64(r.Block)<<16 | uint64(r.Place&p.grouped))
		switch {
		case r.Type == Begin:
			p.unmatchedBegin++
			r.Region, r.Type = uint16(*top), Type(*top>>16)
			*top = uint32(i) + 1
		case r.Type != End:
			events = append(events, Event{TS: r.TS, Region: r.Region, Block: r.Block, Place: r.Place, Instant: true})
		case *top == 0:
			p.unmatchedEnd++
		default:
			begin := &records[*top-1]
			*top = uint32(begin.Region) | uint32(begin.Type)<<16
			p.unmatchedBegin--
			events = append(events, Event{TS: begin.TS, Dur: r.TS - begin.TS, Region: r.Region, Block: r.Block, Place: r.Place})
		}
	}
	return events
}

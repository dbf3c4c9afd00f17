package intrakernel

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// plan finds where parts end, visit by visit, before the first part is written: each says how many there are.
type plan struct {
	room   int // of a part, for names and visits
	region func(region uint16) RegionName

	left    int // of the part that is open
	before  uint64
	seen    stateTable // regions that the open part names
	kernels map[string]bool
	n       int // visits in all
	ends    []int
}

func newPlan(limit int, region func(region uint16) RegionName) (*plan, error) {
	room := limit - MaxHeadBytes - 16
	if room < 2*maxNameBytes+mostVisitBytes+32 {
		return nil, fmt.Errorf("intrakernel: BUG: parts of %d bytes have no room for an event", limit)
	}
	return &plan{room: room, left: room, kernels: map[string]bool{}, region: region}, nil
}

// add takes the next visit. Its time may be counted from any moment that is not after the first record: it takes no less room for that.
func (p *plan) add(v *Visit) {
	if p.left -= p.size(v); p.left < 0 {
		p.ends = append(p.ends, p.n)
		p.left, p.before = p.room, 0
		p.seen.clear()
		clear(p.kernels)
		p.left -= p.size(v)
	}
	p.n++
	p.before = v.TS + v.Dur
}

// size is what a visit takes in the open part.
func (p *plan) size(v *Visit) int {
	var scratch [mostVisitBytes]byte
	size := len(appendVisit(scratch[:0], v, p.before))
	if known := p.seen.at(uint64(v.Region)); *known == 0 {
		*known = 1
		name := p.region(v.Region)
		size += len(name.Name) + 3*binary.MaxVarintLen32
		if !p.kernels[name.Kernel] {
			p.kernels[name.Kernel] = true
			size += len(name.Kernel) + binary.MaxVarintLen32
		}
	}
	return size
}

// parts are where the parts end, as numbers of visits. There is one at least.
func (p *plan) parts() []int {
	if p.n > 0 || len(p.ends) == 0 {
		return append(p.ends, p.n)
	}
	return p.ends
}

// partWriter encodes parts that end where a plan says, and sends them.
type partWriter struct {
	head   PartHead
	ends   []int
	region func(region uint16) RegionName
	send   sendPart

	part Part
	body []byte
	n    int // visits in all
}

// add takes the next visit.
func (w *partWriter) add(v Visit) error {
	if w.n == w.ends[w.head.Index] {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.part.Visits = append(w.part.Visits, v)
	w.n++
	return nil
}

// rest sends the last part.
func (w *partWriter) rest() error {
	if w.head.Index != len(w.ends)-1 || w.n != w.ends[w.head.Index] {
		return fmt.Errorf("intrakernel: BUG: %d visits are planned for, and %d came", w.ends[len(w.ends)-1], w.n)
	}
	return w.flush()
}

func (w *partWriter) flush() error {
	w.head.Parts = len(w.ends)
	w.part.PartHead, w.part.Names = w.head, w.names()
	var err error
	if w.body, err = AppendPart(w.body[:0], &w.part); err != nil {
		return err
	}
	if err := w.send(&w.head, w.part.Records(), w.body); err != nil {
		return err
	}
	w.head.Index++
	w.part.Visits = w.part.Visits[:0]
	return nil
}

// names are those of the regions of the open part.
func (w *partWriter) names() []RegionName {
	var ids []uint16
	var seen stateTable
	for i := range w.part.Visits {
		if known := seen.at(uint64(w.part.Visits[i].Region)); *known == 0 {
			*known = 1
			ids = append(ids, w.part.Visits[i].Region)
		}
	}
	slices.Sort(ids)
	names := make([]RegionName, len(ids))
	for i, id := range ids {
		names[i] = w.region(id)
	}
	return names
}

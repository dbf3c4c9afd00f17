package intrakernel

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// pile is visits that are to be cut into parts: how many there are, each, and what its region is called.
type pile struct {
	n      int
	visit  func(i int) Visit
	region func(region uint16) RegionName
}

// Cut cuts a timeline into parts of at most limit bytes and gives each to send, encoded, with the records that it counts. head is what they
// say of the whole; Cut fills in what the timeline knows. How it is cut follows from head, the timeline and limit alone.
func (t *Timeline) Cut(head PartHead, limit int, send func(head *PartHead, records uint64, body []byte) error) error {
	o := &t.header.Options
	head.Scale, head.GroupBySM, head.HistBins, head.BlockBins = o.Scale, o.GroupBySM, cmp.Or(o.HistBins, defaultBins),
		cmp.Or(o.BlockRegionBins, defaultBins)
	head.Blocks, head.Warps, head.Cap = t.header.Session.Blocks, t.header.Session.Warps, t.header.Session.Cap
	head.Survived, head.UnmatchedBegin, head.UnmatchedEnd = uint64(t.Survivors), t.UnmatchedBegin, t.UnmatchedEnd
	head.SliceRecords, head.Besides = 2, t.UnmatchedBegin+t.UnmatchedEnd
	if t.Elements > 0 {
		t.countElements(&head)
	}
	kernel := clipName(head.Kernel)
	return pile{
		n: len(t.Events),
		visit: func(i int) Visit {
			e := &t.Events[i]
			return Visit{TS: e.TS, Dur: e.Dur, Block: uint32(e.Block), Region: e.Region, Warp: e.Warp(), SM: e.SM(), Instant: e.Instant}
		},
		region: func(region uint16) RegionName {
			return RegionName{Region: region, Kernel: kernel, Name: clipName(t.header.name(region))}
		},
	}.cut(head, limit, send)
}

// countElements counts what a trace has: whole slices, or begins and ends, and beside them the names of processes and threads.
func (t *Timeline) countElements(head *PartHead) {
	slices, instants := uint64(0), uint64(0)
	for i := range t.Events {
		if t.Events[i].Instant {
			instants++
		} else {
			slices++
		}
	}
	if !t.halves {
		head.SliceRecords = 1
	}
	head.Besides = t.Elements - instants - slices*head.SliceRecords
}

func (p pile) cut(head PartHead, limit int, send func(head *PartHead, records uint64, body []byte) error) error {
	room := limit - MaxHeadBytes - 16
	if room < 2*maxNameBytes+mostVisitBytes+32 {
		return fmt.Errorf("intrakernel: BUG: parts of %d bytes have no room for an event", limit)
	}
	var ends []int // of the parts
	for at := 0; at < p.n; {
		at = p.fill(at, room)
		ends = append(ends, at)
	}
	if len(ends) == 0 {
		ends = []int{0}
	}
	head.Parts = len(ends)
	var body []byte
	var part Part
	from := 0
	for i, end := range ends {
		head.Index = i
		part.PartHead, part.Visits = head, part.Visits[:0]
		for ; from < end; from++ {
			part.Visits = append(part.Visits, p.visit(from))
		}
		part.Names = p.names(part.Visits)
		var err error
		if body, err = AppendPart(body[:0], &part); err != nil {
			return err
		}
		if err := send(&head, part.Records(), body); err != nil {
			return err
		}
	}
	return nil
}

// fill returns where a part ends that begins at from and has room bytes for names and visits.
func (p pile) fill(from, room int) int {
	var seen stateTable
	var scratch [mostVisitBytes]byte
	kernels := map[string]bool{}
	before := uint64(0)
	for i := from; i < p.n; i++ {
		v := p.visit(i)
		size := len(appendVisit(scratch[:0], &v, before))
		before = v.TS + v.Dur
		if known := seen.at(uint64(v.Region)); *known == 0 {
			*known = 1
			name := p.region(v.Region)
			size += len(name.Name) + 3*binary.MaxVarintLen32
			if !kernels[name.Kernel] {
				kernels[name.Kernel] = true
				size += len(name.Kernel) + binary.MaxVarintLen32
			}
		}
		if room -= size; room < 0 {
			return i
		}
	}
	return p.n
}

// names are those of the regions of visits.
func (p pile) names(visits []Visit) []RegionName {
	var ids []uint16
	var seen stateTable
	for i := range visits {
		if known := seen.at(uint64(visits[i].Region)); *known == 0 {
			*known = 1
			ids = append(ids, visits[i].Region)
		}
	}
	slices.Sort(ids)
	names := make([]RegionName, len(ids))
	for i, id := range ids {
		names[i] = p.region(id)
	}
	return names
}

// clipName cuts a name that is too long to be stored, between characters.
func clipName(name string) string {
	if len(name) > maxNameBytes {
		return strings.ToValidUTF8(name[:maxNameBytes], "")
	}
	return name
}

package intrakernel

import (
	"cmp"
	"strings"
)

// sendPart takes an encoded part, with what it says of the whole and the records that it counts.
type sendPart = func(head *PartHead, records uint64, body []byte) error

// pile is visits that are to be cut into parts: how many there are, each, and what its region is called.
type pile struct {
	n      int
	visit  func(i int) Visit
	region func(region uint16) RegionName
}

// Cut cuts a timeline into parts of at most limit bytes and gives each to send, encoded, with the records that it counts. head is what they
// say of the whole; Cut fills in what the timeline knows. How it is cut follows from head, the timeline and limit alone.
func (t *Timeline) Cut(head PartHead, limit int, send sendPart) error {
	t.header.describe(&head)
	head.Survived, head.UnmatchedBegin, head.UnmatchedEnd = uint64(t.Survivors), t.UnmatchedBegin, t.UnmatchedEnd
	head.SliceRecords, head.Besides = 2, t.UnmatchedBegin+t.UnmatchedEnd
	if t.Elements > 0 {
		t.countElements(&head)
	}
	kernel := clipName(head.Kernel)
	return pile{
		n:     len(t.Events),
		visit: func(i int) Visit { return t.Events[i].visit() },
		region: func(region uint16) RegionName {
			return RegionName{Region: region, Kernel: kernel, Name: clipName(t.header.name(region))}
		},
	}.cut(head, limit, send)
}

// describe says in head how the launch was recorded, and how it is to be shown.
func (h *Header) describe(head *PartHead) {
	o := &h.Options
	head.Scale, head.GroupBySM, head.HistBins, head.BlockBins = o.Scale, o.GroupBySM, cmp.Or(o.HistBins, defaultBins),
		cmp.Or(o.BlockRegionBins, defaultBins)
	head.Blocks, head.Warps, head.Cap = h.Session.Blocks, h.Session.Warps, h.Session.Cap
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

func (p pile) cut(head PartHead, limit int, send sendPart) error {
	plan, err := newPlan(limit, p.region)
	if err != nil {
		return err
	}
	for i := range p.n {
		v := p.visit(i)
		plan.add(&v)
	}
	w := partWriter{head: head, ends: plan.parts(), region: p.region, send: send}
	for i := range p.n {
		if err := w.add(p.visit(i)); err != nil {
			return err
		}
	}
	return w.rest()
}

// clipName cuts a name that is too long to be stored, between characters.
func clipName(name string) string {
	if len(name) > maxNameBytes {
		return strings.ToValidUTF8(name[:maxNameBytes], "")
	}
	return name
}

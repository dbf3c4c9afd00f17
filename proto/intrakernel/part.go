package intrakernel

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Launch is what the sender says of a capture, in addition to what is in its buffers. All of it may be empty.
type Launch struct {
	Kernel string `json:"kernel,omitempty"`
	Host   string `json:"host,omitempty"`
	Device string `json:"device,omitempty"`
	Job    string `json:"job,omitempty"`
	Rank   *int64 `json:"rank,omitempty"`
	// Number is which launch of the kernel it is.
	Number *int64 `json:"launch,omitempty"`
	// StartedAt is when the first record was made, in ns since 1970; 0 is not known.
	StartedAt int64 `json:"started_at,omitempty"`
}

// PartHead is what every part of a capture says of the whole.
type PartHead struct {
	Launch
	// Clock is what times were counted with: globaltimer.
	Clock     string  `json:"clock"`
	Scale     float64 `json:"scale"`
	GroupBySM bool    `json:"group_by_smid"`
	HistBins  uint32  `json:"bins"`
	// BlockBins is how many bins the distributions of a block have.
	BlockBins uint32 `json:"block_bins"`
	Blocks    uint32 `json:"blocks"`
	Warps     uint32 `json:"warps_per_block"`
	Cap       uint32 `json:"per_warp_cap"`
	// Recorded is how many records the device made, Lost how many of them its rings overwrote, Survived how many came through rings and
	// filter. UnmatchedBegin and UnmatchedEnd are those of them that have no partner.
	Recorded       uint64 `json:"recorded"`
	Lost           uint64 `json:"lost"`
	Survived       uint64 `json:"survived"`
	UnmatchedBegin uint64 `json:"unmatched_begin"`
	UnmatchedEnd   uint64 `json:"unmatched_end"`
	// SliceRecords is how many records a slice was made of: two, or one of a trace that has slices.
	SliceRecords uint64 `json:"slice_records"`
	// Besides is how many records are in no event.
	Besides uint64 `json:"besides"`
	// Index of the part, from 0, and how many there are.
	Index int `json:"index"`
	Parts int `json:"parts"`
}

// RegionName is the name of a region.
type RegionName struct {
	Region uint16
	Name   string
}

// Part is a piece of a capture, as it travels from the gateway to the worker.
type Part struct {
	PartHead
	// Names has a name for each region of Events, by id.
	Names []RegionName
	// Events are slices and instants, in the order of a timeline's.
	Events []Event
}

// Name is the name of a region of the part.
func (p *Part) Name(region uint16) string {
	i, ok := slices.BinarySearchFunc(p.Names, region, func(n RegionName, r uint16) int { return cmp.Compare(n.Region, r) })
	if !ok {
		return ""
	}
	return p.Names[i].Name
}

// Records is how many records the part's events were made of. Those that are in no event are in the first part.
func (p *Part) Records() uint64 {
	n := uint64(0)
	for i := range p.Events {
		if p.Events[i].Instant {
			n++
		} else {
			n += p.SliceRecords
		}
	}
	if p.Index == 0 {
		n += p.Besides
	}
	return n
}

// partVersion is the first byte of a part.
const partVersion = 1

// MaxHeadBytes bounds what a PartHead takes, so that parts have room for events.
const MaxHeadBytes = 64 << 10

// maxNameBytes bounds the name of a region that is stored.
const maxNameBytes = 1 << 10

// mostEventBytes is the longest that an event can be: five numbers.
const mostEventBytes = 2*binary.MaxVarintLen64 + 3*binary.MaxVarintLen32

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
	room := limit - MaxHeadBytes - 16
	if room < maxNameBytes+mostEventBytes+16 {
		return fmt.Errorf("intrakernel: BUG: parts of %d bytes have no room for an event", limit)
	}
	var ends []int // of the parts, in Events
	for at := 0; at < len(t.Events); {
		at = t.fill(at, room)
		ends = append(ends, at)
	}
	if len(ends) == 0 {
		ends = []int{0}
	}
	head.Parts = len(ends)
	var body []byte
	from := 0
	for i, end := range ends {
		head.Index = i
		p := Part{PartHead: head, Events: t.Events[from:end]}
		p.Names = t.names(p.Events)
		var err error
		if body, err = AppendPart(body[:0], &p); err != nil {
			return err
		}
		if err := send(&head, p.Records(), body); err != nil {
			return err
		}
		from = end
	}
	return nil
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

// fill returns where a part ends that begins at from and has room bytes for names and events.
func (t *Timeline) fill(from, room int) int {
	var seen stateTable
	var scratch [mostEventBytes]byte
	before := uint64(0)
	for i := from; i < len(t.Events); i++ {
		e := &t.Events[i]
		size := len(appendEvent(scratch[:0], e, before))
		before = e.TS + e.Dur
		if known := seen.at(uint64(e.Region)); *known == 0 {
			*known = 1
			size += len(clipName(t.header.name(e.Region))) + 2*binary.MaxVarintLen32
		}
		if room -= size; room < 0 {
			return i
		}
	}
	return len(t.Events)
}

// names are those of the regions of events.
func (t *Timeline) names(events []Event) []RegionName {
	var ids []uint16
	var seen stateTable
	for i := range events {
		if known := seen.at(uint64(events[i].Region)); *known == 0 {
			*known = 1
			ids = append(ids, events[i].Region)
		}
	}
	slices.Sort(ids)
	names := make([]RegionName, len(ids))
	for i, id := range ids {
		names[i] = RegionName{id, clipName(t.header.name(id))}
	}
	return names
}

// clipName cuts a name that is too long to be stored.
func clipName(name string) string {
	if len(name) > maxNameBytes {
		return name[:maxNameBytes]
	}
	return name
}

// AppendPart appends the encoded part to dst. It fails when the head is longer than MaxHeadBytes.
func AppendPart(dst []byte, p *Part) ([]byte, error) {
	head, err := json.Marshal(&p.PartHead)
	if err != nil {
		return nil, fmt.Errorf("intrakernel: encode part: %w", err)
	}
	if len(head) > MaxHeadBytes {
		return nil, fmt.Errorf("intrakernel: what is said of the launch takes %d bytes, more than %d", len(head), MaxHeadBytes)
	}
	dst = append(dst, partVersion)
	dst = append(binary.AppendUvarint(dst, uint64(len(head))), head...)
	dst = binary.AppendUvarint(dst, uint64(len(p.Names)))
	for _, n := range p.Names {
		dst = binary.AppendUvarint(dst, uint64(n.Region))
		dst = append(binary.AppendUvarint(dst, uint64(len(n.Name))), n.Name...)
	}
	dst = binary.AppendUvarint(dst, uint64(len(p.Events)))
	before := uint64(0)
	for i := range p.Events {
		dst = appendEvent(dst, &p.Events[i], before)
		before = p.Events[i].TS + p.Events[i].Dur
	}
	return dst, nil
}

// appendEvent appends an event that follows one that ended at before. Ends rise in a timeline, so the step is small.
func appendEvent(dst []byte, e *Event, before uint64) []byte {
	dst = binary.AppendUvarint(dst, e.TS+e.Dur-before)
	dst = binary.AppendUvarint(dst, e.Dur)
	region := uint64(e.Region) << 1
	if e.Instant {
		region |= 1
	}
	dst = binary.AppendUvarint(dst, region)
	dst = binary.AppendUvarint(dst, uint64(e.Block))
	return binary.AppendUvarint(dst, uint64(e.Place))
}

var errPart = errors.New("intrakernel: the part is damaged")

// Decode reads what AppendPart wrote into p, which may have been used before: its slices are used again. It takes some ten times the memory
// of b at most.
func (p *Part) Decode(b []byte) error {
	names, events := p.Names[:0], p.Events[:0]
	*p = Part{}
	if len(b) == 0 || b[0] != partVersion {
		return fmt.Errorf("%w: it is not of version %d", errPart, partVersion)
	}
	r := partReader{b: b[1:]}
	if err := json.Unmarshal(r.bytes(MaxHeadBytes), &p.PartHead); err != nil {
		return fmt.Errorf("%w: head: %w", errPart, err)
	}
	if p.Index < 0 || p.Index >= p.Parts || math.IsNaN(p.Scale) || math.IsInf(p.Scale, 0) || p.HistBins > MaxBins || p.BlockBins > MaxBins ||
		p.SliceRecords > 2 {
		return fmt.Errorf("%w: head: numbers out of range", errPart)
	}
	for n := r.count(2); n > 0 && !r.bad; n-- {
		id := r.number(math.MaxUint16)
		name := RegionName{uint16(id), string(r.bytes(maxNameBytes))}
		if k := len(names); k > 0 && names[k-1].Region >= name.Region {
			return fmt.Errorf("%w: names out of order", errPart)
		}
		names = append(names, name)
	}
	n := r.count(5)
	if !r.bad && cap(events) < n {
		events = make([]Event, 0, n)
	}
	before := uint64(0)
	for ; n > 0 && !r.bad; n-- {
		end := before + r.number(math.MaxUint64)
		e := Event{Dur: r.number(math.MaxUint64)}
		region := r.number(1<<17 - 1)
		e.TS, e.Region, e.Instant = end-e.Dur, uint16(region>>1), region&1 == 1
		e.Block, e.Place = uint16(r.number(math.MaxUint16)), uint16(r.number(math.MaxUint16))
		events = append(events, e)
		before = end
	}
	if r.bad || len(r.b) != 0 {
		return fmt.Errorf("%w: %d bytes from its end", errPart, len(r.b))
	}
	p.Names, p.Events = names, events
	return nil
}

// partReader reads numbers and texts; after the first that cannot be read, bad is set.
type partReader struct {
	b   []byte
	bad bool
}

func (r *partReader) number(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// count is how many items of at least so many bytes follow.
func (r *partReader) count(least int) int {
	n := r.number(math.MaxInt32)
	if n > uint64(len(r.b)/least) {
		r.bad = true
		return 0
	}
	return int(n)
}

func (r *partReader) bytes(most uint64) []byte {
	n := r.number(most)
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

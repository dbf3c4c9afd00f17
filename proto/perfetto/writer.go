package perfetto

import (
	"bufio"
	"io"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Fields of perfetto's messages, by message.
const (
	tracePacket = 1 // Trace

	packetTimestamp  = 8
	packetSequence   = 10
	packetEvent      = 11
	packetInterned   = 12
	packetFlags      = 13
	packetClock      = 58
	packetDescriptor = 60

	eventCategoryIIDs = 3
	eventAnnotation   = 4
	eventType         = 9
	eventNameIID      = 10
	eventTrack        = 11
	eventCategory     = 22
	eventName         = 23
	eventCount        = 44 // double
	eventCountInt     = 30
	eventFlow         = 47

	descriptorUUID    = 1
	descriptorName    = 2
	descriptorParent  = 5
	descriptorCounter = 8
	descriptorOrder   = 11
	descriptorRank    = 12
	descriptorMerge   = 15

	internedCategory   = 1
	internedName       = 2
	internedAnnotation = 3

	annotationNameIID = 1
	annotationBool    = 2
	annotationUint    = 3
	annotationInt     = 4
	annotationDouble  = 5
	annotationString  = 6
	annotationJSON    = 9
	annotationName    = 10
)

const (
	sequence       = 1
	clockBootTime  = 6
	flagCleared    = 1
	flagNeeds      = 2
	orderExplicit  = 3
	mergeNever     = 2
	typeBegin      = 1
	typeEnd        = 2
	typeInstant    = 3
	typeCounter    = 4
	mostInterned   = 1 << 17
	longestIntered = 1 << 12
)

// Writer writes a trace. Times are ns; packets may come in any order of time, and of packets with one time those that were written first
// are read first: so write ends before begins, and where an arrow starts before where it ends. It is not safe for concurrent use. Flush
// ends it.
type Writer struct {
	w       *bufio.Writer
	err     error
	begun   bool
	packet  []byte // scratch
	event   []byte
	fresh   []byte // interned data of this packet
	scratch []byte

	categories, names, annotations interned
}

// interned gives texts numbers, from 1.
type interned struct {
	ids map[string]uint64
}

// New returns a Writer to w.
func New(w io.Writer) *Writer { return &Writer{w: bufio.NewWriterSize(w, 1<<18)} }

// Flush writes what is left, and returns the first error of all writes.
func (w *Writer) Flush() error {
	if err := w.w.Flush(); w.err == nil {
		w.err = err
	}
	return w.err
}

// Track names a track. uuid is not 0 and no other's; parent is 0 of one at the top. Tracks of one parent are shown by rank. Counters have
// tracks of their own.
func (w *Writer) Track(uuid, parent uint64, name string, rank int32, counter bool) {
	d := w.scratch[:0]
	d = protowire.AppendVarint(protowire.AppendTag(d, descriptorUUID, protowire.VarintType), uuid)
	d = protowire.AppendString(protowire.AppendTag(d, descriptorName, protowire.BytesType), name)
	if parent != 0 {
		d = protowire.AppendVarint(protowire.AppendTag(d, descriptorParent, protowire.VarintType), parent)
	}
	if counter {
		d = protowire.AppendBytes(protowire.AppendTag(d, descriptorCounter, protowire.BytesType), nil)
	}
	d = protowire.AppendVarint(protowire.AppendTag(d, descriptorOrder, protowire.VarintType), orderExplicit)
	d = protowire.AppendVarint(protowire.AppendTag(d, descriptorRank, protowire.VarintType), uint64(int64(rank)))
	d = protowire.AppendVarint(protowire.AppendTag(d, descriptorMerge, protowire.VarintType), mergeNever)
	w.scratch = d
	p := w.packet[:0]
	p = protowire.AppendVarint(protowire.AppendTag(p, packetSequence, protowire.VarintType), sequence)
	p = protowire.AppendBytes(protowire.AppendTag(p, packetDescriptor, protowire.BytesType), d)
	w.send(p)
}

// Begin begins an event on a track; Annotate, Flow and Send follow. name and category may be empty.
func (w *Writer) begin(kind uint64, track uint64) {
	w.fresh = w.fresh[:0]
	w.event = protowire.AppendVarint(protowire.AppendTag(w.event[:0], eventType, protowire.VarintType), kind)
	w.event = protowire.AppendVarint(protowire.AppendTag(w.event, eventTrack, protowire.VarintType), track)
}

// Slice begins a slice; what is added before Send is of it.
func (w *Writer) Slice(track uint64, name, category []byte) {
	w.named(typeBegin, track, name, category)
}

// Instant is a point in time; what is added before Send is of it.
func (w *Writer) Instant(track uint64, name, category []byte) {
	w.named(typeInstant, track, name, category)
}

// End ends the slice of a track that began last.
func (w *Writer) End(track uint64) { w.begin(typeEnd, track) }

// Count sets a counter.
func (w *Writer) Count(track uint64, value float64) {
	w.begin(typeCounter, track)
	w.event = protowire.AppendFixed64(protowire.AppendTag(w.event, eventCount, protowire.Fixed64Type), math.Float64bits(value))
}

// CountInt sets a counter to a whole number.
func (w *Writer) CountInt(track uint64, value int64) {
	w.begin(typeCounter, track)
	w.event = protowire.AppendVarint(protowire.AppendTag(w.event, eventCountInt, protowire.VarintType), uint64(value))
}

func (w *Writer) named(kind, track uint64, name, category []byte) {
	w.begin(kind, track)
	if iid, ok := w.intern(&w.names, internedName, name); ok {
		w.event = protowire.AppendVarint(protowire.AppendTag(w.event, eventNameIID, protowire.VarintType), iid)
	} else {
		w.event = protowire.AppendBytes(protowire.AppendTag(w.event, eventName, protowire.BytesType), name)
	}
	if len(category) == 0 {
		return
	}
	if iid, ok := w.intern(&w.categories, internedCategory, category); ok {
		w.event = protowire.AppendVarint(protowire.AppendTag(w.event, eventCategoryIIDs, protowire.VarintType), iid)
	} else {
		w.event = protowire.AppendBytes(protowire.AppendTag(w.event, eventCategory, protowire.BytesType), category)
	}
}

// intern gives a text its number, which is told in the packet that uses it first.
func (w *Writer) intern(of *interned, field protowire.Number, text []byte) (uint64, bool) {
	if iid, ok := of.ids[string(text)]; ok {
		return iid, true
	}
	if len(of.ids) >= mostInterned || len(text) > longestIntered {
		return 0, false
	}
	if of.ids == nil {
		of.ids = map[string]uint64{}
	}
	iid := uint64(len(of.ids) + 1)
	of.ids[string(text)] = iid
	entry := protowire.AppendVarint(protowire.AppendTag(w.scratch[:0], 1, protowire.VarintType), iid)
	entry = protowire.AppendBytes(protowire.AppendTag(entry, 2, protowire.BytesType), text)
	w.scratch = entry
	w.fresh = protowire.AppendBytes(protowire.AppendTag(w.fresh, field, protowire.BytesType), entry)
	return iid, true
}

// Flow lets an arrow start at the event, or end there if one of this id has started. An id is for two events.
func (w *Writer) Flow(id uint64) {
	w.event = protowire.AppendFixed64(protowire.AppendTag(w.event, eventFlow, protowire.Fixed64Type), id)
}

func (w *Writer) annotate(name []byte, add func([]byte) []byte) {
	iid, ok := w.intern(&w.annotations, internedAnnotation, name)
	a := w.scratch[:0]
	if ok {
		a = protowire.AppendVarint(protowire.AppendTag(a, annotationNameIID, protowire.VarintType), iid)
	} else {
		a = protowire.AppendBytes(protowire.AppendTag(a, annotationName, protowire.BytesType), name)
	}
	w.scratch = add(a)
	w.event = protowire.AppendBytes(protowire.AppendTag(w.event, eventAnnotation, protowire.BytesType), w.scratch)
}

// Int adds an argument.
func (w *Writer) Int(name []byte, v int64) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, annotationInt, protowire.VarintType), uint64(v))
	})
}

// Uint adds an argument.
func (w *Writer) Uint(name []byte, v uint64) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, annotationUint, protowire.VarintType), v)
	})
}

// Double adds an argument.
func (w *Writer) Double(name []byte, v float64) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendFixed64(protowire.AppendTag(b, annotationDouble, protowire.Fixed64Type), math.Float64bits(v))
	})
}

// Bool adds an argument.
func (w *Writer) Bool(name []byte, v bool) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, annotationBool, protowire.VarintType), protowire.EncodeBool(v))
	})
}

// Text adds an argument.
func (w *Writer) Text(name, v []byte) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, annotationString, protowire.BytesType), v)
	})
}

// JSON adds an argument that is an object, a list or null.
func (w *Writer) JSON(name, v []byte) {
	w.annotate(name, func(b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, annotationJSON, protowire.BytesType), v)
	})
}

// Send writes the event at a time.
func (w *Writer) Send(ts int64) {
	p := w.packet[:0]
	p = protowire.AppendVarint(protowire.AppendTag(p, packetTimestamp, protowire.VarintType), uint64(ts))
	p = protowire.AppendVarint(protowire.AppendTag(p, packetClock, protowire.VarintType), clockBootTime)
	p = protowire.AppendVarint(protowire.AppendTag(p, packetSequence, protowire.VarintType), sequence)
	if len(w.fresh) > 0 {
		p = protowire.AppendBytes(protowire.AppendTag(p, packetInterned, protowire.BytesType), w.fresh)
	}
	p = protowire.AppendBytes(protowire.AppendTag(p, packetEvent, protowire.BytesType), w.event)
	w.send(p)
}

// send writes a packet. The first says that nothing was said before.
func (w *Writer) send(p []byte) {
	flags := uint64(flagNeeds)
	if !w.begun {
		w.begun, flags = true, flagCleared|flagNeeds
	}
	p = protowire.AppendVarint(protowire.AppendTag(p, packetFlags, protowire.VarintType), flags)
	w.packet = p
	var head [16]byte
	h := protowire.AppendVarint(protowire.AppendTag(head[:0], tracePacket, protowire.BytesType), uint64(len(p)))
	if w.err == nil {
		_, w.err = w.w.Write(h)
	}
	if w.err == nil {
		_, w.err = w.w.Write(p)
	}
}

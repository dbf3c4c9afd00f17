package kineto

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/warpline/warpline/proto/chrometrace"
	"github.com/warpline/warpline/proto/jsonscan"
)

// Times that a table can hold, in ns: 1900 to 2262.
const (
	leastTime = -2_208_988_800_000_000_000
	mostTime  = math.MaxInt64
)

// Refusal is an element of the trace that is refused.
type Refusal struct {
	Reason string
	Detail string // for people
	Offset int64  // of its first byte
	Size   int64  // in bytes
	Text   []byte // as it stands, as far as it is known; good until the next element
}

// Cutter cuts a trace into parts. How it cuts follows from the trace, the head and the limit alone.
type Cutter struct {
	// Head is what the parts say of the whole, and Meta what Survey has found.
	Head Head
	Meta *Meta
	// Limit is how many bytes a part should have; one event may be longer.
	Limit int
	// Send takes a part: which elements it tells, of how many bytes of the trace. body is good until Send returns.
	Send func(head *Head, elements uint64, size int64, body []byte) error
	// Refuse takes an element that is refused.
	Refuse func(*Refusal) error

	texts    texts
	begins   begins
	body     []byte // events of the open part
	message  []byte
	elements uint64
	before   int64 // start of the event before
	passed   int64 // bytes of the trace up to which elements are in parts or refused
	size     int64 // bytes of elements of the open part
	out      Event
	refs     []byte
	args     []byte
	last     anchor
	row      row
	err      error
}

// anchor is the slice that stood in the trace just before: a flow's end at its thread and time is that slice's.
type anchor struct {
	pid, tid, name []byte
	start, length  int64
	ok             bool
}

// row is where the event before stood, so that its texts need not be looked up again.
type row struct {
	pid, tid []byte
	track    []byte
	ok       bool
}

// Cut reads the trace. Where the trace ends or breaks it stops without an error: Meta says so.
func (c *Cutter) Cut(r io.Reader) error {
	c.texts = texts{index: map[string]int32{}, part: 1}
	in := chrometrace.NewReader(r)
	for c.err == nil {
		e, err := in.Next()
		size := in.Offset() - c.passed
		c.passed = in.Offset()
		var broken *chrometrace.EventError
		var syntax *chrometrace.SyntaxError
		switch {
		case err == nil:
			c.size += size
			c.add(e, size)
		case err == io.EOF:
			return c.finish()
		case errors.As(err, &broken):
			reason := BadEvent
			if size > chrometrace.MaxEvent {
				reason = EventTooLarge
			}
			c.size += size
			c.refuse(&Refusal{Reason: reason, Detail: broken.Reason, Offset: broken.Offset, Size: size, Text: broken.Text})
		case errors.As(err, &syntax) && (syntax.Err == nil || !c.Meta.Complete && c.Meta.TornAt == syntax.Offset):
			return c.finish() // it ends here for Survey too
		default:
			return err
		}
	}
	return c.err
}

// finish gives out what waits for an end, and the last part.
func (c *Cutter) finish() error {
	var left []opened
	phases := map[int]Phase{}
	for key, list := range c.begins.waiting {
		for _, one := range list {
			phases[one.order] = AsyncOpen
			if key[0] == 'B' {
				phases[one.order] = Open
			}
			left = append(left, one)
		}
	}
	slices.SortFunc(left, func(a, b opened) int { return cmp.Compare(a.order, b.order) })
	for i := range left {
		one := &left[i]
		c.out = Event{Phase: phases[one.order], Start: one.start, Device: -1, Stream: -1}
		c.slice(one.name, one.category, one.pid, one.tid, one.args)
	}
	if c.err == nil {
		c.flush(true)
	}
	return c.err
}

func (c *Cutter) refuse(r *Refusal) {
	c.size -= r.Size
	if c.err == nil {
		c.err = c.Refuse(r)
	}
}

// reject refuses an event.
func (c *Cutter) reject(e *chrometrace.Event, size int64, reason, format string, args ...any) {
	c.refuse(&Refusal{Reason: reason, Detail: fmt.Sprintf(format, args...), Offset: e.Offset, Size: size, Text: rebuilt(e)})
}

// add takes an element.
func (c *Cutter) add(e *chrometrace.Event, size int64) {
	phase := byte(0)
	if len(e.Phase) == 3 {
		phase = e.Phase[1]
	}
	if phase == 'M' {
		c.Head.Besides++
		return
	}
	if bytes.IndexByte(known, phase) < 0 {
		c.reject(e, size, UnknownPhase, "ph %s is no phase of an event", short(e.Phase))
		return
	}
	for _, v := range [...][]byte{e.Name, e.Category, e.PID, e.TID, e.ID} {
		if !isName(v) {
			c.reject(e, size, BadName, "%s is no name, pid, tid or id: those are texts or numbers", short(v))
			return
		}
	}
	start, ok := Micros(e.TS)
	if !ok || c.Meta.Base > 0 && start > mostTime-c.Meta.Base || c.Meta.Base < 0 && start < math.MinInt64-c.Meta.Base ||
		start+c.Meta.Base < leastTime {
		c.reject(e, size, BadTime, "ts %s is no time in microseconds between 1900 and 2262", short(e.TS))
		return
	}
	start += c.Meta.Base
	c.out = Event{Start: start, Device: -1, Stream: -1}
	switch phase {
	case 'X':
		c.complete(e, size)
	case 'B', 'b', 'S':
		c.compact(e.Args)
		if !c.begins.put(e, phase, start, size, c.args) {
			c.reject(e, size, TooManyOpen, "%d begins wait for their ends, as many as may", c.begins.count)
		}
	case 'E', 'e', 'F':
		c.end(e, phase, size)
	case 'i', 'I':
		c.out.Phase = Instant
		c.plain(e)
	case 'n', 'T', 'p':
		c.out.Phase = AsyncInstant
		c.plain(e)
	case 'R', 'c', 'N', 'O', 'D', 'P', 'v', 'V':
		c.out.Phase = Mark
		c.plain(e)
	case 'C':
		c.out.Phase = Counter
		c.plain(e)
	case 's':
		c.flow(e, FlowStart)
	case 't':
		c.flow(e, FlowStep)
	case 'f':
		c.flow(e, FlowEnd)
	}
}

// known are the phases that traces have, beside M.
var known = []byte("XBESFTpbneiIRcNODPvVCstf")

func (c *Cutter) complete(e *chrometrace.Event, size int64) {
	if len(e.Dur) > 0 && string(e.Dur) != "null" {
		length, ok := Micros(e.Dur)
		if !ok || length < 0 || c.out.Start > mostTime-length {
			c.reject(e, size, BadDuration, "dur %s is no length in microseconds", short(e.Dur))
			return
		}
		c.out.Duration = length
	}
	a := &c.last
	a.pid, a.tid = append(a.pid[:0], text(e.PID)...), append(a.tid[:0], text(e.TID)...)
	a.name = append(a.name[:0], text(e.Name)...)
	a.start, a.length, a.ok = c.out.Start, c.out.Duration, true
	c.plain(e)
}

// plain gives out an event whose phase and times are set.
func (c *Cutter) plain(e *chrometrace.Event) {
	c.compact(e.Args)
	c.slice(e.Name, e.Category, e.PID, e.TID, c.args)
}

// end closes a begin.
func (c *Cutter) end(e *chrometrace.Event, phase byte, size int64) {
	at := c.out.Start
	one, ok := c.begins.take(e, map[byte]byte{'E': 'B', 'e': 'b', 'F': 'S'}[phase])
	if !ok {
		c.reject(e, size, NoBegin, "nothing began that ends here")
		return
	}
	c.out.Phase, c.out.Start = AsyncPaired, one.start
	if phase == 'E' {
		c.out.Phase = Paired
	}
	if at-one.start < 0 || at < one.start {
		if c.out.Phase = AsyncOpen; phase == 'E' {
			c.out.Phase = Open
		}
		c.slice(one.name, one.category, one.pid, one.tid, one.args)
		c.reject(e, size, BadDuration, "it ends before it begins, at byte %d", one.offset)
		return
	}
	c.out.Duration = at - one.start
	c.compact(e.Args)
	args := one.args
	switch {
	case len(args) <= 2:
		args = c.args
	case len(c.args) > 2: // what the end says stands behind what the begin says
		args = append(append(append([]byte(nil), args[:len(args)-1]...), ','), c.args[1:]...)
	}
	c.slice(one.name, one.category, one.pid, one.tid, args)
}

// slice gives out a slice, an instant or a counter.
func (c *Cutter) slice(name, category, pid, tid, args []byte) {
	o := &c.out
	category = text(category)
	switch {
	case o.Phase <= Open:
		o.Kind = KindOf(category)
	case o.Phase == Instant && string(name) == `"[memory]"`:
		o.Kind = Memory
	}
	o.Args = args
	c.numbers()
	if o.Kind.onGPU() {
		if n, ok := Integer(pid); o.Device == -1 && ok && n >= 0 && n <= math.MaxInt32 {
			o.Device = int32(n)
		}
		if n, ok := Integer(tid); o.Stream == -1 && ok {
			o.Stream = n
		}
	}
	c.emit(name, category, pid, tid, nil)
}

// flow gives out an end of an arrow.
func (c *Cutter) flow(e *chrometrace.Event, phase Phase) {
	o := &c.out
	o.Phase, o.Correlation = phase, flowID(e.ID)
	var on []byte
	if a := &c.last; a.ok && a.start == o.Start && string(a.pid) == string(text(e.PID)) && string(a.tid) == string(text(e.TID)) {
		on, o.Duration = a.name, a.length
	}
	c.emit(e.Name, text(e.Category), e.PID, e.TID, on)
}

// emit appends the event to the open part. on is the slice that the end of an arrow stands on.
func (c *Cutter) emit(name, category, pid, tid, on []byte) {
	o := &c.out
	title := text(name)
	if len(title) > MaxNameBytes {
		title = append(append([]byte(nil), title[:MaxNameBytes]...), "…"...)
	}
	if len(c.body) > 0 && len(c.body)+len(title)+len(category)+len(pid)+len(tid)+len(on)+len(o.Args)+maxWordBytes+128 > c.room() {
		c.flush(false)
	}
	refs, named, number := c.texts.refer(c.refs[:0], title)
	o.NameID = number
	if named != nil && o.Kind == Kernel && !named.kernel {
		named.kernel, o.NewName = true, true
	}
	refs, _, _ = c.texts.refer(refs, category)
	refs, _, _ = c.texts.refer(refs, text(pid))
	refs, _, _ = c.texts.refer(refs, text(tid))
	if o.Phase.Slice() {
		on = c.track(pid, tid)
	}
	refs, _, _ = c.texts.refer(refs, on)
	c.refs = refs
	c.body = appendEvent(c.body, o, c.before, refs)
	c.before = o.Start
	c.elements += o.Elements()
}

// room is how many bytes of events a part has room for.
func (c *Cutter) room() int {
	return c.Limit - 1024 - map[bool]int{true: MaxHeadBytes}[c.Head.Index == 0]
}

// track is the name of a thread.
func (c *Cutter) track(pid, tid []byte) []byte {
	r := &c.row
	if !r.ok || string(r.pid) != string(pid) || string(r.tid) != string(tid) {
		r.pid, r.tid, r.ok = append(r.pid[:0], pid...), append(r.tid[:0], tid...), true
		c.message = threadKey(c.message[:0], pid, tid)
		r.track = append(r.track[:0], c.Meta.threads[string(c.message)]...)
	}
	return r.track
}

// flush gives out the open part.
func (c *Cutter) flush(last bool) {
	head := c.Head
	head.Last = last
	var err error
	c.message, err = appendHead(c.message[:0], &head)
	if err == nil && c.err == nil {
		c.message = append(c.message, c.body...)
		c.err = c.Send(&head, c.elements+head.Besides, c.size, c.message)
	}
	c.err = cmp.Or(c.err, err)
	c.body, c.elements, c.size, c.before = c.body[:0], 0, 0, 0
	c.Head.Index++
	c.Head.Besides, c.Head.Devices = 0, nil
	c.texts.next()
}

// numbers reads of the args what has a column of its own.
func (c *Cutter) numbers() {
	o := &c.out
	if len(o.Args) == 0 {
		return
	}
	chrometrace.EachMember(o.Args, func(key, v []byte) {
		switch string(key) {
		case `"correlation"`:
			o.Correlation = unsigned(v)
		case `"External id"`, `"external id"`:
			o.External = unsigned(v)
		case `"device"`:
			if n, ok := Integer(v); ok && n >= 0 && n <= math.MaxInt32 {
				o.Device = int32(n)
			}
		case `"stream"`:
			if n, ok := Integer(v); ok {
				o.Stream = n
			}
		}
	})
}

// compact makes args of the event's: without the space between its tokens, and nothing of what is no object or an empty one.
func (c *Cutter) compact(v []byte) {
	c.args = c.args[:0]
	if len(v) < 2 || v[0] != '{' {
		return
	}
	for i := 0; i < len(v); {
		if v[i] == '"' {
			end, _, ok := jsonscan.String(v, i)
			if !ok {
				end = i + 1
			}
			c.args = append(c.args, v[i:end]...)
			i = end
			continue
		}
		if v[i] > ' ' {
			c.args = append(c.args, v[i])
		}
		i++
	}
	if len(c.args) == 2 {
		c.args = c.args[:0]
	}
}

// short is a value for people.
func short(v []byte) string {
	if len(v) == 0 {
		return "(none)"
	}
	if len(v) > 80 {
		return string(v[:80]) + "…"
	}
	return string(v)
}

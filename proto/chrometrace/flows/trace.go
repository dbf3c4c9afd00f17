package flows

import (
	"bytes"
	"math"
	"strconv"

	"github.com/warpline/warpline/proto/chrometrace"
)

// Slice is what an arrow can be bound to: a slice or an instant.
type Slice struct {
	// TS is when it begins, in ns as Perfetto has them. Dur is how long it takes: 0 of an instant, -1 of one that never ends.
	TS, Dur     int64
	Correlation int64 // 0 of none
	Name        uint32
	track       uint32
	text        uint32 // thread as text
	process     uint32 // as text
	kind        kind
	side        side
}

// side is which end of a launch a slice is.
type side uint8

const (
	neither side = iota
	host         // a call of a runtime or a driver
	device       // what a GPU did
)

// kind is what an event is to a viewer.
type kind uint8

const (
	complete  kind = iota // X
	begin                 // B
	end                   // E
	instant               // i of a thread
	asyncHead             // b, n
	asyncEnd              // e
	flowStart
	flowStep
	flowEnd
)

// event is an event that matters to arrows. They are sorted by time.
type event struct {
	ts    int64
	dur   int64
	order uint32
	ref   uint32 // a slice, a flow, or the name of an end
	kind  kind
}

// flow is an end of an arrow: s, t or f.
type flow struct {
	ts      int64
	offset  int64
	key     uint32 // of v1Keys: id, category and name
	track   uint32
	text    uint32 // thread as text: pid and tid, where a number and its text are one
	before  int32  // the slice that was written just before it, with its thread and time; -1 for none
	kind    kind
	valid   bool // the id is one
	enclose bool // bp is e
	other   bool // bp is something else
	input   bool // the category says that a missing bp means e to chrome://tracing
	id      int64
}

// bind is an end of an arrow that stands on a slice itself.
type bind struct {
	id      uint64
	in, out bool
}

// Trace is the events of a trace that matter to arrows. Its zero value is not ready: use New. It is not safe for concurrent use.
type Trace struct {
	Slices []Slice
	// Skipped counts events without a time, a phase or a duration, which viewers leave out.
	Skipped uint64

	names   texts
	tracks  texts // threads as Perfetto has them
	plain   texts // threads as text
	pids    texts // processes as text
	keys    texts
	events  []event
	flows   []flow
	binds   map[uint32]bind // by slice
	undrawn bool
	last    int32 // the slice that was written last, -1 for none
	lastTS  int64
	lastOn  uint32 // its thread as text
}

// New returns an empty trace.
func New() *Trace { return &Trace{last: -1, binds: map[uint32]bind{}} }

// NewUndrawn returns an empty trace that says what arrows mean and draws nothing, for which it would need twice the memory. Slices that end
// in an event of their own have no Dur until the caller sets it.
func NewUndrawn() *Trace { return &Trace{last: -1, binds: map[uint32]bind{}, undrawn: true} }

// Name is the name of a slice.
func (t *Trace) Name(s *Slice) string { return t.names.all[s.Name] }

// texts gives each text a number.
type texts struct {
	ids map[string]uint32
	all []string
}

func (x *texts) id(b []byte) uint32 {
	if id, ok := x.ids[string(b)]; ok {
		return id
	}
	if x.ids == nil {
		x.ids = map[string]uint32{}
	}
	id := uint32(len(x.all))
	x.all = append(x.all, string(b))
	x.ids[x.all[id]] = id
	return id
}

// Add takes an event, in the order of the file.
func (t *Trace) Add(e *chrometrace.Event) {
	if len(e.Phase) < 3 || e.Phase[0] != '"' || e.Phase[2] != '"' {
		if len(e.Phase) == 0 {
			t.Skipped++
		}
		return
	}
	phase := e.Phase[1]
	switch phase {
	case 'X', 'B', 'E', 'i', 'I', 'R', 'b', 'n', 'e', 's', 't', 'f':
	default:
		return
	}
	ts, ok := Nanoseconds(e.TS)
	if !ok {
		t.Skipped++
		return
	}
	ev := event{ts: ts, order: uint32(len(t.events))}
	if t.undrawn && (phase == 'E' || phase == 'e') {
		return
	}
	switch phase {
	case 's', 't', 'f':
		ev.kind = flowStart
		switch phase {
		case 't':
			ev.kind = flowStep
		case 'f':
			ev.kind = flowEnd
		}
		ev.ref = t.addFlow(e, ts, ev.kind)
	case 'E':
		ev.kind, ev.ref = end, t.addEnd(t.thread(e))
	case 'e':
		ev.kind, ev.ref = asyncEnd, t.addEnd(t.asyncTrack(e))
	default:
		if !t.addSlice(e, phase, &ev) {
			return
		}
	}
	if !t.undrawn {
		t.events = append(t.events, ev)
	}
}

// addEnd keeps the track of an end: as a slice that is none.
func (t *Trace) addEnd(track uint32) uint32 {
	t.Slices = append(t.Slices, Slice{track: track, kind: end})
	return uint32(len(t.Slices) - 1)
}

func (t *Trace) addSlice(e *chrometrace.Event, phase byte, ev *event) bool {
	s := Slice{TS: ev.ts, Name: t.text(e.Name)}
	switch phase {
	case 'X':
		dur, ok := Nanoseconds(e.Dur)
		if !ok || dur < 0 {
			t.Skipped++
			return false
		}
		ev.dur, s.Dur, s.kind = dur, dur, complete
	case 'B':
		s.Dur, s.kind = -1, begin
	case 'b':
		s.Dur, s.kind = -1, asyncHead
	case 'n':
		s.kind = asyncHead
	default:
		if scope := string(e.Scope); scope == `"g"` || scope == `"p"` {
			return false // on a track of the process, or of all
		}
		s.kind = instant
	}
	ev.kind = s.kind
	if s.kind == asyncHead {
		s.track = t.asyncTrack(e)
	} else {
		s.track = t.thread(e)
	}
	s.side = sideOf(e.Category)
	if s.side != neither || len(e.Args) > 2 {
		s.Correlation = correlationOf(e.Args)
	}
	s.text, s.process = t.threadText(e), t.pids.id(bytes.Trim(e.PID, `"`))
	ev.ref = uint32(len(t.Slices))
	if len(e.BindID) > 0 {
		if id, ok := flowID(e.BindID); ok {
			t.binds[ev.ref] = bind{id, string(e.FlowIn) == "true", string(e.FlowOut) == "true"}
		}
	}
	t.Slices = append(t.Slices, s)
	t.last, t.lastTS, t.lastOn = int32(ev.ref), ev.ts, s.text
	return true
}

func (t *Trace) addFlow(e *chrometrace.Event, ts int64, kind kind) uint32 {
	f := flow{ts: ts, offset: e.Offset, track: t.thread(e), text: t.threadText(e), before: -1, kind: kind,
		enclose: string(e.BindingPoint) == `"e"`, input: bytes.Contains(e.Category, []byte("input")) ||
			bytes.Contains(e.Category, []byte("ipc.flow"))}
	f.other = len(e.BindingPoint) > 0 && !f.enclose
	id, ok := flowID(e.ID)
	f.valid, f.id = ok, int64(id)
	key := strconv.AppendUint(make([]byte, 0, 64), id, 16)
	key = append(append(key, 0), e.Category...)
	f.key = t.keys.id(append(append(key, 0), e.Name...))
	if t.last >= 0 && t.lastTS == ts && t.lastOn == f.text && t.Slices[t.last].kind == complete {
		f.before = t.last
	}
	t.flows = append(t.flows, f)
	return uint32(len(t.flows) - 1)
}

// text is the number of a name as it is read.
func (t *Trace) text(value []byte) uint32 {
	if n := len(value); n >= 2 && value[0] == '"' && bytes.IndexByte(value, '\\') < 0 {
		return t.names.id(value[1 : n-1])
	}
	return t.names.id([]byte(chrometrace.Text(value)))
}

// thread is the track of an event's thread (P3): numbers that are no unsigned 32-bit ones are 0, thread 0 of another process is the one
// that is called as the process is, and texts are names of their own.
func (t *Trace) thread(e *chrometrace.Event) uint32 {
	var b [64]byte
	pid, pidText := threadNumber(e.PID)
	tid, tidText := threadNumber(e.TID)
	if tidText == nil && tid == 0 && (pid != 0 || pidText != nil) {
		tid, tidText = pid, pidText
	}
	key := appendThread(b[:0], pid, pidText)
	return t.tracks.id(appendThread(append(key, ' '), tid, tidText))
}

func appendThread(key []byte, n uint64, text []byte) []byte {
	if text != nil {
		return append(key, text...) // its quotes tell it from a number
	}
	return strconv.AppendUint(key, n, 10)
}

func threadNumber(value []byte) (n uint64, text []byte) {
	if len(value) > 0 && value[0] == '"' {
		return 0, value
	}
	n, err := strconv.ParseUint(string(value), 10, 64)
	if err != nil || n > math.MaxUint32 {
		return 0, nil
	}
	return n, nil
}

// threadText is the thread of an event where a number and its text are one.
func (t *Trace) threadText(e *chrometrace.Event) uint32 {
	var b [64]byte
	key := append(b[:0], bytes.Trim(e.PID, `"`)...)
	return t.plain.id(append(append(key, 0), bytes.Trim(e.TID, `"`)...))
}

// asyncTrack is the track of an event b, n or e.
func (t *Trace) asyncTrack(e *chrometrace.Event) uint32 {
	var b [128]byte
	key := append(append(b[:0], "async "...), e.PID...)
	return t.tracks.id(append(append(append(append(key, ' '), e.ID...), ' '), e.Category...))
}

// flowID reads an id: a whole number, or a text of hex digits (P8).
func flowID(value []byte) (uint64, bool) {
	if len(value) >= 2 && value[0] == '"' {
		text := chrometrace.Text(value)
		if len(text) > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X') {
			text = text[2:]
		}
		n, err := strconv.ParseUint(text, 16, 64)
		return n, err == nil
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return uint64(n), err == nil
}

// Nanoseconds is a time of a trace as Perfetto reads it (P1): whole us are exact, anything else goes
// through a product of doubles.
func Nanoseconds(value []byte) (int64, bool) {
	if len(value) >= 2 && value[0] == '"' {
		value = value[1 : len(value)-1]
	} else if n, err := strconv.ParseInt(string(value), 10, 64); err == nil {
		if n > math.MaxInt64/1000 || n < math.MinInt64/1000 {
			return 0, false
		}
		return n * 1000, true
	}
	us, err := strconv.ParseFloat(string(value), 64)
	if us == math.Trunc(us) && math.Abs(us) < 1<<53 {
		return int64(us) * 1000, err == nil
	}
	ns := math.Round(us * 1000)
	if err != nil || math.IsNaN(ns) || math.Abs(ns) >= 1<<63 {
		return 0, false
	}
	return int64(ns), true
}

// sideOf is which end of a launch events of a category are, as Kineto has named them since 2021.
func sideOf(category []byte) side {
	switch string(category) {
	case `"cuda_runtime"`, `"cuda_driver"`, `"Runtime"`, `"mtia_runtime"`, `"glow_runtime"`, `"xpu_runtime"`, `"xpu_driver"`,
		`"privateuse1_runtime"`, `"privateuse1_driver"`, `"hip_runtime"`:
		return host
	case `"kernel"`, `"gpu_memcpy"`, `"gpu_memset"`, `"Kernel"`, `"Memcpy"`, `"Memset"`, `"cuda_sync"`, `"xpu_sync"`, `"mtia_ccp_events"`,
		`"concurrent_kernel"`:
		return device
	}
	return neither
}

// correlationOf is args.correlation, 0 of none.
func correlationOf(args []byte) (n int64) {
	at := bytes.Index(args, []byte(`"correlation"`))
	if at < 0 {
		return 0
	}
	rest := bytes.TrimLeft(args[at+len(`"correlation"`):], " :\t\r\n")
	i := 0
	for i < len(rest) && (rest[i] == '-' || rest[i] >= '0' && rest[i] <= '9') {
		i++
	}
	n, _ = strconv.ParseInt(string(rest[:i]), 10, 64)
	return n
}

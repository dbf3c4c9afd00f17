package gpuflight

import (
	"reflect"
	"slices"
)

// Leftovers is what the structure of a rare line did not take.
type Leftovers struct {
	// Extras are keys that the type does not have, maxExtras at most, and then fields whose value does not fit (Extra.Bad), maxExtras at
	// most. They alias the line, except names of keys within objects.
	Extras []Extra
	// Unknown counts all such keys, and Bad all such fields.
	Unknown, Bad int

	bad []Extra
}

// shapes are those of the types that encoding/json reads. The two vendors' lists of a job_start repeat parts of gpu_static_devices, as pid
// and app of a deep window repeat its session's.
var shapes = map[Type]shape{
	JobStart:            shapeOf(reflect.TypeFor[Job]()).and("cuda_static_devices", "rocm_static_devices"),
	Init:                shapeOf(reflect.TypeFor[Job]()).with(shapeOf(reflect.TypeFor[olderJob]())),
	Shutdown:            shapeOf(reflect.TypeFor[JobEnd]()),
	SegmentStart:        shapeOf(reflect.TypeFor[SegmentBegin]()),
	SegmentEnd:          shapeOf(reflect.TypeFor[SegmentClose]()),
	RunEnd:              shapeOf(reflect.TypeFor[RunClose]()),
	CaptureCapabilities: shapeOf(reflect.TypeFor[Capabilities]()),
	DeepWindowEvent:     shapeOf(reflect.TypeFor[DeepWindow]()).and("pid", "app"),

	// Of these only unknown keys are found: their decoders refuse what does not fit.
	KernelDetail:      shape{}.and(detailFields[:]...),
	DictionaryUpdate:  shape{}.and(dictNames[:]...),
	SourceFileContent: shape{}.and("source_file_id", "lines"),
	CubinDisassembly:  shape{}.and("cubin_crc", "function_name", "entries"),
	PtxDisassembly:    shape{}.and("function_name", "arch", "ptx"),
}

// batchKeys are those of every batch; the last two are a host_metric_batch's.
var batchKeys = shape{}.and("batch_id", "base_time_ns", "columns", "rows", "hostname", "ip_addr")

// LeftoversOf returns what a line holds beyond what its decoder took: unknown keys; and of a job_start, init, shutdown, segment_start,
// segment_end, run_end, capture_capabilities or deep_window_event fields of another JSON kind, which were read as zero, numbers beyond
// their column, which were bounded, and elements beyond those that are read of a list. The line must have passed its decoder. It is walked
// again: of a batch call it only when Batch.UnknownKeys says that there is something to find. Of types that EventDecoder reads there are
// none here.
func LeftoversOf(line *Line) Leftovers {
	var l Leftovers
	s := shapes[line.Type]
	if line.Type.IsBatch() {
		s = batchKeys
	}
	if s != nil {
		m := walkObject(line.Raw, 0)
		l.object(&m, "", s)
		l.Extras = slices.Concat(l.Extras, l.bad)
	}
	return l
}

func (l *Leftovers) object(m *members, within string, s shape) bool {
	for m.next() {
		key := m.key
		p := s[string(key)]
		if p == nil && within == "" && ignored(key) {
			p = &place{}
		}
		if !l.value(m, within, key, p) {
			return false
		}
	}
	return m.ok
}

// value passes the value of a key, which stands in the object within; p is nil when the key is not known.
func (l *Leftovers) value(m *members, within string, key []byte, p *place) bool {
	start := m.i
	if p != nil && p.list && m.b[start] == '[' {
		element := *p
		element.list = false
		good := true
		eachElement(m.b, start, func(n, from, to int) bool {
			if p.most > 0 && n >= p.most {
				l.keep(within, key, m.b[from:to], true)
				return true
			}
			e := members{b: m.b, i: from}
			good = l.value(&e, within, key, &element)
			return good
		})
		return m.skip() && good
	}
	if p != nil && !p.list && p.object != nil && m.b[start] == '{' {
		inner := walkObject(m.b, start)
		ok := l.object(&inner, within+string(key)+".", p.object)
		m.i = inner.i
		return ok
	}
	if !m.skip() {
		return false
	}
	value := m.b[start:m.i]
	switch {
	case p == nil:
		l.keep(within, key, value, false)
	case p.list || p.object != nil:
		if value[0] != 'n' {
			l.keep(within, key, value, true)
		}
	case !p.takes(value):
		l.keep(within, key, value, true)
	}
	return true
}

func (l *Leftovers) keep(within string, name, value []byte, bad bool) {
	list, n := &l.Extras, &l.Unknown
	if bad {
		list, n = &l.bad, &l.Bad
	}
	if *n++; len(*list) < maxExtras {
		if within != "" {
			name = append([]byte(within), name...)
		}
		*list = append(*list, Extra{Name: name, Value: value, Rows: 1, Bad: bad})
	}
}

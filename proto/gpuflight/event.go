package gpuflight

import "github.com/warpline/warpline/proto/jsonscan"

// EventDecoder decodes lines that are one small event each: a memset, a marker, a configuration. It reuses its memory, so that lines that
// come by the hundred thousand cost no allocation. The zero value is ready. It is not safe for concurrent use.
//
// Each method returns an event that is valid until the next call; its texts alias the line where they can, so leave the line alone as
// long. Errors are *LineError: bad_json, missing_field, bad_value, out_of_range, bad_time or negative_duration. Times and the ids by
// which events are joined must be there, everything else is zero when it is absent or null. The first of two equal keys counts, as in
// Decode. The methods do not look at the type: the caller has.
type EventDecoder struct {
	// Extras are the keys of the last line that its type does not have, maxExtras at most, in the order of the line. They are valid as
	// long as the event.
	Extras []Extra
	// Unknown counts all such keys.
	Unknown int

	scratch []byte // texts that cannot alias the line
	top     members
	fail    *LineError // the first fault that is not syntax

	memset    Memset
	marker    Marker
	graph     GraphLaunch
	node      GraphNode
	perf      Perf
	pmConfig  PMConfig
	sass      SassSetup
	signature Signature
	rule      RuleSummary
	quality   CounterQuality
	system    System
}

// Extra is a key or a column that this package does not know.
type Extra struct {
	// Name is the key; within an object of the line it is "<object>.<key>".
	Name []byte
	// Value is its JSON as it stands in the line; for a column, a JSON array of the cells of the accepted rows.
	Value []byte
	// Rows is how many cells of a column Value holds, 1 for a key.
	Rows int
	// Bad tells a field that the type does have, of which Value is not, or not in full, what was read.
	Bad bool
}

// maxExtras is how many unknown keys or columns of one line are handed out; more are only counted. A client that is a few versions ahead
// has a handful.
const maxExtras = 32

// keepScratch is how much memory for texts a decoder keeps between lines.
const keepScratch = 1 << 20

// field is one key that a T can have. Exactly one of the functions is set; it puts the value into its place.
type field[T any] struct {
	name   string
	kind   ColumnKind // what a number must fit
	need   bool
	number func(*T, int64)
	quoted func(*T, int64) // an integer, in a string or not; a string that is not one leaves the place as it was
	float  func(*T, float64)
	text   func(*T, []byte)
	list   func(*T, []string) // strings; at most maxListed, the rest is left out
	object func(*T, *EventDecoder, *members, **LineError) (ok bool)
}

// maxListed bounds the texts kept of one list. A device has some thousand metrics, and a session asks for a few of them.
const maxListed = 4096

// ignored are keys of every line that the envelope has read, or that say nothing.
func ignored(key []byte) bool {
	switch string(key) {
	case "type", "session_id", "version":
		return true
	}
	return false
}

// decodeEvent reads the object line into v, which the caller has set to its defaults.
func decodeEvent[T any](d *EventDecoder, line []byte, fields []field[T], v *T) error {
	d.Extras, d.Unknown, d.scratch = d.Extras[:0], 0, d.scratch[:0]
	if cap(d.scratch) > keepScratch {
		d.scratch = nil
	}
	d.top, d.fail = walkObject(line, 0), nil // not on the stack: functions in tables would let them escape
	if !decodeFields(d, &d.top, "", fields, v, &d.fail) || jsonscan.Space(line, d.top.i) != len(line) {
		return badJSON(line, d.top.i)
	}
	return orNil(d.fail)
}

// decodeFields reads the object that m begins at; within names it when it is not a line of its own. false means bad syntax.
func decodeFields[T any](d *EventDecoder, m *members, within string, fields []field[T], v *T, fail **LineError) bool {
	var have uint64
	next := 0 // clients write keys in one order, so the next key is nearly always the next field
	for m.next() {
		at := -1
		if next < len(fields) && fields[next].name == string(m.key) {
			at = next
		} else {
			for i := range fields {
				if fields[i].name == string(m.key) {
					at = i
					break
				}
			}
		}
		if at < 0 {
			if !d.extra(m, within) {
				return false
			}
			continue
		}
		next = at + 1
		null := m.b[m.i] == 'n' // or not JSON, which skip will find
		if have&(1<<at) != 0 || null {
			if !m.skip() {
				return false
			}
			continue
		}
		have |= 1 << at
		if !fields[at].read(d, m, v, fail) {
			return false
		}
	}
	if !m.ok {
		return false
	}
	for i := range fields {
		if fields[i].need && have&(1<<i) == 0 {
			note(fail, ReasonMissingField, fields[i].name)
		}
	}
	return true
}

// extra keeps a key that nobody knows; false means bad syntax.
func (d *EventDecoder) extra(m *members, within string) bool {
	key, start := m.key, m.i
	if !m.skip() {
		return false
	}
	if within == "" && ignored(key) {
		return true
	}
	d.Unknown++
	if len(d.Extras) < maxExtras {
		if within != "" {
			key = append(append([]byte(within), '.'), key...)
		}
		d.Extras = append(d.Extras, Extra{Name: key, Value: m.b[start:m.i], Rows: 1})
	}
	return true
}

// read reads the value m stands on into its place; false means bad syntax.
func (f *field[T]) read(d *EventDecoder, m *members, v *T, fail **LineError) bool {
	switch {
	case f.number != nil:
		n, _, ok := m.integer(f.kind, f.name, fail)
		f.number(v, n)
		return ok
	case f.text != nil:
		s, ok := d.text(m, f.name, fail)
		f.text(v, s)
		return ok
	case f.float != nil:
		x, ok := m.float(f.name, fail)
		f.float(v, x)
		return ok
	case f.quoted != nil:
		if m.b[m.i] != '"' {
			n, good, ok := m.integer(f.kind, f.name, fail)
			if good {
				f.quoted(v, n)
			}
			return ok
		}
		s, ok := d.text(m, f.name, fail)
		if n, good := parseWhole(s, f.kind); good {
			f.quoted(v, n)
		}
		return ok
	case f.list != nil:
		list, ok := d.list(m, f.name, fail)
		f.list(v, list)
		return ok
	default:
		return f.object(v, d, m, fail)
	}
}

// parseWhole reads text that is an integer of the kind and nothing else.
func parseWhole(text []byte, kind ColumnKind) (v int64, ok bool) {
	if _, _, end := readInteger(text, 0); end != len(text) {
		return 0, false
	}
	v, reason := kind.parse(text)
	return v, reason == ""
}

// text reads a string; one with escapes or broken UTF-8 is built in scratch, which is grown before it is used, so that texts in it stay.
func (d *EventDecoder) text(m *members, name string, fail **LineError) (s []byte, ok bool) {
	if m.b[m.i] != '"' {
		note(fail, ReasonBadValue, name+" is not a string")
		return nil, m.skip()
	}
	start := m.i
	end, escaped, ok := jsonscan.String(m.b, start)
	m.i = end
	if !ok {
		return nil, false
	}
	raw := m.b[start+1 : end-1]
	n := len(d.scratch)
	s = cleanText(raw, escaped, d.scratch[n:])
	if len(s) > 0 && &s[0] != &raw[0] {
		if cap(d.scratch)-n >= len(s) && &s[0] == &d.scratch[:n+1][n] {
			d.scratch = d.scratch[:n+len(s)]
		} else {
			d.scratch = make([]byte, 0, 2*cap(d.scratch)+len(s)) // s has an array of its own; the next line's texts fit here
		}
	}
	return s, true
}

// list reads an array of strings.
func (d *EventDecoder) list(m *members, name string, fail **LineError) (list []string, ok bool) {
	bad := func() ([]string, bool) {
		note(fail, ReasonBadValue, name+" is not a list of strings")
		return nil, m.skip()
	}
	b, start := m.b, m.i
	if b[start] != '[' {
		return bad()
	}
	list = []string{}
	for i := jsonscan.Space(b, start+1); i < len(b) && b[i] != ']'; {
		if b[i] != '"' {
			return bad()
		}
		end, escaped, ok := jsonscan.String(b, i)
		if !ok {
			m.i = end
			return nil, false
		}
		if len(list) < maxListed {
			list = append(list, string(cleanText(b[i+1:end-1], escaped, nil)))
		}
		i = jsonscan.Space(b, end)
		if i < len(b) && b[i] == ',' {
			i = jsonscan.Space(b, i+1)
			if i < len(b) && b[i] == ']' {
				m.i = i
				return nil, false
			}
		} else if i < len(b) && b[i] != ']' {
			m.i = i
			return nil, false
		}
	}
	return list, m.skip()
}

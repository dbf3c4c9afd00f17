package telemetry

import (
	"slices"
	"strings"
)

// Options says how to read records and documents. The zero value is how the peer reads them.
type Options struct {
	// RefuseLegacy refuses records without schema_version instead of converting them.
	RefuseLegacy bool
	// DefaultCollector names legacy records that nothing else names; "" is "legacy.unknown".
	DefaultCollector string
	// DefaultSamplingIntervalMS is for legacy records without one.
	DefaultSamplingIntervalMS int64
	// BundleKeys reads from legacy records what the peer loses of an out-of-memory bundle: active_memory, inactive_memory,
	// device_used and device_free, each where the canonical key is not there.
	BundleKeys bool

	// EventsKey names the key that holds the list of events in a document that is an object; nil is "events", if that is a list.
	EventsKey *string
	// Lines reads a JSON record a line (NDJSON), which the peer does not. Empty lines do not count.
	Lines bool
	// MaxRecordBytes is the length of the longest record; 0 is DefaultMaxRecordBytes. A Decoder holds up to twice as much.
	MaxRecordBytes int
}

// DefaultMaxRecordBytes is what Options.MaxRecordBytes is when it is 0: a record must fit in a chunk.
const DefaultMaxRecordBytes = 1 << 20

// Validator holds what reading a record needs, for use again. The zero value is ready. Not safe for concurrent use.
type Validator struct {
	record  record
	values  values
	skip    skipper
	key     []byte // a decoded key
	strings []byte // decoded strings of the event
	meta    canon
	out     []byte // metadata of a legacy event
}

// Validate applies the rules of schema version 2 and nothing else: no conversion, and a version other than 2 is refused in its turn.
// It returns nil if the JSON text is a valid record.
func (v *Validator) Validate(text []byte) *Refusal {
	if r := v.read(text); r != nil {
		return r
	}
	if r := v.keys(); r != nil {
		return r
	}
	version := v.integer(fSchemaVersion)
	if version.kind != kInt {
		return notInteger(fSchemaVersion)
	}
	if version.wide != nil || version.v != 2 {
		return refuse(UnsupportedSchema, fSchemaVersion, " must be 2")
	}
	v.load()
	return v.values.check()
}

// Event reads the JSON text of one record, of schema version 2 or legacy, into e. It returns nil if the record is accepted; if it is
// not, e is undefined. o may be nil. What e refers to is text and memory of v: it holds until the next call.
func (v *Validator) Event(e *Event, text []byte, o *Options) *Refusal {
	if r := v.read(text); r != nil {
		return r
	}
	return v.event(e, o)
}

var standard Options

// event is Event for the record that was parsed last.
func (v *Validator) event(e *Event, o *Options) *Refusal {
	if o == nil {
		o = &standard
	}
	v.strings = v.strings[:0]
	if !v.record.has(fSchemaVersion) {
		if o.RefuseLegacy {
			return &Refusal{Code: LegacyRefused, Message: "Legacy record conversion is disabled"}
		}
		if r := v.convert(o); r != nil {
			return r
		}
		if r := v.values.check(); r != nil {
			return r
		}
		v.values.event(e)
		e.Metadata, e.Legacy = v.out, true
		return nil
	}
	version := v.integer(fSchemaVersion)
	if version.kind != kInt {
		return notInteger(fSchemaVersion)
	}
	if version.wide != nil || version.v != 2 {
		return &Refusal{UnsupportedSchema, names[fSchemaVersion], "Unsupported schema_version: " + version.big().String()}
	}
	if r := v.keys(); r != nil {
		return r
	}
	v.load()
	if r := v.values.check(); r != nil {
		return r
	}
	v.values.event(e)
	e.Metadata = v.record.bytes(v.record.tokens[fMetadata])
	return nil
}

// read parses text, which may have space around it, and finds out why if it cannot.
func (v *Validator) read(text []byte) *Refusal {
	start := skipSpace(text, 0)
	n, ok := v.record.parse(text[start:], &v.key)
	if ok && skipSpace(text, start+n) == len(text) {
		if bad := firstBad(text); bad < len(text) {
			return &Refusal{Code: BadUTF8, Message: badUTF8(text[bad:], int64(bad), true)}
		}
		return nil
	}
	return v.diagnose(text)
}

// diagnose says what is wrong with text that parse did not take whole.
func (v *Validator) diagnose(text []byte) *Refusal {
	if bad := firstBad(text); bad < len(text) {
		return &Refusal{Code: BadUTF8, Message: badUTF8(text[bad:], int64(bad), true)}
	}
	if hasPrefix(text, 0, "\ufeff") {
		return &Refusal{Code: BadJSON, Message: place{}.describe(unexpectedBOM)}
	}
	s := &v.skip
	s.reset()
	n, _, wrong := s.run(text, 0, true)
	if s.longest > 0 { // the peer stops there, whatever follows
		return &Refusal{Code: IntegerTooLong, Message: tooManyDigits(s.longest)}
	}
	if wrong == nil {
		if end := skipSpace(text, n); end < len(text) {
			wrong = &syntaxError{extraData, int64(end)}
		}
	}
	switch {
	case wrong != nil && wrong.what != nestsTooDeep:
		return &Refusal{Code: BadJSON, Message: place{}.locate(wrong, text, 0)}
	case wrong != nil || s.deepest > MaxDepth:
		return &Refusal{Code: TooDeep, Message: tooDeep}
	}
	return &Refusal{Code: EventNotObject, Message: "record must be a mapping"}
}

// keys applies the rules about which keys there are.
func (v *Validator) keys() *Refusal {
	r := &v.record
	if missing := required &^ r.seen; missing != 0 {
		var list []string
		for f := range canonicals {
			if missing>>f&1 != 0 {
				list = append(list, names[f])
			}
		}
		refusal := &Refusal{Code: MissingFields, Message: "Missing required telemetry fields: " + strings.Join(list, ", ")}
		if len(list) == 1 {
			refusal.Field = list[0]
		}
		return refusal
	}
	if r.others || r.seen&^canonical != 0 {
		var list []string
		members(r.text, func(key []byte, escaped bool, _ token) {
			if escaped {
				v.key = appendDecoded(v.key[:0], key)
				key = v.key
			}
			if lookup(key) >= canonicals {
				list = append(list, string(key))
			}
		})
		slices.Sort(list)
		list = slices.Compact(list)
		return &Refusal{Code: UnknownFields, Message: "Unknown telemetry fields: " + strings.Join(list, ", ")}
	}
	return nil
}

func (v *Validator) integer(f field) integer {
	t := v.record.get(f)
	return integerOf(v.record.bytes(t), t.kind)
}

func (v *Validator) text(f field) text { return v.textOf(v.record.get(f)) }

func (v *Validator) textOf(t token) text {
	if t.kind != kString {
		return text{kind: t.kind}
	}
	b := v.record.text[t.start+1 : t.end-1]
	if t.escaped {
		start := len(v.strings)
		v.strings = appendDecoded(v.strings, b)
		b = v.strings[start:len(v.strings):len(v.strings)]
	}
	return text{b, kString}
}

// load takes the values of a record of schema version 2.
func (v *Validator) load() {
	val := &v.values
	val.wide = false
	val.given = v.record.seen & identity
	for _, f := range [...]field{fTimestampNS, fSamplingIntervalMS, fPID, fRank, fLocalRank, fWorldSize, fDeviceID, fAllocated, fReserved,
		fActive, fInactive, fChange, fDeviceUsed, fDeviceFree, fDeviceTotal} {
		n := v.integer(f)
		val.ints[f] = n
		val.wide = val.wide || n.wide != nil
	}
	for _, f := range [...]field{fEventType, fCollector, fHost, fJobID, fContext} {
		val.texts[f] = v.text(f)
	}
	val.metadata = v.record.get(fMetadata).kind
}
